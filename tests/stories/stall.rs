//! Disks that hang without failing.

use crate::story;

// scenario B15
story!(
    a_leader_whose_disk_hangs_yields_to_one_whose_works,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    stall N1
    propose N1 x
    run 200ms
    run 2500ms
    status
    > N1 leader t1, commit 2, last 2:t1
    > N2 follower t1 of N1, commit 2, last 2:t1
    > N3 follower t1 of N1, commit 2, last 2:t1
    run 1s
    > N1 is follower t1
    > N3 is candidate t2
    > N3 is leader t2
    status
    > N1 follower t2 of N3, commit 3, last 3:t2
    > N2 follower t2 of N3, commit 3, last 3:t2
    > N3 leader t2, commit 3, last 3:t2
    propose N2 y
    run 200ms
    > N2: y committed at 4
    # The disk works again: it follows, and may lead.
    work N1
    > N1: x committed at 2
    run 300ms
    status
    > N1 follower t2 of N3, commit 4, last 4:t2
    > N2 follower t2 of N3, commit 4, last 4:t2
    > N3 leader t2, commit 4, last 4:t2
    propose N1 z
    run 100ms
    > N1: z committed at 5
    "#
);

// scenario B15
story!(
    an_idle_leader_does_not_notice_and_need_not,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    stall N1
    run 10s
    status N1
    > N1 leader t1, commit 1, last 1:t1
    propose N1 x
    run 1s
    status N1
    > N1 leader t1, commit 2, last 2:t1
    "#
);

// scenario B15
story!(
    a_follower_whose_disk_hangs_does_not_stand_and_catches_up,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    stall N2
    propose N1 x
    run 5s
    > N1: x committed at 2
    status N2
    > N2 follower t1 of N1, commit 2, last 2:t1
    crash N1
    run 10s
    > N3 is pre-candidate t1
    status
    > N1 down
    > N2 follower t1, commit 2, last 2:t1
    > N3 pre-candidate t1, commit 2, last 2:t1
    work N2
    run 3s
    > N2 is pre-candidate t1
    > N2 is candidate t2
    > N3 is follower t2
    > N2 is leader t2
    restart N1
    run 1s
    > N1 is follower t2 of N2
    status
    > N1 follower t2 of N2, commit 3, last 3:t2
    > N2 leader t2, commit 3, last 3:t2
    > N3 follower t2 of N2, commit 3, last 3:t2
    "#
);

// scenario B15
story!(
    a_lone_voter_whose_disk_hangs_waits_for_it,
    r#"
    nodes 1
    run 10ms
    > N1 is candidate t1
    > N1 is leader t1
    stall N1
    propose N1 x
    run 4s
    > N1 is follower t1
    status
    > N1 follower t1, commit 1, last 2:t1
    propose N1 y
    > N1: y refused: no leader
    work N1
    run 3s
    > N1: x unknown
    > N1 is candidate t2
    > N1 is leader t2
    status
    > N1 leader t2, commit 3, last 3:t2
    "#
);

story!(
    a_failed_disk_hands_over_before_it_is_silent,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    fail N1
    > N1 is follower t1
    messages
    > N1>N2 t1 heartbeat commit 1, round0
    > N1>N3 t1 heartbeat commit 1, round0
    > N1>N3 t1 timeout-now
    run 200ms
    > N3 is candidate t2
    > N3 is leader t2
    status
    > N1 follower t1, commit 1, last 1:t1
    > N2 follower t2 of N3, commit 2, last 2:t2
    > N3 leader t2, commit 2, last 2:t2
    "#
);

// scenario B15
story!(
    a_candidate_whose_disk_hangs_gives_up,
    r#"
    nodes 3 pre_vote=off
    stall N1
    campaign N1
    > N1 is candidate t1
    run 2900ms
    > N1 is candidate t2
    > N2 is candidate t1
    > N2 is follower t2
    > N1 is candidate t3
    crash N2
    crash N3
    run 5s
    > N1 is follower t3
    status N1
    > N1 follower t3, commit 0, last 0:t0
    "#
);

// scenario B50
story!(
    a_node_whose_disk_hangs_does_not_take_over,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    stall N2
    propose N1 x
    run 4s
    > N1: x committed at 2
    send N1>N2 t1 timeout-now
    status N2
    > N2 follower t1 of N1, commit 2, last 2:t1
    "#
);
