//! What a crash must not take, and what a failed disk must not say.

use crate::story;

// scenario B59
story!(
    an_acknowledgement_waits_for_the_disk,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 100ms
    stall N2
    cut N3
    propose N1 x
    deliver append
    messages append-reply
    # A heartbeat is answered at once, and vouches for nothing.
    run 150ms
    status N1
    > N1 leader t1, commit 1, last 2:t1
    # The power fails: x was never acknowledged. With the disk at work again it is, and committed.
    crash N2
    restart N2
    log N2
    > N2 t1
    work N2
    run 500ms
    > N1: x committed at 2
    "#
);

// scenario B59
story!(
    everybody_loses_power_and_no_acknowledged_write_is_lost,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    propose N1 a
    run 150ms
    > N1: a committed at 2
    stall N1
    stall N2
    stall N3
    propose N1 b
    run 100ms
    crash N1
    crash N2
    crash N3
    work N1 N2 N3
    restart *
    run 5s
    > N2 is pre-candidate t1
    > N2 is candidate t2
    > N1 is follower t2
    > N2 is leader t2
    log
    > N1 t1 t1=a t2
    > N2 t1 t1=a t2
    > N3 t1 t1=a t2
    "#
);

// scenario B60
story!(
    a_lone_voter_applies_nothing_before_it_is_durable,
    r#"
    nodes 1
    run 10ms
    > N1 is candidate t1
    > N1 is leader t1
    stall N1
    propose N1 a
    status
    > N1 leader t1, commit 1, last 2:t1
    crash N1
    restart N1
    work N1
    run 1s
    > N1 is candidate t2
    > N1 is leader t2
    log N1
    > N1 t1 t2
    "#
);

// scenario B61
story!(
    a_node_whose_storage_failed_promises_nothing_any_more,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 100ms
    propose N1 x
    read N1 r
    fail N1
    > N1: read r refused: no leader
    > N1: x unknown
    > N1 is follower t1
    propose N1 y
    > N1: y refused: storage failed
    read N1 s
    > N1: read s refused: storage failed
    lose N1>N2 N1>N3
    run 5s
    > N3 is pre-candidate t1
    > N3 is candidate t2
    > N3 is leader t2
    status
    > N1 follower t1, commit 1, last 2:t1
    > N2 follower t2 of N3, commit 2, last 2:t2
    > N3 leader t2, commit 2, last 2:t2
    "#
);
