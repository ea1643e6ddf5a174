//! Raft §6: two configurations in force together, and every decision by both.

use crate::story;

// scenario B45
story!(
    a_new_leader_leaves_the_phase_only_when_it_is_committed_by_both,
    r#"
    # {N1 N2 N3} is to become {N1 N4 N5}. The joint entry reaches N4 alone; N1 falls.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    new N4 N5
    change N1 c +N4-learner +N5-learner
    run 500ms
    > N1: c committed at 2
    change N1 d N4=voter N5=voter N2=learner N3=learner
    hold N1>N2 N1>N3 N1>N5
    run 1ms
    crash N1
    lose N1>N2 N1>N3 N1>N5
    heal
    members N4 N5
    > N4 at 3: N1+N2-leaving+N3-leaving+N4-joining+N5-joining
    > N5 at 2: N1+N2+N3+N4-learner+N5-learner
    # N4 needs majorities of both: N2, N3 and one of N1, N5.
    skip * 1s
    cut N2
    cut N3
    campaign N4
    > N4 is pre-candidate t1
    deliver
    status
    > N1 down
    > N2 follower t1 of N1, commit 2, last 2:t1
    > N3 follower t1 of N1, commit 2, last 2:t1
    > N4 pre-candidate t1, commit 2, last 3:t1
    > N5 follower t1 of N1, commit 2, last 2:t1
    # With N2 and N3 there are two of {N1 N2 N3} and two of {N1 N4 N5}.
    heal
    campaign N4
    deliver
    > N4 is candidate t2
    > N4 is leader t2
    log
    > N1 t1 t1:N1+N2+N3+N4-learner+N5-learner t1:N1+N2-leaving+N3-leaving+N4-joining+N5-joining
    > N2 t1 t1:N1+N2+N3+N4-learner+N5-learner t1:N1+N2-leaving+N3-leaving+N4-joining+N5-joining t2 t2:N1+N2-learner+N3-learner+N4+N5
    > N3 t1 t1:N1+N2+N3+N4-learner+N5-learner t1:N1+N2-leaving+N3-leaving+N4-joining+N5-joining t2 t2:N1+N2-learner+N3-learner+N4+N5
    > N4 t1 t1:N1+N2+N3+N4-learner+N5-learner t1:N1+N2-leaving+N3-leaving+N4-joining+N5-joining t2 t2:N1+N2-learner+N3-learner+N4+N5
    > N5 t1 t1:N1+N2+N3+N4-learner+N5-learner t1:N1+N2-leaving+N3-leaving+N4-joining+N5-joining t2 t2:N1+N2-learner+N3-learner+N4+N5
    run 3s
    status
    > N1 down
    > N2 follower t2 of N4, commit 5, last 5:t2
    > N3 follower t2 of N4, commit 5, last 5:t2
    > N4 leader t2, commit 5, last 5:t2
    > N5 follower t2 of N4, commit 5, last 5:t2
    members
    > N1 down
    > N2 at 5: N1+N2-learner+N3-learner+N4+N5
    > N3 at 5: N1+N2-learner+N3-learner+N4+N5
    > N4 at 5: N1+N2-learner+N3-learner+N4+N5
    > N5 at 5: N1+N2-learner+N3-learner+N4+N5
    "#
);

// scenario B45
story!(
    whoever_leads_next_leaves_a_joint_phase_that_was_committed,
    r#"
    nodes 4
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    hold N1>N2 N1>N3 N1>N4
    change N1 c -N4
    deliver append N1>N2 N1>N3
    deliver append-reply
    log N1
    > N1 t1 t1:N1+N2+N3+N4-leaving t1:N1+N2+N3
    # The phase is committed, and N1 has written its end; nobody else has heard of that.
    crash N1
    heal
    run 3s
    > N3 is pre-candidate t1
    > N3 is candidate t2
    > N3 is leader t2
    > N4 is pre-candidate t1
    > N4 is follower t2
    members
    > N1 down
    > N2 at 3: N1+N2+N3, not N4
    > N3 at 3: N1+N2+N3, not N4
    > N4 at 3: N1+N2+N3, not N4
    log N2
    > N2 t1 t1:N1+N2+N3+N4-leaving t1:N1+N2+N3 t2
    status
    > N1 down
    > N2 follower t2 of N3, commit 4, last 4:t2
    > N3 leader t2, commit 4, last 4:t2
    > N4 follower t2, commit 2, last 3:t1
    "#
);

// scenario B45
story!(
    a_phase_whose_leader_fell_before_anybody_heard_of_it_never_was,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    cut N1
    change N1 c -N3
    run 3s
    > N1: c unknown
    > N1 is follower t1
    > N2 is pre-candidate t1
    > N2 is candidate t2
    > N2 is leader t2
    > N1 is pre-candidate t1
    heal
    run 2s
    > N1 is follower t2 of N2
    log
    > N1 t1 t2
    > N2 t1 t2
    > N3 t1 t2
    members
    > N1 at 0: N1+N2+N3
    > N2 at 0: N1+N2+N3
    > N3 at 0: N1+N2+N3
    "#
);

// scenario B50
story!(
    a_transfer_in_a_joint_phase_leaves_it_to_the_next_leader,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    hold N1>N2 N1>N3
    change N1 c -N3
    transfer N1 t N2
    heal
    run 500ms
    > N2 is candidate t2
    > N1: c unknown
    > N1 is follower t2
    > N2 is leader t2
    > N1: t N2 leads
    members
    > N1 at 4: N1+N2, not N3
    > N2 at 4: N1+N2, not N3
    > N3 at 4: N1+N2, not N3
    run 2s
    status
    > N1 follower t2 of N2, commit 4, last 4:t2
    > N2 leader t2, commit 4, last 4:t2
    > N3 follower t2, commit 4, last 4:t2
    "#
);

story!(
    reads_wait_for_no_voter_that_is_gone,
    r#"
    # A read asks N2, which does not answer; then N2 leaves, and N1 alone is a quorum.
    nodes 2
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    hold N2>N1
    read N1 r
    hold N1>N2
    change N1 c -N2 force
    deliver append N1>N2
    deliver append-reply N2>N1
    > N1: c committed at 3
    run 100ms
    > N1: read r served at 1
    members N1
    > N1 at 3: N1, not N2
    run 300ms
    propose N1 x
    > N1: x committed at 4
    "#
);
