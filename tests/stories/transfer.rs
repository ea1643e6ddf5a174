//! Handing leadership over (thesis §3.10).

use crate::story;

story!(
    the_other_one_is_asked_to_stand_when_it_holds_everything,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    hold N1>N2
    propose N1 x
    run 50ms
    > N1: x committed at 2
    transfer N1 t N2
    propose N1 y
    > N1: y refused: leadership is being handed over
    status N1
    > N1 leader t1, commit 2, last 2:t1
    messages timeout-now
    heal
    run 100ms
    > N2 is candidate t2
    > N1 is follower t2
    > N2 is leader t2
    > N1: t N2 leads
    status
    > N1 follower t2 of N2, commit 3, last 3:t2
    > N2 leader t2, commit 3, last 3:t2
    > N3 follower t2 of N2, commit 3, last 3:t2
    propose N1 z
    run 100ms
    > N1: z committed at 4
    "#
);

story!(
    without_a_name_the_one_that_holds_most_takes_over,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    cut N1>N2
    propose N1 x
    run 150ms
    > N1: x committed at 2
    heal
    transfer N1 t
    run 200ms
    > N3 is candidate t2
    > N1 is follower t2
    > N3 is leader t2
    > N1: t N3 leads
    status
    > N1 follower t2 of N3, commit 3, last 3:t2
    > N2 follower t2 of N3, commit 3, last 3:t2
    > N3 leader t2, commit 3, last 3:t2
    "#
);

// scenario B50
story!(
    only_a_voter_that_is_known_can_take_over,
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
    transfer N1 t N4
    > N1: t refused: N4 does not vote
    transfer N1 u N9
    > N1: u refused: there is no member N9
    transfer N2 v N3
    > N2: v refused: ask N1
    transfer N1 w N1
    > N1: w N1 leads
    transfer N1 x N2
    transfer N1 y N3
    > N1: y refused: another transfer is under way
    run 200ms
    > N2 is candidate t2
    > N1 is follower t2
    > N2 is leader t2
    > N1: x N2 leads
    nodes 1
    run 10ms
    > N1 is candidate t1
    > N1 is leader t1
    transfer N1 z
    > N1: z refused: there is nobody else
    "#
);

// scenario B50
story!(
    a_target_that_does_not_answer_is_given_up_and_proposals_flow_again,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    crash N2
    transfer N1 t N2
    propose N1 x
    > N1: x refused: leadership is being handed over
    change N1 c -N3
    > N1: c refused: leadership is being handed over
    run 900ms
    propose N1 y
    > N1: y refused: leadership is being handed over
    run 200ms
    > N1: t refused: N2 did not take over
    propose N1 z
    run 100ms
    > N1: z committed at 2
    status
    > N1 leader t1, commit 2, last 2:t1
    > N2 down
    > N3 follower t1 of N1, commit 2, last 2:t1
    "#
);

// scenario B21
story!(
    the_late_word_of_a_transfer_that_was_given_up_still_counts,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    hold N1>N2
    run 100ms
    heal
    run 100ms
    transfer N1 t N2
    hold N1>N2
    run 1200ms
    > N1: t refused: N2 did not take over
    status N1
    > N1 leader t1, commit 1, last 1:t1
    deliver timeout-now
    > N2 is candidate t2
    heal
    run 100ms
    > N1 is follower t2
    > N2 is leader t2
    status
    > N1 follower t2 of N2, commit 2, last 2:t2
    > N2 leader t2, commit 2, last 2:t2
    > N3 follower t2 of N2, commit 2, last 2:t2
    "#
);

// scenario B50
story!(
    a_word_that_nobody_meant_changes_nothing,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    change N1 c N2=learner
    run 200ms
    > N1: c committed at 3
    # N2 was a voter when it was asked, and is none any more.
    send N1>N2 t1 timeout-now
    status N2
    > N2 follower t1 of N1, commit 3, last 3:t1
    run 200ms
    status
    > N1 leader t1, commit 3, last 3:t1
    > N2 follower t1 of N1, commit 3, last 3:t1
    > N3 follower t1 of N1, commit 3, last 3:t1
    # A word from somebody who does not lead, or led an older term.
    send N2>N3 t1 timeout-now
    send N1>N3 t0 timeout-now
    status
    > N1 leader t1, commit 3, last 3:t1
    > N2 follower t1 of N1, commit 3, last 3:t1
    > N3 follower t1 of N1, commit 3, last 3:t1
    "#
);

story!(
    the_caller_learns_who_leads_when_it_is_another,
    r#"
    # N1 hands over to N2, but N3 is elected.
    nodes 3 pre_vote=off check_quorum=off
    elect N1
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    transfer N1 t N2
    lose timeout-now
    campaign N3
    > N3 is candidate t2
    deliver
    > N1 is follower t2
    > N3 is leader t2
    > N1: t refused: N2 did not take over
    status
    > N1 follower t2 of N3, commit 2, last 2:t2
    > N2 follower t2 of N3, commit 2, last 2:t2
    > N3 leader t2, commit 2, last 2:t2
    run 200ms
    status
    > N1 follower t2 of N3, commit 2, last 2:t2
    > N2 follower t2 of N3, commit 2, last 2:t2
    > N3 leader t2, commit 2, last 2:t2
    "#
);

story!(
    a_member_of_higher_priority_leads_where_it_can,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    change N1 c N3=priority:5
    run 5s
    > N1: c committed at 2
    > N3 is candidate t2
    > N1 is follower t2
    > N3 is leader t2
    status
    > N1 follower t2 of N3, commit 3, last 3:t2
    > N2 follower t2 of N3, commit 3, last 3:t2
    > N3 leader t2, commit 3, last 3:t2
    # N3 falls and comes back: it leads again, and leadership does not go to and fro.
    crash N3
    run 4s
    > N1 is pre-candidate t2
    > N1 is candidate t3
    > N1 is leader t3
    restart N3
    run 1s
    > N3 is follower t3 of N1
    > N3 is candidate t4
    > N1 is follower t4
    > N3 is leader t4
    status
    > N1 follower t4 of N3, commit 5, last 5:t4
    > N2 follower t4 of N3, commit 5, last 5:t4
    > N3 leader t4, commit 5, last 5:t4
    run 60s
    status
    > N1 follower t4 of N3, commit 5, last 5:t4
    > N2 follower t4 of N3, commit 5, last 5:t4
    > N3 leader t4, commit 5, last 5:t4
    "#
);

story!(
    a_higher_priority_out_of_reach_costs_little,
    r#"
    # N3 is heard, but its log does not grow: its disk hangs.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    stall N3
    propose N1 x
    run 100ms
    > N1: x committed at 2
    change N1 c N3=priority:5
    run 2200ms
    > N1: c committed at 3
    propose N1 y
    run 100ms
    > N1: y committed at 4
    status
    > N1 leader t1, commit 4, last 4:t1
    > N2 follower t1 of N1, commit 4, last 4:t1
    > N3 follower t1 of N1, commit 3, last 4:t1
    run 60s
    status
    > N1 leader t1, commit 4, last 4:t1
    > N2 follower t1 of N1, commit 4, last 4:t1
    > N3 follower t1 of N1, commit 4, last 4:t1
    "#
);

// scenario B50
story!(
    who_has_read_that_it_votes_no_more_does_not_take_over,
    r#"
    # N2 has the configuration in its log, but does not know yet that it is committed.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    hold N1>N2
    change N1 c N2=learner
    run 50ms
    > N1: c committed at 3
    deliver append N1>N2
    members N2
    > N2 at 3: N1+N2-learner+N3
    status N2
    > N2 follower t1 of N1, commit 2, last 3:t1
    send N1>N2 t1 timeout-now
    status N2
    > N2 follower t1 of N1, commit 2, last 3:t1
    "#
);

story!(
    a_leader_that_slept_through_its_transfer_ends_it_when_it_wakes,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    cut N1
    transfer N1 t N2
    pause N1
    run 3s
    > N2 is pre-candidate t1
    > N2 is candidate t2
    > N2 is leader t2
    resume N1
    run 1ms
    > N1: t refused: N2 did not take over
    > N1 is follower t1
    status N1
    > N1 follower t1, commit 1, last 1:t1
    "#
);

story!(
    without_a_name_nobody_is_asked_who_is_silent,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    crash N3
    run 1100ms
    transfer N1 t
    run 100ms
    > N2 is candidate t2
    > N1 is follower t2
    > N2 is leader t2
    > N1: t N2 leads
    "#
);

story!(
    in_a_joint_phase_one_that_stays_is_rather_asked,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    hold N1>N2 N1>N3
    change N1 c -N3
    deliver append N1>N2 N1>N3
    transfer N1 t
    heal
    run 200ms
    > N2 is candidate t2
    > N1: c unknown
    > N1 is follower t2
    > N2 is leader t2
    > N1: t N2 leads
    status
    > N1 follower t2 of N2, commit 4, last 4:t2
    > N2 leader t2, commit 4, last 4:t2
    > N3 follower t2 of N2, commit 4, last 4:t2
    members N2
    > N2 at 4: N1+N2, not N3
    "#
);

story!(
    without_a_name_a_higher_priority_comes_before_a_longer_log,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    change N1 c N2=priority:3
    run 100ms
    > N1: c committed at 2
    hold N1>N2
    propose N1 x
    run 50ms
    > N1: x committed at 3
    transfer N1 t
    heal
    run 200ms
    > N2 is candidate t2
    > N1 is follower t2
    > N2 is leader t2
    > N1: t N2 leads
    status
    > N1 follower t2 of N2, commit 4, last 4:t2
    > N2 leader t2, commit 4, last 4:t2
    > N3 follower t2 of N2, commit 4, last 4:t2
    "#
);

story!(
    what_comes_to_the_old_leader_too_late_is_refused_once,
    r#"
    # N3 hands on x and y, one after the other; x comes twice, and all of it only when N1 leads
    # no more: it has surely taken none of it.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    hold N3>N1
    propose N3 x
    propose N3 y
    transfer N1 t N2
    run 100ms
    > N2 is candidate t2
    > N1 is follower t2
    > N2 is leader t2
    > N1: t N2 leads
    repeat 1 propose N3>N1
    heal
    run 50ms
    > N3: x refused: ask N2
    > N3: y refused: ask N2
    messages
    run 1s
    log N1
    > N1 t1 t2
    "#
);

story!(
    a_copy_of_what_was_taken_is_not_refused_by_who_leads_no_more,
    r#"
    # N1 takes x, but its answer is lost; a copy of x comes when N1 leads no more.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    hold N1-N3
    propose N3 x
    repeat 1 propose N3>N1
    deliver 1 propose N3>N1
    lose 1 propose-reply N1>N3
    run 50ms
    transfer N1 t N2
    run 100ms
    > N2 is candidate t2
    > N1 is follower t2
    > N2 is leader t2
    > N1: t N2 leads
    heal
    run 100ms
    log N3
    > N3 t1 t1=x t2
    run 3s
    > N3: x unknown
    "#
);

story!(
    who_is_silent_or_far_behind_is_refused_at_once_and_nothing_waits,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    crash N3
    run 2s
    transfer N1 t N3
    > N1: t refused: N3 has not caught up
    propose N1 x
    run 50ms
    > N1: x committed at 2
    transfer N1 u
    run 100ms
    > N2 is candidate t2
    > N1 is follower t2
    > N2 is leader t2
    > N1: u N2 leads
    "#
);

story!(
    a_refusal_that_comes_when_its_sender_has_moved_on_still_counts,
    r#"
    # N3 votes for N2 before it hears that N1, which hands over, has refused x.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    hold N1>N3
    hold N2>N1
    transfer N1 t N2
    propose N3 x
    run 50ms
    > N2 is candidate t2
    > N2 is leader t2
    heal
    run 100ms
    > N1 is follower t2
    > N3: x refused: leadership is being handed over
    > N1: t N2 leads
    "#
);
