//! Raft §5.3 at work: a plain day of a cluster.

use crate::story;

story!(
    a_write_takes_one_round_and_appends_follow_one_another,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    propose N1 a
    propose N1 b
    # Both are under way before anything is acknowledged.
    messages
    > N1>N2 t1 append after 1:t1, 1 entries, commit 1
    > N1>N3 t1 append after 1:t1, 1 entries, commit 1
    > N1>N2 t1 append after 2:t1, 1 entries, commit 1
    > N1>N3 t1 append after 2:t1, 1 entries, commit 1
    deliver append
    deliver append-reply
    > N1: a committed at 2
    > N1: b committed at 3
    status
    > N1 leader t1, commit 3, last 3:t1
    > N2 follower t1 of N1, commit 1, last 3:t1
    > N3 follower t1 of N1, commit 1, last 3:t1
    # The commit index follows at once.
    messages append
    deliver
    status
    > N1 leader t1, commit 3, last 3:t1
    > N2 follower t1 of N1, commit 3, last 3:t1
    > N3 follower t1 of N1, commit 3, last 3:t1
    "#
);

story!(
    a_batch_is_one_write_and_one_message,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    propose N1 a b c d
    messages
    > N1>N2 t1 append after 1:t1, 4 entries, commit 1
    > N1>N3 t1 append after 1:t1, 4 entries, commit 1
    deliver
    > N1: a committed at 2
    > N1: b committed at 3
    > N1: c committed at 4
    > N1: d committed at 5
    log
    > N1 t1 t1=a t1=b t1=c t1=d
    > N2 t1 t1=a t1=b t1=c t1=d
    > N3 t1 t1=a t1=b t1=c t1=d
    "#
);

story!(
    a_lone_voter_leads_at_once,
    r#"
    nodes 1
    status
    > N1 follower t0, commit 0, last 0:t0
    run 1ms
    > N1 is candidate t1
    > N1 is leader t1
    propose N1 x
    > N1: x committed at 2
    status
    > N1 leader t1, commit 2, last 2:t1
    "#
);

story!(
    two_nodes_need_each_other,
    r#"
    nodes 2
    run 3s
    > N2 is pre-candidate t0
    > N2 is candidate t1
    > N2 is leader t1
    status
    > N1 follower t1 of N2, commit 1, last 1:t1
    > N2 leader t1, commit 1, last 1:t1
    cut N2
    propose N1 x
    propose N2 y
    run 5s
    > N2 is follower t1
    > N1 is pre-candidate t1
    > N2: y unknown
    > N1: x unknown
    > N2 is pre-candidate t1
    heal
    run 5s
    > N2 is candidate t2
    > N1 is follower t2
    > N2 is leader t2
    status
    > N1 follower t2 of N2, commit 3, last 3:t2
    > N2 leader t2, commit 3, last 3:t2
    log
    > N1 t1 t1=y t2
    > N2 t1 t1=y t2
    "#
);
