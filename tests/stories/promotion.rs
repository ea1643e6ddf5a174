//! Thesis §4.2.1: when a learner becomes a voter by itself, and when it does not.

use crate::story;

story!(
    a_learner_is_promoted_when_it_has_caught_up_and_is_heard,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    change N1 c +N4-learner
    run 100ms
    > N1: c committed at 2
    change N1 d N4=voter
    > N1: d refused: learner 4 has not caught up with the leader, or is not heard; try again when it has
    new N4
    run 500ms
    change N1 e N4=voter
    run 100ms
    > N1: e committed at 4
    members N1 N4
    > N1 at 4: N1+N2+N3+N4
    > N4 at 4: N1+N2+N3+N4
    change N1 f N4=voter
    > N1: f refused: member 4 is no learner, so it needs no vote
    # A voter can become a learner again.
    change N1 g N4=learner
    run 100ms
    > N1: g committed at 6
    members N1
    > N1 at 6: N1+N2+N3+N4-learner
    change N1 h N4=learner
    > N1: h refused: member 4 does not vote
    change N1 i N7=learner
    > N1: i refused: there is no member 7
    change N1 j N3=voter N3=learner
    > N1: j refused: member 3 is no learner, so it needs no vote
    "#
);

story!(
    a_learner_that_took_long_to_catch_up_is_promoted_in_an_idle_group,
    r#"
    nodes 3 tail=0
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    propose N1 a
    run 100ms
    > N1: a committed at 2
    snapshot N1
    transfers 4s
    new N4
    change N1 c +N4
    run 3s
    > N1: c committed at 3
    > N1 sends N4 a snapshot
    members N1
    > N1 at 3: N1+N2+N3+N4-candidate
    run 3s
    > N4 installs the snapshot of 2:t1
    members N1
    > N1 at 5: N1+N2+N3+N4
    "#
);

story!(
    a_learner_that_was_ready_and_is_heard_no_more_is_not_promoted,
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
    peers N1
    > N2 live, has 2
    > N3 live, has 2
    > N4 live, has 2
    crash N4
    run 2s
    peers N1
    > N2 live, has 2
    > N3 live, has 2
    > N4 silent, has 2, lags
    change N1 d N4=voter
    > N1: d refused: learner 4 has not caught up with the leader, or is not heard; try again when it has
    restart N4
    run 300ms
    change N1 e N4=voter
    run 100ms
    > N1: e committed at 4
    # It keeps up by definition now, and has to show it again when it does not vote any more.
    peers N1
    > N2 live, has 4
    > N3 live, has 4
    > N4 live, has 4
    change N1 f N4=learner
    deliver append
    deliver append-reply
    deliver append
    cut N4
    run 100ms
    > N1: f committed at 6
    peers N1
    > N2 live, has 6
    > N3 live, has 6
    > N4 live, has 5, lags
    "#
);
