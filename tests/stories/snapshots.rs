//! Raft §7: a snapshot in the place of the log's beginning.

use crate::story;

// scenario B08

story!(
    a_follower_that_needs_what_is_gone_is_sent_a_snapshot,
    r#"
    nodes 3 tail=1
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    cut N3
    propose N1 a
    propose N1 b
    propose N1 c
    run 100ms
    > N1: a committed at 2
    > N1: b committed at 3
    > N1: c committed at 4
    snapshot N1
    log N1
    > N1 [3:t1] t1=c
    status N1
    > N1 leader t1, commit 4, last 4:t1, begins after 3:t1
    heal
    run 300ms
    > N1 sends N3 a snapshot
    > N3 installs the snapshot of 4:t1
    status
    > N1 leader t1, commit 4, last 4:t1, begins after 3:t1
    > N2 follower t1 of N1, commit 4, last 4:t1
    > N3 follower t1 of N1, commit 4, last 4:t1, begins after 4:t1
    state N3
    > N3 has applied 4: a b c
    propose N1 d
    run 100ms
    > N1: d committed at 5
    log
    > N1 [3:t1] t1=c t1=d
    > N2 t1 t1=a t1=b t1=c t1=d
    > N3 [4:t1] t1=d
    "#
);

// scenario B28

// scenario B52

story!(
    a_snapshot_that_is_older_than_the_state_changes_nothing,
    r#"
    # N3 is sent a snapshot, and has it twice: the second time long after it has gone on.
    nodes 3 tail=0
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    cut N3
    propose N1 a
    run 100ms
    > N1: a committed at 2
    snapshot N1
    heal
    run 300ms
    > N1 sends N3 a snapshot
    > N3 installs the snapshot of 2:t1
    propose N1 b
    propose N1 c
    run 100ms
    > N1: b committed at 3
    > N1: c committed at 4
    state N3
    > N3 has applied 4: a b c
    arrive 1
    messages append-reply N3>N1
    > N3>N1 t1 append-reply have 4
    status N3
    > N3 follower t1 of N1, commit 4, last 4:t1, begins after 2:t1
    run 200ms
    state N3
    > N3 has applied 4: a b c
    log N3
    > N3 [2:t1] t1=b t1=c
    # Also after a restart, and when the state machine has lost something.
    crash N3
    restart N3
    arrive 1
    run 200ms
    status N3
    > N3 follower t1 of N1, commit 4, last 4:t1, begins after 2:t1
    state N3
    > N3 has applied 4: a b c
    "#
);

// scenario B52

story!(
    a_snapshot_whose_end_is_in_the_log_keeps_what_follows,
    r#"
    # N3 has the snapshot of a, and b behind it, which is not committed. Then the snapshot comes again.
    nodes 3 tail=0
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    cut N3
    propose N1 a
    run 100ms
    > N1: a committed at 2
    snapshot N1
    heal
    run 300ms
    > N1 sends N3 a snapshot
    > N3 installs the snapshot of 2:t1
    cut N2
    hold N3>N1
    propose N1 b
    deliver append N1>N3
    log N3
    > N3 [2:t1] t1=b
    arrive 1
    log N3
    > N3 [2:t1] t1=b
    messages append-reply
    > N3>N1 t1 append-reply have 3
    > N3>N1 t1 append-reply have 2
    heal
    run 100ms
    > N1: b committed at 3
    status N3
    > N3 follower t1 of N1, commit 3, last 3:t1, begins after 2:t1
    state N3
    > N3 has applied 3: a b
    "#
);

// scenario B28
story!(
    entries_that_overtake_a_snapshot_stay,
    r#"
    # The entries are on their way to N3 when N1 takes a snapshot and is told, as it probes, that N3
    # lacks them: it sends the snapshot. They come first; then the snapshot says what is committed.
    nodes 3 tail=0
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    hold N1>N3
    propose N1 a b
    propose N1 c
    deliver 1 append N1>N2
    deliver append-reply N2>N1
    > N1: a committed at 2
    > N1: b committed at 3
    snapshot N1
    send N1>N3 t1 append after 3:t1 commit 1
    deliver append-reply N3>N1
    send N1>N3 t1 append after 3:t1 commit 1
    deliver append-reply N3>N1
    > N1 sends N3 a snapshot
    deliver 2 append N1>N3
    status N3
    > N3 follower t1 of N1, commit 1, last 4:t1
    arrive 1
    status N3
    > N3 follower t1 of N1, commit 3, last 4:t1
    log N3
    > N3 t1 t1=a t1=b t1=c
    "#
);

// scenario B31

story!(
    a_snapshot_of_a_deposed_leader_is_nothing,
    r#"
    nodes 3 tail=0
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    cut N3
    propose N1 a
    run 100ms
    > N1: a committed at 2
    snapshot N1
    transfers 5s
    heal
    run 200ms
    > N1 sends N3 a snapshot
    # On its way. N2 is elected, and goes on.
    transfer N1 t N2
    deliver
    > N2 is candidate t2
    > N1 sends no snapshot any more
    > N1 is follower t2
    > N2 is leader t2
    > N1: t N2 leads
    status
    > N1 follower t2 of N2, commit 3, last 3:t2, begins after 2:t1
    > N2 leader t2, commit 3, last 3:t2
    > N3 follower t2 of N2, commit 3, last 3:t2
    arrive 1
    status N3
    > N3 follower t2 of N2, commit 3, last 3:t2
    log N3
    > N3 t1 t1=a t2
    propose N2 b
    run 6s
    > N2: b committed at 4
    status
    > N1 follower t2 of N2, commit 4, last 4:t2, begins after 2:t1
    > N2 leader t2, commit 4, last 4:t2
    > N3 follower t2 of N2, commit 4, last 4:t2
    "#
);

// scenario B56

story!(
    whoever_restarts_in_the_middle_is_sent_it_anew,
    r#"
    nodes 3 tail=0
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    cut N3
    propose N1 a
    run 100ms
    > N1: a committed at 2
    snapshot N1
    transfers 1s
    heal
    run 500ms
    > N1 sends N3 a snapshot
    crash N3
    run 100ms
    restart N3
    run 600ms
    status N3
    > N3 follower t1 of N1, commit 1, last 1:t1
    run 1500ms
    > N1 sends N3 a snapshot
    > N3 installs the snapshot of 2:t1
    status N3
    > N3 follower t1 of N1, commit 2, last 2:t1, begins after 2:t1
    state N3
    > N3 has applied 2: a
    "#
);

// scenario B38

story!(
    a_follower_that_loses_the_snapshot_it_had_is_sent_it_again,
    r#"
    # N3 has the snapshot, says so, and loses power before its mark is durable.
    nodes 3 tail=0
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    cut N3
    propose N1 a
    run 100ms
    > N1: a committed at 2
    snapshot N1
    stall N3
    heal
    run 250ms
    > N1 sends N3 a snapshot
    status N3
    > N3 follower t1 of N1, commit 2, last 2:t1, begins after 2:t1
    state N3
    > N3 has applied 1:
    crash N3
    log N3
    > N3 t1
    work N3
    restart N3
    run 500ms
    > N1 sends N3 a snapshot
    > N3 installs the snapshot of 2:t1
    status N3
    > N3 follower t1 of N1, commit 2, last 2:t1, begins after 2:t1
    state N3
    > N3 has applied 2: a
    log N3
    > N3 [2:t1] empty
    "#
);

// scenario B38

story!(
    a_transfer_that_fails_is_tried_again_when_the_peer_is_heard,
    r#"
    nodes 3 tail=0
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    cut N3
    propose N1 a
    run 100ms
    > N1: a committed at 2
    snapshot N1
    transfers 300ms
    heal
    run 200ms
    > N1 sends N3 a snapshot
    cut N1>N3
    run 500ms
    heal
    run 1s
    > N1 sends N3 a snapshot
    > N3 installs the snapshot of 2:t1
    status N3
    > N3 follower t1 of N1, commit 2, last 2:t1, begins after 2:t1
    state N3
    > N3 has applied 2: a
    "#
);

// scenario B43

story!(
    a_snapshot_brings_its_members_and_nothing_is_left_of_others,
    r#"
    # N2 leads t2 and adds N9, which nobody hears. The others go on without, and compact: N2 is sent a
    # snapshot whose configuration is older than the one that it has at 3.
    nodes 3 tail=0
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    transfer N1 t N2
    deliver
    > N2 is candidate t2
    > N1 is follower t2
    > N2 is leader t2
    > N1: t N2 leads
    cut N2
    change N2 c +N9-learner
    members N2
    > N2 at 3: N1+N2+N3+N9-learner
    run 3s
    > N2: c unknown
    > N2 is follower t2
    > N1 is pre-candidate t2
    > N1 is candidate t3
    > N1 is leader t3
    > N2 is pre-candidate t2
    propose N1 a
    run 100ms
    > N1: a committed at 4
    snapshot N1
    heal
    run 2s
    > N2 is follower t3 of N1
    > N1 sends N2 a snapshot
    > N2 installs the snapshot of 4:t3
    members
    > N1 at 0: N1+N2+N3
    > N2 at 0: N1+N2+N3
    > N3 at 0: N1+N2+N3
    log
    > N1 [4:t3] empty
    > N2 [4:t3] empty
    > N3 t1 t2 t3 t3=a
    "#
);

story!(
    a_node_that_knows_no_member_yet_takes_no_snapshot,
    r#"
    # N4 is sent the log from its beginning, and has applied a before it hears who the members are.
    nodes 3 append_bytes=1
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    propose N1 a
    run 100ms
    > N1: a committed at 2
    new N4
    change N1 c +N4-learner
    hold N1>N4
    run 100ms
    > N1: c committed at 3
    deliver N1>N4
    deliver N4>N1
    deliver 1 append N1>N4
    deliver N4>N1
    deliver 1 append N1>N4
    deliver N4>N1
    deliver 1 append N1>N4
    status N4
    > N4 follower t1 of N1, commit 2, last 2:t1
    members N4
    > N4 at 0: 
    snapshot N4
    > N4 takes no snapshot
    heal
    run 200ms
    members N4
    > N4 at 3: N1+N2+N3+N4-learner
    snapshot N4
    status N4
    > N4 follower t1 of N1, commit 3, last 3:t1
    "#
);

story!(
    who_asks_late_what_became_of_its_proposal_is_not_told_that_it_failed,
    r#"
    # x was handed on, committed, applied and compacted before the answer comes.
    nodes 3 tail=0
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    propose N2 x
    deliver propose
    hold N1>N2
    deliver append N1>N2
    deliver append-reply
    deliver commit N1>N2
    status N2
    > N2 follower t1 of N1, commit 2, last 2:t1
    propose N1 y
    deliver append N1>N2
    deliver append-reply
    > N1: y committed at 3
    deliver commit N1>N2
    snapshot N2
    log N2
    > N2 [3:t1] empty
    deliver propose-reply N1>N2
    > N2: x unknown
    "#
);

// scenario B78

story!(
    what_a_snapshot_covers_is_unknown_to_those_who_wait_for_it,
    r#"
    # N2 knows the place of x, but what stands there it learns no more. y stands at the end.
    nodes 3 tail=0
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    propose N2 x
    deliver propose
    deliver propose-reply
    lose append N1>N2
    cut N2
    run 50ms
    propose N1 y
    run 50ms
    > N1: y committed at 3
    snapshot N1
    heal
    run 200ms
    > N1 sends N2 a snapshot
    > N2: x unknown
    > N2 installs the snapshot of 3:t1
    status N2
    > N2 follower t1 of N1, commit 3, last 3:t1, begins after 3:t1
    "#
);

// scenario B56

story!(
    late_answers_do_not_begin_a_transfer_anew,
    r#"
    # While the snapshot travels, N1 hears again that N3 lacks what is gone, and what it once had.
    nodes 3 tail=0
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    cut N3
    propose N1 a
    run 100ms
    > N1: a committed at 2
    snapshot N1
    transfers 400ms
    heal
    hold N3>N1
    send N1>N3 t1 append after 1:t1 commit 1
    heal
    hold N3>N1
    run 110ms
    messages N3>N1
    > N3>N1 t1 append-reply have 1
    > N3>N1 t1 heartbeat-reply round0
    deliver 1 heartbeat-reply N3>N1
    run 5ms
    messages N3>N1
    > N3>N1 t1 append-reply have 1
    > N3>N1 t1 append-reply differ at 2, perhaps not at 1:t1
    repeat append-reply N3>N1
    deliver N3>N1
    > N1 sends N3 a snapshot
    send N1>N3 t1 append after 1:t1 commit 1
    deliver N3>N1
    peers N1
    > N2 live, has 2
    > N3 live, has 1, lags, needs a snapshot
    run 300ms
    heal
    run 500ms
    > N3 installs the snapshot of 2:t1
    status N3
    > N3 follower t1 of N1, commit 2, last 2:t1, begins after 2:t1
    "#
);

// scenario B31

story!(
    a_snapshot_of_a_newer_term_brings_that_term,
    r#"
    # N3 had heard of t2, but lost that with its power. The first thing it hears is the snapshot.
    nodes 3 tail=0
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    cut N3
    transfer N1 t N2
    deliver
    > N2 is candidate t2
    > N1 is follower t2
    > N2 is leader t2
    > N1: t N2 leads
    propose N2 a
    run 100ms
    > N2: a committed at 3
    snapshot N2
    stall N3
    heal
    transfers 5s
    run 300ms
    > N2 sends N3 a snapshot
    crash N3
    work N3
    restart N3
    cut N3
    status N3
    > N3 follower t1, commit 1, last 1:t1
    arrive 1
    > N3 installs the snapshot of 3:t2
    status N3
    > N3 follower t2 of N2, commit 3, last 3:t2, begins after 3:t2
    state N3
    > N3 has applied 3: a
    "#
);
