//! Raft §6 and thesis §4: who belongs to the group, and how that is changed.

use crate::story;

story!(
    a_new_voter_is_a_learner_first_and_votes_when_it_has_caught_up,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    new N4
    change N1 c +N4
    members N1 N4
    > N1 at 2: N1+N2+N3+N4-candidate
    > N4 at 0: 
    run 100ms
    > N1: c committed at 2
    members N1 N4
    > N1 at 3: N1+N2+N3+N4-joining
    > N4 at 2: N1+N2+N3+N4-candidate
    run 500ms
    members
    > N1 at 4: N1+N2+N3+N4
    > N2 at 4: N1+N2+N3+N4
    > N3 at 4: N1+N2+N3+N4
    > N4 at 4: N1+N2+N3+N4
    log N4
    > N4 t1 t1:N1+N2+N3+N4-candidate t1:N1+N2+N3+N4-joining t1:N1+N2+N3+N4
    "#
);

story!(
    several_can_be_added_at_once,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    new N4 N5
    change N1 c +N4 +N5
    run 1s
    > N1: c committed at 2
    members N1 N5
    > N1 at 4: N1+N2+N3+N4+N5
    > N5 at 4: N1+N2+N3+N4+N5
    # Three of five are needed now.
    crash N2
    crash N3
    propose N1 x
    run 200ms
    > N1: x committed at 5
    crash N4
    propose N1 y
    run 200ms
    "#
);

story!(
    two_of_three_are_replaced_in_one_step,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    propose N1 x
    run 200ms
    > N1: x committed at 2
    new N4 N5
    change N1 c +N4 +N5 -N2 -N3
    members N1
    > N1 at 3: N1+N2-retiring+N3-retiring+N4-candidate+N5-candidate
    # Nobody leaves before both can join.
    hold N1>N5
    run 1s
    > N1: c committed at 3
    members N1
    > N1 at 3: N1+N2-retiring+N3-retiring+N4-candidate+N5-candidate
    heal
    run 1s
    members
    > N1 at 5: N1+N4+N5, not N2+N3
    > N2 at 5: N1+N4+N5, not N2+N3
    > N3 at 5: N1+N4+N5, not N2+N3
    > N4 at 5: N1+N4+N5, not N2+N3
    > N5 at 5: N1+N4+N5, not N2+N3
    propose N1 y
    run 200ms
    > N1: y committed at 6
    state N1 N4 N5
    > N1 has applied 6: x y
    > N4 has applied 6: x y
    > N5 has applied 6: x y
    "#
);

story!(
    a_learner_that_never_comes_holds_nobody_up_and_is_given_up,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    change N1 c +N9
    run 30s
    > N1: c committed at 2
    members N1
    > N1 at 2: N1+N2+N3+N9-candidate
    propose N1 x
    run 100ms
    > N1: x committed at 3
    # What waits to join can be given up, and is then an ordinary learner.
    change N1 d cancel
    run 100ms
    > N1: d committed at 4
    members N1
    > N1 at 4: N1+N2+N3+N9-learner
    change N1 e -N9
    run 100ms
    > N1: e committed at 5
    members N1
    > N1 at 5: N1+N2+N3, not N9
    # Its id is never given again.
    change N1 f +N9
    > N1: f refused: member 9 was removed, and an id is never given again; add it under another
    "#
);

story!(
    a_change_can_be_bound_to_what_the_caller_has_seen,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    change N1 c expect=0 N2=priority:1
    run 100ms
    > N1: c committed at 2
    members N1
    > N1 at 2: N1+N2+N3
    change N1 d expect=0 N2=priority:2
    > N1: d refused: the members were changed in the meantime (the configuration in force is that of index 2); look again
    change N1 e expect=2 N3=at:elsewhere
    run 100ms
    > N1: e committed at 3
    members N1
    > N1 at 3: N1+N2+N3
    "#
);

// scenario B41
story!(
    no_change_before_an_entry_of_the_leaders_term_is_committed,
    r#"
    # Else two leaders could change the group in two ways that have no voter in common.
    nodes 4
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    # N1 removes N4, but nobody hears of it.
    cut N1
    change N1 c -N4
    members N1 N2
    > N1 at 2: N1+N2+N3+N4-leaving
    > N2 at 0: N1+N2+N3+N4
    skip N2 1s
    skip N3 1s
    skip N4 1s
    campaign N2
    > N2 is pre-candidate t1
    deliver pre-vote
    deliver pre-vote-reply
    > N2 is candidate t2
    deliver vote
    deliver vote-reply
    > N2 is leader t2
    # N2 leads, and has committed nothing yet.
    change N2 d -N1
    > N2: d refused: the leader has only just begun to lead; try again
    deliver
    change N2 e -N1
    deliver
    > N2: e committed at 4
    run 1s
    > N1: c unknown
    > N1 is follower t1
    members N2
    > N2 at 4: N2+N3+N4, not N1
    # N1 comes back: it can never be elected by {N1 N2 N3}, and learns that it is gone.
    heal
    run 3s
    status
    > N1 follower t2, commit 4, last 4:t2
    > N2 leader t2, commit 4, last 4:t2
    > N3 follower t2 of N2, commit 4, last 4:t2
    > N4 follower t2 of N2, commit 4, last 4:t2
    members
    > N1 at 4: N2+N3+N4, not N1
    > N2 at 4: N2+N3+N4, not N1
    > N3 at 4: N2+N3+N4, not N1
    > N4 at 4: N2+N3+N4, not N1
    "#
);

story!(
    one_change_at_a_time,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    hold N1>N2 N1>N3
    change N1 c -N3
    change N1 d -N2
    > N1: d refused: another change of the members is under way; try again when it is done
    heal
    run 300ms
    > N1: c committed at 3
    change N1 e N2=priority:3
    run 100ms
    > N1: e committed at 4
    members N1
    > N1 at 4: N1+N2, not N3
    "#
);

story!(
    the_group_does_not_shrink_to_one_that_cannot_go_on,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    crash N3
    run 2s
    # Without N2, N1 would need N3.
    change N1 c -N2
    > N1: c refused: too few of the voters to come are alive for the group to go on; start them first, or force the change
    # Whoever knows better can insist: the change waits for N3.
    change N1 d -N2 force
    run 3s
    > N1: d unknown
    > N1 is follower t1
    > N2 is pre-candidate t1
    > N1 is pre-candidate t1
    members N1
    > N1 at 2: N1+N2-leaving+N3
    restart N3
    run 3s
    > N1 is candidate t2
    > N2 is follower t2
    > N1 is leader t2
    members N1 N3
    > N1 at 4: N1+N3, not N2
    > N3 at 4: N1+N3, not N2
    "#
);

story!(
    voters_retire_only_where_those_who_stay_can_go_on,
    r#"
    # N1 and N2 are to go and N6 to come; but N4 and N5 are down, and {N3 N4 N5 N6} would be dead.
    nodes 5
    elect N3
    > N3 is pre-candidate t0
    > N3 is candidate t1
    > N3 is leader t1
    run 200ms
    crash N4
    crash N5
    run 2s
    new N6
    change N3 c +N6 -N1 -N2
    run 5s
    > N3: c committed at 2
    members N3
    > N3 at 2: N1-retiring+N2-retiring+N3+N4+N5+N6-candidate
    propose N3 x
    run 100ms
    > N3: x committed at 3
    restart N4
    run 2s
    members N3
    > N3 at 5: N3+N4+N5+N6, not N1+N2
    "#
);

story!(
    the_last_voter_stays,
    r#"
    nodes 1
    run 10ms
    > N1 is candidate t1
    > N1 is leader t1
    change N1 c -N1
    > N1: c refused: no voter would be left; add another one first
    change N1 d N1=learner
    > N1: d refused: no voter would be left; add another one first
    change N1 d +N2 cancel -N1
    > N1: d refused: no voter would be left; add another one first
    new N2
    change N1 e +N2-learner
    > N1: e committed at 2
    run 200ms
    change N1 f -N1
    > N1: f refused: no voter would be left; add another one first
    members N1
    > N1 at 2: N1+N2-learner
    "#
);

// scenario B37
story!(
    the_entry_that_adds_a_second_voter_needs_it,
    r#"
    nodes 1
    run 10ms
    > N1 is candidate t1
    > N1 is leader t1
    new N2
    change N1 c +N2
    > N1: c committed at 2
    run 150ms
    members N1
    > N1 at 4: N1+N2
    nodes 1
    run 10ms
    > N1 is candidate t1
    > N1 is leader t1
    new N2
    change N1 c +N2-learner
    > N1: c committed at 2
    run 200ms
    hold N1>N2
    change N1 d N2=voter
    # In the joint phase N1 alone is not enough.
    run 300ms
    status N1
    > N1 leader t1, commit 2, last 3:t1
    members N1
    > N1 at 3: N1+N2-joining
    heal
    run 200ms
    > N1: d committed at 4
    status N1
    > N1 leader t1, commit 4, last 4:t1
    members N1
    > N1 at 4: N1+N2
    "#
);

// scenario B42
story!(
    the_newest_configuration_in_the_log_is_in_force,
    r#"
    # N4 and N5 came; N3 was away and knows only {N1 N2 N3}.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    cut N3
    new N4 N5
    change N1 c +N4 +N5
    run 1s
    > N1: c committed at 2
    members N1 N3
    > N1 at 4: N1+N2+N3+N4+N5
    > N3 at 0: N1+N2+N3
    crash N1
    run 10ms
    skip * 1s
    # N3 can ask nobody but N1 and N2, and N2 knows more.
    heal
    campaign N3
    > N3 is pre-candidate t1
    deliver
    status N3
    > N3 pre-candidate t1, commit 1, last 1:t1
    campaign N2
    > N2 is pre-candidate t1
    deliver
    > N2 is candidate t2
    > N3 is follower t2
    > N2 is leader t2
    status
    > N1 down
    > N2 leader t2, commit 5, last 5:t2
    > N3 follower t2 of N2, commit 5, last 5:t2
    > N4 follower t2 of N2, commit 5, last 5:t2
    > N5 follower t2 of N2, commit 5, last 5:t2
    run 500ms
    members
    > N1 down
    > N2 at 4: N1+N2+N3+N4+N5
    > N3 at 4: N1+N2+N3+N4+N5
    > N4 at 4: N1+N2+N3+N4+N5
    > N5 at 4: N1+N2+N3+N4+N5
    "#
);

story!(
    disks_are_noted_once_and_by_the_leader,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    identify N2 N1=9
    identify N1 N2=7
    run 200ms
    log N1
    > N1 t1 t1:N1+N2+N3
    identify N1 N2=8
    run 200ms
    log N1
    > N1 t1 t1:N1+N2+N3
    "#
);

// To note a disk is no change of who votes: who retires for a learner waits for it all the same.
story!(
    a_voter_that_retires_for_a_learner_stays_when_a_disk_is_noted,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    new N4
    cut N4
    change N1 c +N4 -N2
    run 200ms
    > N1: c committed at 2
    members N1
    > N1 at 2: N1+N2-retiring+N3+N4-candidate
    identify N1 N4=7
    identify N1 N3=8
    run 200ms
    members N1
    > N1 at 3: N1+N2-retiring+N3+N4-candidate
    heal
    run 1s
    members N1
    > N1 at 5: N1+N3+N4, not N2
    "#
);

story!(
    one_change_is_committed_before_the_next_one_begins,
    r#"
    # Nobody else has the first one yet.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    hold N1
    change N1 c +N4-learner
    change N1 d +N5-learner
    > N1: d refused: another change of the members is under way; try again when it is done
    members N1
    > N1 at 2: N1+N2+N3+N4-learner
    heal
    run 100ms
    > N1: c committed at 2
    change N1 e +N5-learner
    run 100ms
    > N1: e committed at 3
    members N1
    > N1 at 3: N1+N2+N3+N4-learner+N5-learner
    "#
);
