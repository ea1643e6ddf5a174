//! Reads under a lease (thesis §6.4.1): nobody is asked, and time is trusted.

use crate::story;

story!(
    under_a_lease_nobody_is_asked,
    r#"
    nodes 3 lease=100ms
    skip * 1s
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    propose N1 x
    run 50ms
    > N1: x committed at 2
    lease N1 a
    > N1: read a served at 2 under the lease
    messages
    # Without the wish for one, as ever.
    read N1 b
    messages heartbeat
    > N1>N2 t1 heartbeat commit 2, round1
    > N1>N3 t1 heartbeat commit 2, round1
    run 50ms
    > N1: read b served at 2
    # A follower asks the leader.
    lease N2 c
    run 50ms
    > N2: read c served at 2
    "#
);

story!(
    without_the_setting_there_is_no_lease,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    lease N1 a
    messages heartbeat
    > N1>N2 t1 heartbeat commit 1, round0
    > N1>N3 t1 heartbeat commit 1, round0
    > N1>N2 t1 heartbeat commit 1, round1
    > N1>N3 t1 heartbeat commit 1, round1
    run 50ms
    > N1: read a served at 1
    "#
);

story!(
    a_new_leader_has_no_lease_before_its_first_commit,
    r#"
    # It is heard by all, but their disks hang: what was committed before, it does not know.
    nodes 3 lease=100ms
    skip * 1s
    campaign N1
    > N1 is pre-candidate t0
    deliver pre-vote
    deliver pre-vote-reply
    > N1 is candidate t1
    deliver vote
    deliver vote-reply
    > N1 is leader t1
    stall N2 N3
    run 250ms
    lease N1 a
    run 50ms
    status N1
    > N1 leader t1, commit 0, last 1:t1
    work N2 N3
    run 50ms
    > N1: read a served at 1
    lease N1 b
    > N1: read b served at 1 under the lease
    "#
);

// scenario B22
story!(
    a_lease_runs_from_when_the_heartbeats_left,
    r#"
    # The last heartbeat leaves at 200 ms, and is answered in two. Until 1100 ms nobody else can lead.
    nodes 3 lease=100ms
    skip * 1s
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 250ms
    cut N1
    run 840ms
    lease N1 a
    > N1: read a served at 1 under the lease
    run 20ms
    lease N1 b
    run 3s
    > N1: read b refused: no leader
    > N1 is follower t1
    > N2 is pre-candidate t1
    > N2 is candidate t2
    > N2 is leader t2
    > N1 is pre-candidate t1
    status
    > N1 pre-candidate t1, commit 1, last 1:t1
    > N2 leader t2, commit 2, last 2:t2
    > N3 follower t2 of N2, commit 2, last 2:t2
    "#
);

// scenario B22
story!(
    a_slow_answer_gives_a_short_lease,
    r#"
    # The heartbeat of 300 ms is the last that is heard, and its answer comes at 900 ms: what counts
    # is when it left.
    nodes 3 lease=100ms
    skip * 1s
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 250ms
    hold N2>N1 N3>N1
    run 60ms
    cut N1>N2 N1>N3
    run 590ms
    heal N2>N1 N3>N1
    run 5ms
    lease N1 a
    > N1: read a served at 1 under the lease
    run 300ms
    status N1
    > N1 leader t1, commit 1, last 1:t1
    lease N1 b
    run 2s
    > N3 is pre-candidate t1
    > N3 is candidate t2
    > N3 is leader t2
    > N1: read b refused: no leader
    > N1 is follower t2 of N3
    "#
);

// scenario B22
story!(
    voters_are_loyal_to_the_leader_they_heard,
    r#"
    # Although they stand without asking: N2 hears nothing from N1, and N3 does.
    nodes 3 lease=100ms pre_vote=off
    skip * 1s
    elect N1
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    cut N1-N2
    campaign N2
    > N2 is candidate t2
    deliver
    status
    > N1 leader t1, commit 1, last 1:t1
    > N2 candidate t2, commit 1, last 1:t1
    > N3 follower t1 of N1, commit 1, last 1:t1
    run 100ms
    status
    > N1 leader t1, commit 1, last 1:t1
    > N2 candidate t2, commit 1, last 1:t1
    > N3 follower t1 of N1, commit 1, last 1:t1
    "#
);

// scenario B22
story!(
    who_was_just_started_is_loyal_too,
    r#"
    nodes 3 lease=100ms pre_vote=off
    skip * 1s
    elect N1
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    cut N1
    crash N3
    restart N3
    campaign N2
    > N2 is candidate t2
    deliver
    status N2 N3
    > N2 candidate t2, commit 1, last 1:t1
    > N3 follower t1, commit 1, last 1:t1
    run 500ms
    lease N1 a
    > N1: read a served at 1 under the lease
    run 600ms
    > N1 is follower t1
    campaign N2
    > N2 is candidate t3
    run 50ms
    > N2 is leader t3
    status
    > N1 follower t1, commit 1, last 1:t1
    > N2 leader t3, commit 2, last 2:t3
    > N3 follower t3 of N2, commit 2, last 2:t3
    "#
);

// scenario B21
story!(
    the_lease_is_void_when_somebody_was_asked_to_take_over,
    r#"
    nodes 3 lease=100ms
    skip * 1s
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 250ms
    lease N1 a
    > N1: read a served at 1 under the lease
    transfer N1 t N2
    lose timeout-now
    lease N1 b
    run 50ms
    > N1: read b served at 1
    run 1s
    > N1: t refused: N2 did not take over
    # Also when nothing came of it: the word may be on its way for long, as here.
    lease N1 c
    run 50ms
    > N1: read c served at 1
    send N1>N2 t1 timeout-now
    > N2 is candidate t2
    run 50ms
    > N1 is follower t2
    > N2 is leader t2
    propose N2 x
    run 50ms
    > N2: x committed at 3
    lease N1 d
    run 50ms
    > N1: read d served at 3
    "#
);

// scenario B23
story!(
    a_leader_that_slept_asks_again,
    r#"
    # The read came while it slept, and is the first thing that it hears.
    nodes 3 lease=100ms
    skip * 1s
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 250ms
    pause N1
    lease N1 a
    run 3s
    > N2 is pre-candidate t1
    > N2 is candidate t2
    > N2 is leader t2
    propose N2 x
    run 50ms
    > N2: x committed at 3
    resume N1
    > N1: read a refused: no leader
    > N1 is follower t2 of N2
    lease N1 b
    run 200ms
    > N1: read b served at 3
    "#
);

story!(
    a_lone_voter_always_has_a_lease,
    r#"
    nodes 1 lease=100ms
    run 3s
    > N1 is candidate t1
    > N1 is leader t1
    lease N1 a
    > N1: read a served at 1 under the lease
    run 1min
    lease N1 b
    > N1: read b served at 1 under the lease
    "#
);

// scenario B22
story!(
    loyalty_outlives_a_newer_term,
    r#"
    # N2 stands in t2, and N3 hears of that term but not of a leader in it. N1's lease still counts on
    # N3.
    nodes 3 lease=100ms pre_vote=off
    skip * 1s
    elect N1
    > N1 is candidate t1
    > N1 is leader t1
    run 250ms
    cut N1
    campaign N2
    > N2 is candidate t2
    send N2>N3 t2 vote-reply
    status N3
    > N3 follower t2, commit 1, last 1:t1
    campaign N2
    > N2 is candidate t3
    deliver
    status N2 N3
    > N2 candidate t3, commit 1, last 1:t1
    > N3 follower t2, commit 1, last 1:t1
    lease N1 a
    > N1: read a served at 1 under the lease
    "#
);

// scenario B22
story!(
    a_voter_that_is_left_alone_waits_for_the_lease_to_end,
    r#"
    # N1 removes itself. N2 could lead alone at once, but has just started, and N1 counts on it.
    nodes 2 lease=100ms
    skip * 1s
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 250ms
    hold N1>N2
    change N1 c -N1
    deliver append N1>N2
    deliver append-reply N2>N1
    deliver append N1>N2
    lose append-reply N2>N1
    cut N2
    crash N2
    restart N2
    run 100ms
    status N2
    > N2 follower t1, commit 2, last 3:t1
    members N2
    > N2 at 3: N2, not N1
    lease N1 a
    > N1: read a served at 2 under the lease
    run 2s
    > N1: c unknown
    > N1 is follower t1
    > N2 is candidate t2
    > N2 is leader t2
    status N2
    > N2 leader t2, commit 4, last 4:t2
    "#
);

// scenario B22
story!(
    who_was_just_started_is_no_help_in_asking_either,
    r#"
    nodes 3 lease=100ms
    skip * 1s
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 250ms
    cut N1
    crash N3
    restart N3
    skip N2 1s
    campaign N2
    > N2 is pre-candidate t1
    deliver pre-vote
    messages pre-vote-reply
    > N3>N2 t1 pre-vote-reply no
    "#
);

// scenario B22
story!(
    a_lease_allows_for_clocks_that_run_unevenly,
    r#"
    # N1's clock is slow by a tenth, the others' are fast by one: a second of theirs is 818 ms of its.
    # The last heartbeat that they hear leaves at about 222 ms; they wait until about 1132 ms.
    nodes 3 lease=0ms+100000ppm
    clock N1 -100000ppm
    clock N2 100000ppm
    clock N3 100000ppm
    skip * 1s
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 250ms
    cut N1
    run 830ms
    lease N1 a
    > N1: read a served at 1 under the lease
    run 40ms
    lease N1 b
    run 3s
    > N1: read b refused: no leader
    > N1 is follower t1
    > N2 is pre-candidate t1
    > N2 is candidate t2
    > N2 is leader t2
    > N1 is pre-candidate t1
    "#
);
