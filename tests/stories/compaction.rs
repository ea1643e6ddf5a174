//! A log that begins after a snapshot (Raft §7): what is gone, and what is kept.

use crate::story;

story!(
    an_empty_log_ends_where_its_snapshot_does,
    r#"
    # N2 and N3 have only snapshots that end at 20:t7; N1 has more entries, but older ones.
    nodes 3 tail=0
    saved N1 term 7 log t6*25
    saved N2 term 7 commit 20 log t7*20
    saved N3 term 7 commit 20 log t7*20
    run 1ms
    snapshot N2 N3
    log N2
    > N2 [20:t7] empty
    skip * 1s
    campaign N1
    > N1 is pre-candidate t7
    deliver
    messages pre-vote-reply
    status N1
    > N1 pre-candidate t7, commit 0, last 25:t6
    campaign N2
    > N2 is pre-candidate t7
    deliver
    > N2 is candidate t8
    > N1 is follower t8
    > N2 is leader t8
    > N2 sends N1 a snapshot
    status
    > N1 follower t8 of N2, commit 0, last 25:t6
    > N2 leader t8, commit 21, last 21:t8, begins after 20:t7
    > N3 follower t8 of N2, commit 21, last 21:t8, begins after 20:t7
    "#
);

story!(
    a_few_entries_stay_for_those_who_are_a_little_slow,
    r#"
    nodes 3 tail=2
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    propose N1 a
    run 50ms
    > N1: a committed at 2
    cut N3
    propose N1 b
    propose N1 c
    run 100ms
    > N1: b committed at 3
    > N1: c committed at 4
    snapshot N1
    log N1
    > N1 [2:t1] t1=b t1=c
    heal
    run 300ms
    status N3
    > N3 follower t1 of N1, commit 4, last 4:t1
    "#
);

story!(
    an_append_from_before_the_snapshot_deletes_nothing,
    r#"
    # N2 has 1 to 10, and a snapshot of 1 to 8. A probe from long ago comes, and one that goes on.
    nodes 3 tail=0
    saved * term 1 commit 8 log t1*10
    run 1ms
    snapshot N2
    log N2
    > N2 [8:t1] t1=9:t1 t1=10:t1
    crash N2
    restart N2
    status N2
    > N2 follower t1, commit 8, last 10:t1, begins after 8:t1
    send N1>N2 t1 append after 3:t1 commit 8
    send N1>N2 t1 append after 3:t1 commit 8 entries t1=4:t1 t1=5:t1
    send N1>N2 t1 append after 7:t1 commit 9 entries t1=8:t1 t1=9:t1 t1=10:t1
    messages append-reply
    > N2>N1 t1 append-reply have 8
    > N2>N1 t1 append-reply have 8
    > N2>N1 t1 append-reply have 10
    status N2
    > N2 follower t1 of N1, commit 9, last 10:t1, begins after 8:t1
    log N2
    > N2 [8:t1] t1=9:t1 t1=10:t1
    state N2
    > N2 has applied 9: 1:t1 2:t1 3:t1 4:t1 5:t1 6:t1 7:t1 8:t1 9:t1
    "#
);

story!(
    the_log_is_kept_while_a_snapshot_is_under_way,
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
    transfers 500ms
    heal
    run 200ms
    > N1 sends N3 a snapshot
    propose N1 b
    propose N1 c
    run 100ms
    > N1: b committed at 3
    > N1: c committed at 4
    snapshot N1
    log N1
    > N1 [2:t1] t1=b t1=c
    run 500ms
    > N3 installs the snapshot of 2:t1
    status N3
    > N3 follower t1 of N1, commit 4, last 4:t1, begins after 2:t1
    state N3
    > N3 has applied 4: a b c
    propose N1 d
    run 100ms
    > N1: d committed at 5
    snapshot N1
    log N1
    > N1 [5:t1] empty
    "#
);

story!(
    the_log_is_kept_for_who_comes_back_from_a_snapshot,
    r#"
    # The log goes on while the snapshot is sent. Were it cut now, N3 would need the next one, which
    # takes longer, and so on. N3 catches up, and then the log is cut.
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
    transfers 500ms
    heal
    run 200ms
    > N1 sends N3 a snapshot
    propose N1 b
    propose N1 c
    run 100ms
    > N1: b committed at 3
    > N1: c committed at 4
    stall N3
    run 500ms
    snapshot N1
    log N1
    > N1 [2:t1] t1=b t1=c
    work N3
    > N3 installs the snapshot of 2:t1
    run 100ms
    state N3
    > N3 has applied 4: a b c
    propose N1 d
    run 100ms
    > N1: d committed at 5
    snapshot N1
    log N1
    > N1 [5:t1] empty
    "#
);

story!(
    entries_that_go_away_while_they_are_loaded,
    r#"
    # N3 needs 2 and 3, which are read from N1's disk; a snapshot covers them before they are there.
    nodes 3 tail=0 recent_bytes=1
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    cut N3
    propose N1 a
    run 50ms
    > N1: a committed at 2
    propose N1 b
    run 50ms
    > N1: b committed at 3
    loads 300ms
    heal
    run 150ms
    snapshot N1
    log N1
    > N1 [3:t1] empty
    run 1s
    > N1 sends N3 a snapshot
    > N3 installs the snapshot of 3:t1
    status N3
    > N3 follower t1 of N1, commit 3, last 3:t1, begins after 3:t1
    state N3
    > N3 has applied 3: a b
    "#
);

story!(
    entries_that_are_gone_when_they_are_read,
    r#"
    nodes 3 tail=0 recent_bytes=1
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    cut N3
    propose N1 a
    run 50ms
    > N1: a committed at 2
    propose N1 b
    run 50ms
    > N1: b committed at 3
    loads 300ms late
    heal
    run 150ms
    snapshot N1
    run 1s
    > N1 sends N3 a snapshot
    > N3 installs the snapshot of 3:t1
    status N3
    > N3 follower t1 of N1, commit 3, last 3:t1, begins after 3:t1
    state N3
    > N3 has applied 3: a b
    "#
);

story!(
    the_base_itself_is_not_sent,
    r#"
    # What is loaded begins at 2, and by then the log begins after 2.
    nodes 3 tail=1 recent_bytes=1
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    cut N3
    propose N1 a
    run 50ms
    > N1: a committed at 2
    propose N1 b
    run 50ms
    > N1: b committed at 3
    loads 300ms
    heal
    run 150ms
    snapshot N1
    log N1
    > N1 [2:t1] t1=b
    run 1s
    > N1 sends N3 a snapshot
    > N3 installs the snapshot of 3:t1
    status N3
    > N3 follower t1 of N1, commit 3, last 3:t1, begins after 3:t1
    "#
);

story!(
    appends_under_way_that_are_compacted_are_made_good_by_a_snapshot,
    r#"
    # N3 answers heartbeats, but the appends to it are lost; N1 and N2 go on, and forget them.
    nodes 3 tail=0
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    hold N1>N3
    propose N1 a
    propose N1 b
    run 50ms
    > N1: a committed at 2
    > N1: b committed at 3
    lose append N1>N3
    heal
    snapshot N1
    log N1
    > N1 [3:t1] empty
    run 500ms
    > N1 sends N3 a snapshot
    > N3 installs the snapshot of 3:t1
    status N3
    > N3 follower t1 of N1, commit 3, last 3:t1, begins after 3:t1
    state N3
    > N3 has applied 3: a b
    "#
);

story!(
    a_state_machine_that_lost_what_the_log_still_has_applies_it_again,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    propose N1 a
    run 100ms
    > N1: a committed at 2
    snapshot N1 N2 N3
    run 100ms
    status
    > N1 leader t1, commit 2, last 2:t1
    > N2 follower t1 of N1, commit 2, last 2:t1
    > N3 follower t1 of N1, commit 2, last 2:t1
    crash N2
    forget N2 0
    restart N2
    run 100ms
    state N2
    > N2 has applied 2: a
    "#
);

story!(
    a_state_machine_that_lost_what_the_log_no_longer_has_is_restored,
    r#"
    nodes 3 tail=0
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    propose N1 a
    propose N1 b
    run 100ms
    > N1: a committed at 2
    > N1: b committed at 3
    snapshot N2
    propose N1 c
    run 100ms
    > N1: c committed at 4
    crash N2
    forget N2 1
    restart N2
    run 100ms
    > N2 installs the snapshot of 3:t1
    state N2
    > N2 has applied 4: a b c
    status N2
    > N2 follower t1 of N1, commit 4, last 4:t1, begins after 3:t1
    "#
);
