//! Raft §5.2 and §5.4.1: who is elected, and who is not.

use crate::story;

story!(
    five_nodes_split_the_vote_and_the_next_round_elects_one,
    r#"
    # N1 led term 3 and is gone. N3 and N5 stand for term 4 in the same instant.
    #
    #     N2 ──▶ N3          N4 ──▶ N5         two and two: nobody has three
    nodes 5
    saved * term 2
    elect N1
    > N1 is pre-candidate t2
    > N1 is candidate t3
    > N1 is leader t3
    crash N1
    skip * 1s
    campaign N3 N5
    > N3 is pre-candidate t3
    > N5 is pre-candidate t3
    # Both ask first, and everybody would vote for either.
    deliver pre-vote
    deliver pre-vote-reply
    > N3 is candidate t4
    > N5 is candidate t4
    messages vote
    > N3>N1 t4 vote my log ends at 1:t3
    > N3>N2 t4 vote my log ends at 1:t3
    > N3>N4 t4 vote my log ends at 1:t3
    > N3>N5 t4 vote my log ends at 1:t3
    > N5>N1 t4 vote my log ends at 1:t3
    > N5>N2 t4 vote my log ends at 1:t3
    > N5>N3 t4 vote my log ends at 1:t3
    > N5>N4 t4 vote my log ends at 1:t3
    deliver vote N3>N2 N5>N4
    deliver vote
    messages vote-reply
    > N2>N3 t4 vote-reply yes
    > N4>N5 t4 vote-reply yes
    > N4>N3 t4 vote-reply no
    > N5>N3 t4 vote-reply no
    > N2>N5 t4 vote-reply no
    > N3>N5 t4 vote-reply no
    deliver
    status
    > N1 down
    > N2 follower t4, commit 1, last 1:t3
    > N3 candidate t4, commit 1, last 1:t3
    > N4 follower t4, commit 1, last 1:t3
    > N5 candidate t4, commit 1, last 1:t3

    # The next round: whoever's patience ends first asks, and is elected by four.
    run 3s
    > N4 is pre-candidate t4
    > N4 is candidate t5
    > N3 is follower t5
    > N5 is follower t5
    > N4 is leader t5
    status
    > N1 down
    > N2 follower t5 of N4, commit 2, last 2:t5
    > N3 follower t5 of N4, commit 2, last 2:t5
    > N4 leader t5, commit 2, last 2:t5
    > N5 follower t5 of N4, commit 2, last 2:t5
    "#
);

story!(
    a_shorter_log_never_wins_and_the_longer_one_does,
    r#"
    #     N1  t1 t1 t2 t2=x      leads t2, and is cut off before anybody has 3 and 4
    #     N2  t1 t1
    #     N3  t1
    nodes 3 pre_vote=off
    saved N1 term 1 log t1 t1
    saved N2 term 1 log t1 t1
    saved N3 term 1 log t1
    campaign N1
    > N1 is candidate t2
    deliver vote
    deliver vote-reply
    > N1 is leader t2
    propose N1 x
    cut N1
    log
    > N1 t1=1:t1 t1=2:t1 t2 t2=x
    > N2 t1=1:t1 t1=2:t1
    > N3 t1=1:t1
    skip N2 1s
    skip N3 1s
    # N3 can never win: N2 has more.
    campaign N3
    > N3 is candidate t3
    deliver
    campaign N3
    > N3 is candidate t4
    deliver
    status N2 N3
    > N2 follower t4, commit 0, last 2:t1
    > N3 candidate t4, commit 0, last 1:t1
    # N2 can.
    skip N3 1s
    campaign N2
    > N2 is candidate t5
    deliver
    > N3 is follower t5
    > N2 is leader t5
    status N2 N3
    > N2 leader t5, commit 3, last 3:t5
    > N3 follower t5 of N2, commit 3, last 3:t5
    # N1 returns at once: its entries are replaced, and its caller learns that x never happened.
    heal
    run 200ms
    > N1 is follower t5 of N2
    > N1: x superseded
    run 200ms
    log
    > N1 t1=1:t1 t1=2:t1 t5
    > N2 t1=1:t1 t1=2:t1 t5
    > N3 t1=1:t1 t1=2:t1 t5
    status
    > N1 follower t5 of N2, commit 3, last 3:t5
    > N2 leader t5, commit 3, last 3:t5
    > N3 follower t5 of N2, commit 3, last 3:t5
    "#
);

// scenario B78
story!(
    a_caller_whose_leader_stays_away_is_told_that_nobody_knows,
    r#"
    # As before, but N1 stays away. It cannot know what becomes of x, and says so in bounded time.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    cut N1
    propose N1 x
    run 1s
    > N1 is follower t1
    propose N1 y
    > N1: y refused: no leader
    run 1s
    > N3 is pre-candidate t1
    > N3 is candidate t2
    > N3 is leader t2
    > N1: x unknown
    heal
    run 5s
    log
    > N1 t1 t2
    > N2 t1 t2
    > N3 t1 t2
    "#
);

story!(
    three_of_four_are_a_majority_and_two_are_not,
    r#"
    nodes 4
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    propose N1 a
    run 200ms
    > N1: a committed at 2
    # Two and two: nobody is elected, nothing is committed.
    split N1 N2 | N3 N4
    propose N1 b
    run 30s
    > N1 is follower t1
    > N4 is pre-candidate t1
    > N3 is pre-candidate t1
    > N1: b unknown
    > N1 is pre-candidate t1
    > N2 is pre-candidate t1
    status
    > N1 pre-candidate t1, commit 2, last 3:t1
    > N2 pre-candidate t1, commit 2, last 3:t1
    > N3 pre-candidate t1, commit 2, last 2:t1
    > N4 pre-candidate t1, commit 2, last 2:t1
    # Three are enough.
    heal
    cut N4
    run 5s
    > N2 is candidate t2
    > N1 is follower t2
    > N3 is follower t2
    > N2 is leader t2
    status
    > N1 follower t2 of N2, commit 4, last 4:t2
    > N2 leader t2, commit 4, last 4:t2
    > N3 follower t2 of N2, commit 4, last 4:t2
    > N4 pre-candidate t1, commit 2, last 2:t1
    propose N2 c
    run 1s
    > N2: c committed at 5
    heal
    run 5s
    > N4 is follower t2 of N2
    # Nothing is lost: a is where it was on all four.
    status
    > N1 follower t2 of N2, commit 5, last 5:t2
    > N2 leader t2, commit 5, last 5:t2
    > N3 follower t2 of N2, commit 5, last 5:t2
    > N4 follower t2 of N2, commit 5, last 5:t2
    log
    > N1 t1 t1=a t1=b t2 t2=c
    > N2 t1 t1=a t1=b t2 t2=c
    > N3 t1 t1=a t1=b t2 t2=c
    > N4 t1 t1=a t1=b t2 t2=c
    "#
);

story!(
    a_leader_of_the_same_term_ends_a_candidacy,
    r#"
    nodes 3 pre_vote=off
    campaign N1 N2
    > N1 is candidate t1
    > N2 is candidate t1
    deliver vote N1>N3
    deliver vote-reply N3>N1
    > N1 is leader t1
    status N1 N2
    > N1 leader t1, commit 0, last 1:t1
    > N2 candidate t1, commit 0, last 0:t0
    deliver append N1>N2
    > N2 is follower t1 of N1
    status N2
    > N2 follower t1 of N1, commit 0, last 1:t1
    "#
);

story!(
    a_candidate_that_cannot_win_does_not_keep_back_one_that_can,
    r#"
    # N2 lacks an entry, and stands again and again, each time in a newer term. N1 refuses it, and
    # its own patience goes on all the while.
    nodes 2 pre_vote=off
    saved N1 term 1 log t1 t1
    saved N2 term 1 log t1
    campaign N2
    > N2 is candidate t2
    run 600ms
    campaign N2
    > N2 is candidate t3
    run 600ms
    campaign N2
    > N2 is candidate t4
    run 600ms
    campaign N2
    > N2 is candidate t5
    run 600ms
    > N1 is candidate t6
    > N2 is follower t6
    > N1 is leader t6
    status
    > N1 leader t6, commit 3, last 3:t6
    > N2 follower t6 of N1, commit 3, last 3:t6
    "#
);
