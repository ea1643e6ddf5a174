//! Thesis §9.6: ask before standing, and change nothing by asking.

use crate::story;

story!(
    a_granted_pre_vote_changes_nothing,
    r#"
    nodes 3
    skip * 1s
    campaign N1
    > N1 is pre-candidate t0
    status N2
    > N2 follower t0, commit 0, last 0:t0
    deliver pre-vote N1>N2
    messages pre-vote-reply N2>N1
    > N2>N1 t0 pre-vote-reply yes
    status N2
    > N2 follower t0, commit 0, last 0:t0
    # Not even its timer: N2 grants, and may ask for itself in the same instant.
    campaign N2
    > N2 is pre-candidate t0
    status
    > N1 pre-candidate t0, commit 0, last 0:t0
    > N2 pre-candidate t0, commit 0, last 0:t0
    > N3 follower t0, commit 0, last 0:t0
    "#
);

story!(
    a_follower_cut_off_for_an_hour_disturbs_nobody,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    cut N3
    propose N1 a
    run 1h
    > N1: a committed at 2
    > N3 is pre-candidate t1
    status
    > N1 leader t1, commit 2, last 2:t1
    > N2 follower t1 of N1, commit 2, last 2:t1
    > N3 pre-candidate t1, commit 1, last 1:t1
    heal
    run 3s
    > N3 is follower t1 of N1
    # The same leader in the same term, and N3 has all.
    status
    > N1 leader t1, commit 2, last 2:t1
    > N2 follower t1 of N1, commit 2, last 2:t1
    > N3 follower t1 of N1, commit 2, last 2:t1
    "#
);

story!(
    without_pre_vote_it_costs_the_leader_its_term_once,
    r#"
    # The contrast: N3 comes back from its loneliness with a high term. One election, then peace.
    nodes 3 pre_vote=off
    elect N1
    > N1 is candidate t1
    > N1 is leader t1
    cut N3
    run 10s
    > N3 is candidate t2
    > N3 is candidate t3
    > N3 is candidate t4
    > N3 is candidate t5
    > N3 is candidate t6
    > N3 is candidate t7
    > N3 is candidate t8
    status
    > N1 leader t1, commit 1, last 1:t1
    > N2 follower t1 of N1, commit 1, last 1:t1
    > N3 candidate t8, commit 1, last 1:t1
    heal
    run 5s
    > N1 is follower t8
    > N3 is candidate t9
    > N3 is leader t9
    status
    > N1 follower t9 of N3, commit 2, last 2:t9
    > N2 follower t9 of N3, commit 2, last 2:t9
    > N3 leader t9, commit 2, last 2:t9
    run 20s
    status
    > N1 follower t9 of N3, commit 2, last 2:t9
    > N2 follower t9 of N3, commit 2, last 2:t9
    > N3 leader t9, commit 2, last 2:t9
    "#
);

// scenario B10
story!(
    cohorts_that_refuse_each_other_still_elect,
    r#"
    # N1-N3 have the longer log at t8; N4-N6 the shorter one at t9, with a live candidate. The first
    # are refused for their term, the others for their log. A refusal teaches the term.
    nodes 6
    saved N1 term 8 log t8 t8
    saved N2 term 8 log t8 t8
    saved N3 term 8 log t8 t8
    saved N4 term 9 log t8
    saved N5 term 9 log t8
    saved N6 term 9 vote N6 log t8
    campaign N6
    > N6 is pre-candidate t9
    run 10s
    > N4 is pre-candidate t9
    > N3 is pre-candidate t8
    > N3 is follower t9
    > N5 is pre-candidate t9
    > N2 is pre-candidate t8
    > N2 is follower t9
    > N1 is pre-candidate t8
    > N1 is follower t9
    > N3 is pre-candidate t9
    > N3 is candidate t10
    > N4 is follower t10
    > N5 is follower t10
    > N6 is follower t10
    > N3 is leader t10
    status
    > N1 follower t10 of N3, commit 3, last 3:t10
    > N2 follower t10 of N3, commit 3, last 3:t10
    > N3 leader t10, commit 3, last 3:t10
    > N4 follower t10 of N3, commit 3, last 3:t10
    > N5 follower t10 of N3, commit 3, last 3:t10
    > N6 follower t10 of N3, commit 3, last 3:t10
    "#
);

// scenario B10
story!(
    cohorts_elect_where_only_some_ask_first,
    r#"
    nodes 6
    config N1 pre_vote=off
    config N4 pre_vote=off
    saved N1 term 8 log t8 t8
    saved N2 term 8 log t8 t8
    saved N3 term 8 log t8 t8
    saved N4 term 9 log t8
    saved N5 term 9 log t8
    saved N6 term 9 log t8
    run 10s
    > N2 is pre-candidate t8
    > N2 is follower t9
    > N6 is pre-candidate t9
    > N5 is pre-candidate t9
    > N1 is candidate t9
    > N5 is follower t9
    > N6 is follower t9
    > N1 is leader t9
    status
    > N1 leader t9, commit 3, last 3:t9
    > N2 follower t9 of N1, commit 3, last 3:t9
    > N3 follower t9 of N1, commit 3, last 3:t9
    > N4 follower t9 of N1, commit 3, last 3:t9
    > N5 follower t9 of N1, commit 3, last 3:t9
    > N6 follower t9 of N1, commit 3, last 3:t9
    "#
);

// scenario B10
story!(
    a_node_that_restarts_at_a_lower_term_catches_up_and_elects,
    r#"
    nodes 3
    saved N1 term 5 log t5 t5
    saved N2 term 9 log t5
    saved N3 term 2 log t2
    cut N2
    run 6s
    > N2 is pre-candidate t9
    > N3 is pre-candidate t2
    > N3 is follower t5
    > N1 is pre-candidate t5
    > N1 is candidate t6
    > N1 is leader t6
    status
    > N1 leader t6, commit 3, last 3:t6
    > N2 pre-candidate t9, commit 0, last 1:t5
    > N3 follower t6 of N1, commit 3, last 3:t6
    heal
    cut N1
    run 6s
    > N1 is follower t6
    > N3 is pre-candidate t6
    > N3 is follower t9
    > N3 is pre-candidate t9
    > N3 is candidate t10
    > N2 is follower t10
    > N3 is leader t10
    > N1 is pre-candidate t6
    status
    > N1 pre-candidate t6, commit 3, last 3:t6
    > N2 follower t10 of N3, commit 4, last 4:t10
    > N3 leader t10, commit 4, last 4:t10
    heal
    run 5s
    > N1 is follower t10 of N3
    status
    > N1 follower t10 of N3, commit 4, last 4:t10
    > N2 follower t10 of N3, commit 4, last 4:t10
    > N3 leader t10, commit 4, last 4:t10
    "#
);

story!(
    two_nodes_at_differing_terms_elect,
    r#"
    nodes 2
    saved N1 term 3 log t3 t3
    saved N2 term 7 log t3
    run 6s
    > N2 is pre-candidate t7
    > N1 is pre-candidate t3
    > N1 is follower t7
    > N1 is pre-candidate t7
    > N1 is candidate t8
    > N2 is follower t8
    > N1 is leader t8
    status
    > N1 leader t8, commit 3, last 3:t8
    > N2 follower t8 of N1, commit 3, last 3:t8
    "#
);

// scenario B08
story!(
    a_pre_vote_compares_logs_as_a_vote_does,
    r#"
    # Longer, but of an older term: no. Shorter, but of a newer one: yes.
    nodes 2
    saved N1 term 4 log t1*100
    saved N2 term 4 log t1 t3*50
    campaign N1
    > N1 is pre-candidate t4
    deliver pre-vote
    messages pre-vote-reply
    > N2>N1 t4 pre-vote-reply no
    campaign N2
    > N2 is pre-candidate t4
    deliver pre-vote N2>N1
    messages pre-vote-reply N1>N2
    > N1>N2 t4 pre-vote-reply yes
    "#
);

// scenario B10
story!(
    a_yes_of_a_node_in_an_older_term_counts,
    r#"
    # N1 has seen term 5, and nobody else has.
    nodes 3
    saved N1 term 5
    campaign N1
    > N1 is pre-candidate t5
    deliver pre-vote
    messages pre-vote-reply
    > N2>N1 t0 pre-vote-reply yes
    > N3>N1 t0 pre-vote-reply yes
    deliver pre-vote-reply
    > N1 is candidate t6
    "#
);
