//! Raft §5.3: how logs that differ become equal, and what never shortens one.

use crate::story;

// scenario B27
story!(
    a_repeated_append_shortens_nothing,
    r#"
    # N2 has 1 and 2 of t1. The append of [2 3] after 1 comes: 2 stays, 3 is added. It comes again,
    # and then a late, short one.
    nodes 3
    saved N2 term 1 log t1 t1=b
    send N1>N2 t1 append after 1:t1 commit 2 entries t1=b t1=c
    log N2
    > N2 t1=1:t1 t1=b t1=c
    send N1>N2 t1 append after 3:t1 commit 3 entries t1=d t1=e
    log N2
    > N2 t1=1:t1 t1=b t1=c t1=d t1=e
    send N1>N2 t1 append after 1:t1 commit 2 entries t1=b t1=c
    send N1>N2 t1 append after 1:t1 commit 2 entries t1=b
    log N2
    > N2 t1=1:t1 t1=b t1=c t1=d t1=e
    messages append-reply
    > N2>N1 t1 append-reply have 3
    > N2>N1 t1 append-reply have 5
    > N2>N1 t1 append-reply have 3
    > N2>N1 t1 append-reply have 3
    "#
);

// scenario B27
story!(
    nor_does_it_before_anything_is_committed,
    r#"
    nodes 3
    saved N2 term 1 log t1 t1=b t1=c t1=d
    send N1>N2 t1 append after 1:t1 commit 0 entries t1=b
    log N2
    > N2 t1=1:t1 t1=b t1=c t1=d
    messages append-reply
    > N2>N1 t1 append-reply have 2
    send N1>N2 t1 append after 0:t0 commit 0
    log N2
    > N2 t1=1:t1 t1=b t1=c t1=d
    "#
);

// scenario B27
story!(
    a_true_conflict_takes_the_whole_tail,
    r#"
    nodes 3
    saved N2 term 1 log t1=a t1=b t1=c t1=d t1=e
    send N1>N2 t2 append after 2:t1 commit 2 entries t1=c t2=y
    log N2
    > N2 t1=a t1=b t1=c t2=y
    status N2
    > N2 follower t2 of N1, commit 2, last 4:t2
    "#
);

// scenario B27
story!(
    a_cut_and_what_replaces_it_are_one_write,
    r#"
    # The disk of N2 stalls. Either the old tail is there after a crash, or the new one, never neither.
    nodes 3
    saved N2 term 1 log t1=a t1=b t1=c
    stall N2
    send N1>N2 t2 append after 1:t1 commit 1 entries t2=x t2=y t2=z
    log N2
    > N2 t1=a t2=x t2=y t2=z
    crash N2
    restart N2
    log N2
    > N2 t1=a t1=b t1=c
    send N1>N2 t2 append after 1:t1 commit 1 entries t2=x t2=y t2=z
    crash N2 2
    restart N2
    log N2
    > N2 t1=a t2=x t2=y t2=z
    "#
);

// scenario B28
story!(
    what_is_committed_matches_by_definition,
    r#"
    # N2 has applied 4. It restarts; an old probe from far back finds it. Nothing is deleted, and it
    # answers with what it knows to be equal.
    nodes 3
    saved N2 term 1 commit 4 log t1 t1 t1 t1 t1
    send N1>N2 t1 append after 2:t1 commit 2
    messages append-reply
    > N2>N1 t1 append-reply have 4
    log N2
    > N2 t1=1:t1 t1=2:t1 t1=3:t1 t1=4:t1 t1=5:t1
    send N1>N2 t1 append after 1:t1 commit 2 entries t1*2
    log N2
    > N2 t1=1:t1 t1=2:t1 t1=3:t1 t1=4:t1 t1=5:t1
    "#
);

story!(
    a_conflict_costs_a_message_a_term_and_not_one_an_entry,
    r#"
    # N2 kept a long tail of terms 2 and 3 that N1 of t5 does not have.
    nodes 3 pre_vote=off
    saved N1 term 4 log t1*10 t4*20
    saved N2 term 3 log t1*10 t2*300 t3*300
    saved N3 term 4 log t1*10 t4*20
    campaign N1
    > N1 is candidate t5
    deliver vote N1>N3
    deliver vote-reply N3>N1
    > N1 is leader t5
    deliver append N1>N2
    messages append-reply N2>N1
    > N2>N1 t5 append-reply differ at 30, perhaps not at 30:t2
    deliver append-reply N2>N1
    messages append N1>N2
    > N1>N2 t5 append after 10:t1, 21 entries, commit 0
    deliver append N1>N2
    messages append-reply N2>N1
    > N2>N1 t5 append-reply have 31
    deliver
    status
    > N1 leader t5, commit 31, last 31:t5
    > N2 follower t5 of N1, commit 31, last 31:t5
    > N3 follower t5 of N1, commit 31, last 31:t5
    "#
);

// scenario B31
story!(
    an_entry_of_a_deposed_leader_is_refused_when_it_is_met,
    r#"
    # N2 is behind: N1 of t1 still has an entry for it on the way when N2 votes N3 in t2.
    nodes 3 pre_vote=off
    elect N1
    > N1 is candidate t1
    > N1 is leader t1
    run 100ms
    hold N1>N2
    propose N1 x
    skip * 1s
    campaign N3
    > N3 is candidate t2
    deliver vote N3>N2
    deliver append N1>N2
    log N2
    > N2 t1
    messages N2>N1
    > N2>N1 t2 heartbeat-reply round0
    deliver
    > N3 is leader t2
    > N1 is follower t2
    > N1: x superseded
    status
    > N1 follower t2 of N3, commit 2, last 2:t2
    > N2 follower t2 of N3, commit 2, last 2:t2
    > N3 leader t2, commit 2, last 2:t2
    "#
);

// scenario B33
story!(
    a_sync_that_ends_after_a_truncation_vouches_for_nothing,
    r#"
    # N3's disk is slow. It takes 2..4 of t1; then N2 leads t2, cuts it to 1 and writes 2 of t2. The
    # syncs end one by one: the first covers only what was cut away.
    nodes 5 pre_vote=off
    elect N1
    > N1 is candidate t1
    > N1 is leader t1
    run 100ms
    stall N3
    cut N1>N2 N1>N4 N1>N5
    propose N1 a b c
    deliver append N1>N3
    log N3
    > N3 t1 t1=a t1=b t1=c
    messages append-reply
    cut N1
    skip N4 1s
    skip N5 1s
    skip N2 1s
    campaign N2
    > N2 is candidate t2
    hold N3
    deliver
    > N2 is leader t2
    deliver append N2>N3
    log N3
    > N3 t1 t2
    messages N3>N2 append-reply
    sync N3
    messages N3>N2 append-reply
    work N3
    run 0ms
    messages N3>N2 append-reply
    > N3>N2 t2 append-reply have 2
    heal
    run 5s
    > N1 is follower t2 of N2
    > N1: a superseded
    > N1: b superseded
    > N1: c superseded
    log
    > N1 t1 t2
    > N2 t1 t2
    > N3 t1 t2
    > N4 t1 t2
    > N5 t1 t2
    "#
);
