//! Who does not vote, or does not know yet that it does (thesis §4.2).

use crate::story;

story!(
    a_learner_neither_votes_nor_counts,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    new N4
    change N1 c +N4-learner
    run 500ms
    > N1: c committed at 2
    cut N2
    cut N3
    propose N1 x
    run 200ms
    status N1 N4
    > N1 leader t1, commit 2, last 3:t1
    > N4 follower t1 of N1, commit 2, last 3:t1
    run 1s
    > N1 is follower t1
    status N1
    > N1 follower t1, commit 2, last 3:t1
    run 10s
    > N3 is pre-candidate t1
    > N2 is pre-candidate t1
    > N1: x unknown
    > N1 is pre-candidate t1
    status N4
    > N4 follower t1, commit 2, last 3:t1
    heal
    run 3s
    > N3 is candidate t2
    > N1 is follower t2
    > N2 is follower t2
    > N3 is leader t2
    state N1 N4
    > N1 has applied 3:
    > N4 has applied 3:
    "#
);

// scenario B49
story!(
    who_was_promoted_and_does_not_know_it_votes_all_the_same,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    new N4
    change N1 c +N4-learner
    run 500ms
    > N1: c committed at 2
    hold N1>N4
    change N1 d N4=voter
    run 100ms
    > N1: d committed at 4
    members N1 N4
    > N1 at 4: N1+N2+N3+N4
    > N4 at 2: N1+N2+N3+N4-learner
    # N1 falls: three of {N1 N2 N3 N4} are needed, and one of them is N4.
    crash N1
    lose N1>N4
    heal
    run 4s
    > N3 is pre-candidate t1
    > N3 is candidate t2
    > N3 is leader t2
    status
    > N1 down
    > N2 follower t2 of N3, commit 5, last 5:t2
    > N3 leader t2, commit 5, last 5:t2
    > N4 follower t2 of N3, commit 5, last 5:t2
    members N4
    > N4 at 4: N1+N2+N3+N4
    "#
);

// scenario B49
story!(
    who_has_left_and_alone_knows_it_may_lead_until_others_do,
    r#"
    # {N1 N2 N3} has become {N1 N2 N4}, but the last step has reached N3 alone, and N1 falls.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    new N4
    change N1 c +N4-learner
    run 500ms
    > N1: c committed at 2
    hold N1>N2 N1>N4 N1>N3
    change N1 d N4=voter -N3
    deliver append N1>N2 N1>N4 N1>N3
    deliver append-reply
    deliver append N1>N3
    crash N1
    lose N1>N2 N1>N4
    heal
    log N2 N3 N4
    > N2 t1 t1:N1+N2+N3+N4-learner t1:N1+N2+N3-leaving+N4-joining
    > N3 t1 t1:N1+N2+N3+N4-learner t1:N1+N2+N3-leaving+N4-joining t1:N1+N2+N4
    > N4 t1 t1:N1+N2+N3+N4-learner t1:N1+N2+N3-leaving+N4-joining
    run 6s
    > N4 is pre-candidate t1
    > N3 is pre-candidate t1
    > N3 is candidate t2
    > N4 is follower t2
    > N3 is leader t2
    > N4 is candidate t3
    > N4 is leader t3
    > N3 is follower t3
    status
    > N1 down
    > N2 follower t3 of N4, commit 6, last 6:t3
    > N3 follower t3, commit 5, last 5:t2
    > N4 leader t3, commit 6, last 6:t3
    members
    > N1 down
    > N2 at 4: N1+N2+N4, not N3
    > N3 at 4: N1+N2+N4, not N3
    > N4 at 4: N1+N2+N4, not N3
    log N2 N3 N4
    > N2 t1 t1:N1+N2+N3+N4-learner t1:N1+N2+N3-leaving+N4-joining t1:N1+N2+N4 t2 t3
    > N3 t1 t1:N1+N2+N3+N4-learner t1:N1+N2+N3-leaving+N4-joining t1:N1+N2+N4 t2
    > N4 t1 t1:N1+N2+N3+N4-learner t1:N1+N2+N3-leaving+N4-joining t1:N1+N2+N4 t2 t3
    "#
);

// scenario B49
story!(
    a_learner_with_the_longest_log_does_not_keep_the_voters_from_electing,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    new N4
    change N1 c +N4-learner
    run 500ms
    > N1: c committed at 2
    cut N1-N2
    cut N1-N3
    propose N1 x
    deliver append
    log N2 N4
    > N2 t1 t1:N1+N2+N3+N4-learner
    > N4 t1 t1:N1+N2+N3+N4-learner t1=x
    crash N1
    run 5s
    > N3 is pre-candidate t1
    > N3 is candidate t2
    > N3 is leader t2
    status
    > N1 down
    > N2 follower t2 of N3, commit 3, last 3:t2
    > N3 leader t2, commit 3, last 3:t2
    > N4 follower t2 of N3, commit 3, last 3:t2
    log N2 N4
    > N2 t1 t1:N1+N2+N3+N4-learner t2
    > N4 t1 t1:N1+N2+N3+N4-learner t2
    restart N1
    heal
    run 2s
    > N1 is follower t2 of N3
    status
    > N1 follower t2 of N3, commit 3, last 3:t2
    > N2 follower t2 of N3, commit 3, last 3:t2
    > N3 leader t2, commit 3, last 3:t2
    > N4 follower t2 of N3, commit 3, last 3:t2
    "#
);

story!(
    a_new_node_that_nobody_added_waits,
    r#"
    nodes 3
    new N4
    run 20s
    > N2 is pre-candidate t0
    > N2 is candidate t1
    > N2 is leader t1
    status N4
    > N4 follower t0, commit 0, last 0:t0
    propose N4 x
    > N4: x refused: no leader
    read N4 r
    > N4: read r refused: no leader
    change N4 c +N5
    > N4: c refused: no leader
    transfer N4 t
    > N4: t refused: no leader
    "#
);

story!(
    a_learner_serves_reads_and_hands_proposals_on,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    new N4
    change N1 c +N4-learner
    run 500ms
    > N1: c committed at 2
    propose N4 x
    read N4 r
    run 100ms
    > N4: x committed at 3
    > N4: read r served at 2
    # Its leader is lost, and it cannot stand: what waits for it ends all the same.
    propose N4 y
    cut N4
    propose N4 z
    read N4 s
    run 5s
    > N4: read s refused: no leader
    > N4: y unknown
    > N4: z unknown
    status N4
    > N4 follower t1, commit 3, last 3:t1
    "#
);

story!(
    one_that_holds_everything_in_the_end_has_caught_up,
    r#"
    # It comes late, and nothing is proposed by which it could show that it keeps up.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    new N4
    cut N4
    change N1 c +N4
    run 3s
    > N1: c committed at 2
    members N1
    > N1 at 2: N1+N2+N3+N4-candidate
    heal
    run 1s
    members N1
    > N1 at 4: N1+N2+N3+N4
    "#
);

story!(
    one_that_is_slow_and_behind_is_not_promoted,
    r#"
    # What the log held when it began takes N4 longer than an election timeout, and there is more.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    new N4
    stall N4
    change N1 c +N4
    run 1500ms
    > N1: c committed at 2
    propose N1 x
    run 50ms
    > N1: x committed at 3
    sync N4
    run 10ms
    sync N4
    run 200ms
    peers N1
    > N2 live, has 3
    > N3 live, has 3
    > N4 live, has 2, lags
    members N1
    > N1 at 2: N1+N2+N3+N4-candidate
    work N4
    run 300ms
    members N1
    > N1 at 5: N1+N2+N3+N4
    "#
);

story!(
    one_that_has_only_begun_has_not_caught_up,
    r#"
    nodes 3 append_bytes=1
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    propose N1 a b c d
    run 100ms
    > N1: a committed at 2
    > N1: b committed at 3
    > N1: c committed at 4
    > N1: d committed at 5
    new N4
    hold N1>N4
    change N1 c +N4-learner
    run 100ms
    > N1: c committed at 6
    deliver N1>N4
    deliver N4>N1
    deliver 1 append N1>N4
    deliver N4>N1
    peers N1
    > N2 live, has 6
    > N3 live, has 6
    > N4 live, has 1, lags
    heal
    run 200ms
    peers N1
    > N2 live, has 6
    > N3 live, has 6
    > N4 live, has 6
    "#
);
