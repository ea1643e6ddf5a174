//! Members that go, and what they must not do afterwards (thesis §4.2.2, §4.2.3).

use crate::story;

// scenario B47
story!(
    a_leader_that_removes_itself_leads_to_the_end_and_hands_over,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    hold N2>N1 N3>N1
    change N1 c -N1
    run 50ms
    # It does not count itself: two of {N2 N3} are needed.
    deliver append-reply N2>N1
    status N1
    > N1 leader t1, commit 1, last 2:t1
    deliver append-reply N3>N1
    log N1
    > N1 t1 t1:N1-leaving+N2+N3 t1:N2+N3
    status N1
    > N1 leader t1, commit 2, last 3:t1
    propose N1 x
    > N1: x refused: leadership is being handed over
    # Nor does it hand over before the new configuration is committed by them.
    deliver append N1>N3
    deliver append-reply N3>N1
    messages timeout-now
    deliver append N1>N2
    deliver append-reply N2>N1
    > N1: c committed at 3
    messages timeout-now
    > N1>N3 t1 timeout-now
    heal
    run 1s
    > N3 is candidate t2
    > N3 is leader t2
    > N1 is follower t2
    status
    > N1 follower t2, commit 3, last 3:t1
    > N2 follower t2 of N3, commit 4, last 4:t2
    > N3 leader t2, commit 4, last 4:t2
    members
    > N1 at 3: N2+N3, not N1
    > N2 at 3: N2+N3, not N1
    > N3 at 3: N2+N3, not N1
    propose N1 y
    > N1: y refused: no leader
    "#
);

// scenario B47
story!(
    the_one_that_stays_leads_alone,
    r#"
    # {N1 N2}: N1 removes itself, and is gone before N2 hears that it is committed.
    nodes 2
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    hold N1>N2
    change N1 c -N1
    deliver append N1>N2
    deliver append-reply N2>N1
    deliver append N1>N2
    deliver append-reply N2>N1
    > N1: c committed at 3
    crash N1
    lose N1>N2
    heal
    status
    > N1 down
    > N2 follower t1 of N1, commit 2, last 3:t1
    run 5s
    > N2 is candidate t2
    > N2 is leader t2
    status
    > N1 down
    > N2 leader t2, commit 4, last 4:t2
    propose N2 x
    > N2: x committed at 5
    run 100ms
    "#
);

// scenario B47
story!(
    the_one_that_stays_finishes_a_phase_with_the_one_that_goes,
    r#"
    # The same, but N1 is gone before N2 has the last step: until N1 returns, {N1 N2} has no majority.
    nodes 2
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    hold N1>N2
    change N1 c -N1
    deliver append N1>N2
    crash N1
    lose N1>N2
    heal
    run 5s
    > N2 is pre-candidate t1
    status
    > N1 down
    > N2 pre-candidate t1, commit 1, last 2:t1
    members N2
    > N2 at 2: N1-leaving+N2
    restart N1
    run 5s
    > N2 is candidate t2
    > N1 is follower t2
    > N2 is leader t2
    status
    > N1 follower t2, commit 4, last 4:t2
    > N2 leader t2, commit 4, last 4:t2
    members
    > N1 at 4: N2, not N1
    > N2 at 4: N2, not N1
    "#
);

// scenario B47
story!(
    a_removed_node_that_was_down_disturbs_nobody,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    crash N3
    run 2s
    change N1 c -N3
    run 10s
    > N1: c committed at 3
    restart N3
    run 30s
    > N3 is pre-candidate t1
    status
    > N1 leader t1, commit 3, last 3:t1
    > N2 follower t1 of N1, commit 3, last 3:t1
    > N3 pre-candidate t1, commit 1, last 1:t1
    members
    > N1 at 3: N1+N2, not N3
    > N2 at 3: N1+N2, not N3
    > N3 at 0: N1+N2+N3
    propose N3 x
    > N3: x refused: no leader
    read N3 r
    > N3: read r refused: no leader
    run 5s
    "#
);

story!(
    nor_does_it_where_nodes_stand_without_asking,
    r#"
    nodes 3 pre_vote=off
    elect N1
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    crash N3
    run 2s
    change N1 c -N3
    run 10s
    > N1: c committed at 3
    restart N3
    run 30s
    > N3 is candidate t2
    > N3 is candidate t3
    > N3 is candidate t4
    > N3 is candidate t5
    > N3 is candidate t6
    > N3 is candidate t7
    > N3 is candidate t8
    > N3 is candidate t9
    > N3 is candidate t10
    > N3 is candidate t11
    > N3 is candidate t12
    > N3 is candidate t13
    > N3 is candidate t14
    > N3 is candidate t15
    > N3 is candidate t16
    > N3 is candidate t17
    > N3 is candidate t18
    > N3 is candidate t19
    > N3 is candidate t20
    > N3 is candidate t21
    status N1 N2
    > N1 leader t1, commit 3, last 3:t1
    > N2 follower t1 of N1, commit 3, last 3:t1
    "#
);

story!(
    who_is_removed_and_hears_of_it_stands_no_more,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    change N1 c -N3
    run 1s
    > N1: c committed at 3
    status
    > N1 leader t1, commit 3, last 3:t1
    > N2 follower t1 of N1, commit 3, last 3:t1
    > N3 follower t1 of N1, commit 3, last 3:t1
    members N3
    > N3 at 3: N1+N2, not N3
    run 60s
    status
    > N1 leader t1, commit 3, last 3:t1
    > N2 follower t1 of N1, commit 3, last 3:t1
    > N3 follower t1, commit 3, last 3:t1
    "#
);

story!(
    what_waits_at_a_removed_node_ends,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    hold N1>N3
    propose N3 x
    read N3 r
    deliver
    change N1 c -N3
    run 1s
    > N1: c committed at 4
    crash N1
    crash N2
    heal
    run 5s
    > N3: read r served at 1
    > N3: x committed at 2
    > N3 is pre-candidate t1
    status N3
    > N3 pre-candidate t1, commit 3, last 4:t1
    "#
);

story!(
    a_leader_that_is_demoted_hands_over_and_stays_as_a_learner,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    change N1 c N1=learner
    run 1s
    > N1: c committed at 3
    > N3 is candidate t2
    > N3 is leader t2
    > N1 is follower t2 of N3
    status
    > N1 follower t2 of N3, commit 4, last 4:t2
    > N2 follower t2 of N3, commit 4, last 4:t2
    > N3 leader t2, commit 4, last 4:t2
    members N1
    > N1 at 3: N1-learner+N2+N3
    propose N1 x
    run 100ms
    > N1: x committed at 5
    "#
);

// scenario B47
story!(
    a_removed_leader_whose_successor_does_not_come_steps_down,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    change N1 c -N1
    deliver append
    deliver append-reply
    deliver append
    deliver append-reply
    > N1: c committed at 3
    lose timeout-now
    run 1100ms
    > N1 is follower t1
    status
    > N1 follower t1, commit 3, last 3:t1
    > N2 follower t1 of N1, commit 3, last 3:t1
    > N3 follower t1 of N1, commit 3, last 3:t1
    run 3s
    > N3 is pre-candidate t1
    > N3 is candidate t2
    > N3 is leader t2
    status
    > N1 follower t1, commit 3, last 3:t1
    > N2 follower t2 of N3, commit 4, last 4:t2
    > N3 leader t2, commit 4, last 4:t2
    "#
);
