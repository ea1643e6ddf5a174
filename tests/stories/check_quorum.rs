//! Thesis §6.2 and §4.2.3: who has lost its quorum does not lead, and who leads is left in peace.

use crate::story;

// scenario B18
story!(
    a_leader_in_the_minority_steps_down_and_promises_nothing,
    r#"
    #     N1 N2  │  N3 N4 N5
    nodes 5
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    propose N1 a
    run 150ms
    > N1: a committed at 2
    split N1 N2 | N3 N4 N5
    run 100ms
    propose N1 b
    read N1 r
    # The others have not missed it yet; then for a while two lead, in different terms. campaign: N3
    # does not wait.
    skip N4 1s
    skip N5 1s
    campaign N3
    > N3 is pre-candidate t1
    deliver
    > N3 is candidate t2
    > N3 is leader t2
    status
    > N1 leader t1, commit 2, last 3:t1
    > N2 follower t1 of N1, commit 2, last 3:t1
    > N3 leader t2, commit 3, last 3:t2
    > N4 follower t2 of N3, commit 3, last 3:t2
    > N5 follower t2 of N3, commit 3, last 3:t2
    propose N3 c
    deliver
    > N3: c committed at 4
    # N1 is out within one election timeout of its last quorum: no write acknowledged, no read served.
    run 1s
    > N1: read r refused: no leader
    > N1 is follower t1
    status
    > N1 follower t1, commit 2, last 3:t1
    > N2 follower t1 of N1, commit 2, last 3:t1
    > N3 leader t2, commit 4, last 4:t2
    > N4 follower t2 of N3, commit 4, last 4:t2
    > N5 follower t2 of N3, commit 4, last 4:t2
    run 1s
    > N1: b unknown
    > N1 is pre-candidate t1
    heal
    run 3s
    > N2 is pre-candidate t1
    > N2 is follower t2
    > N1 is follower t2 of N3
    status
    > N1 follower t2 of N3, commit 4, last 4:t2
    > N2 follower t2 of N3, commit 4, last 4:t2
    > N3 leader t2, commit 4, last 4:t2
    > N4 follower t2 of N3, commit 4, last 4:t2
    > N5 follower t2 of N3, commit 4, last 4:t2
    log
    > N1 t1 t1=a t2 t2=c
    > N2 t1 t1=a t2 t2=c
    > N3 t1 t1=a t2 t2=c
    > N4 t1 t1=a t2 t2=c
    > N5 t1 t1=a t2 t2=c
    "#
);

// scenario B13
story!(
    a_cut_off_leader_that_nobody_replaces_steps_down_all_the_same,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    cut N1
    cut N2
    propose N1 x
    run 900ms
    status N1
    > N1 leader t1, commit 1, last 2:t1
    run 200ms
    > N1 is follower t1
    > N3 is pre-candidate t1
    status N1
    > N1 follower t1, commit 1, last 2:t1
    propose N1 y
    > N1: y refused: no leader
    read N1 r
    > N1: read r refused: no leader
    run 1s
    > N2 is pre-candidate t1
    > N1: x unknown
    run 10s
    > N1 is pre-candidate t1
    "#
);

// scenario B12
story!(
    a_bridge_does_not_keep_a_leader_without_a_quorum,
    r#"
    #     N1 ─── N2 ─── N3       N1 leads and sees only N2. N2, N3, N4 see each other.
    #              \   /         N5 sees nobody.
    #               N4
    nodes 5
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    cut N1-N3 N1-N4 N5
    run 900ms
    status
    > N1 leader t1, commit 1, last 1:t1
    > N2 follower t1 of N1, commit 1, last 1:t1
    > N3 follower t1 of N1, commit 1, last 1:t1
    > N4 follower t1 of N1, commit 1, last 1:t1
    > N5 follower t1 of N1, commit 1, last 1:t1
    run 6s
    > N1 is follower t1
    > N3 is pre-candidate t1
    > N5 is pre-candidate t1
    > N4 is pre-candidate t1
    > N1 is pre-candidate t1
    > N3 is candidate t2
    > N4 is follower t2
    > N3 is leader t2
    > N1 is follower t2
    > N1 is pre-candidate t2
    status
    > N1 pre-candidate t2, commit 1, last 1:t1
    > N2 follower t2 of N3, commit 2, last 2:t2
    > N3 leader t2, commit 2, last 2:t2
    > N4 follower t2 of N3, commit 2, last 2:t2
    > N5 pre-candidate t1, commit 1, last 1:t1
    "#
);

// scenario B12
story!(
    a_follower_that_cannot_reach_the_leader_does_not_depose_it,
    r#"
    # N1 cannot reach the leader N3; N2 reaches both. Terms do not climb, N3 goes on.
    nodes 3
    elect N3
    > N3 is pre-candidate t0
    > N3 is candidate t1
    > N3 is leader t1
    cut N1-N3
    run 30s
    > N1 is pre-candidate t1
    propose N3 x
    run 1s
    > N3: x committed at 2
    status
    > N1 pre-candidate t1, commit 1, last 1:t1
    > N2 follower t1 of N3, commit 2, last 2:t1
    > N3 leader t1, commit 2, last 2:t1
    "#
);

// scenario B12
story!(
    the_same_without_pre_vote,
    r#"
    nodes 3 pre_vote=off
    elect N3
    > N3 is candidate t1
    > N3 is leader t1
    cut N1-N3
    run 10s
    > N1 is candidate t2
    > N1 is candidate t3
    > N1 is candidate t4
    > N1 is candidate t5
    > N1 is candidate t6
    > N1 is candidate t7
    propose N3 x
    run 1s
    > N3: x committed at 2
    status N2 N3
    > N2 follower t1 of N3, commit 2, last 2:t1
    > N3 leader t1, commit 2, last 2:t1
    "#
);

story!(
    a_request_for_votes_is_not_heard_while_the_leader_is,
    r#"
    nodes 3 pre_vote=off
    elect N1
    > N1 is candidate t1
    > N1 is leader t1
    run 300ms
    campaign N3
    > N3 is candidate t2
    deliver vote
    messages vote-reply
    status
    > N1 leader t1, commit 1, last 1:t1
    > N2 follower t1 of N1, commit 1, last 1:t1
    > N3 candidate t2, commit 1, last 1:t1
    "#
);

// scenario B23
story!(
    a_resumed_leader_asks_for_its_quorum_before_it_leads_on,
    r#"
    # N1 sleeps for three timeouts. It wakes up a leader, and must not believe it.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    pause N1
    run 5s
    > N3 is pre-candidate t1
    > N3 is candidate t2
    > N3 is leader t2
    resume N1
    > N1 is follower t2 of N3
    status
    > N1 follower t2 of N3, commit 1, last 2:t2
    > N2 follower t2 of N3, commit 2, last 2:t2
    > N3 leader t2, commit 2, last 2:t2
    run 100ms
    status
    > N1 follower t2 of N3, commit 2, last 2:t2
    > N2 follower t2 of N3, commit 2, last 2:t2
    > N3 leader t2, commit 2, last 2:t2
    "#
);

story!(
    without_check_quorum_a_cut_off_leader_leads_until_it_hears,
    r#"
    nodes 3 check_quorum=off
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    cut N1
    propose N1 x
    read N1 r
    run 10s
    > N3 is pre-candidate t1
    > N3 is candidate t2
    > N3 is leader t2
    status
    > N1 leader t1, commit 1, last 2:t1
    > N2 follower t2 of N3, commit 2, last 2:t2
    > N3 leader t2, commit 2, last 2:t2
    heal
    run 2s
    > N1: read r refused: no leader
    > N1 is follower t2 of N3
    > N1: x superseded
    status
    > N1 follower t2 of N3, commit 2, last 2:t2
    > N2 follower t2 of N3, commit 2, last 2:t2
    > N3 leader t2, commit 2, last 2:t2
    log
    > N1 t1 t2
    > N2 t1 t2
    > N3 t1 t2
    "#
);
