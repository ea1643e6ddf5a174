//! Every request ends once, in bounded time, and its caller is told the truth.

use crate::story;

story!(
    a_follower_hands_a_proposal_on,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    propose N2 x
    messages
    > N2>N1 t1 propose 1 entries
    deliver
    > N2: x committed at 2
    "#
);

// scenario B76
story!(
    a_copy_of_a_proposal_is_taken_once,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    propose N2 x
    repeat propose
    deliver
    > N2: x committed at 2
    propose N2 y
    repeat propose
    run 150ms
    > N2: y committed at 3
    log N1
    > N1 t1 t1=x t1=y
    "#
);

// scenario B76
story!(
    a_lost_proposal_is_unknown_in_bounded_time,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    propose N2 x
    lose propose
    run 1900ms
    run 200ms
    > N2: x unknown
    # The answer may be lost as well: then x is in the log, and nobody here knows where.
    propose N2 y
    deliver propose
    lose propose-reply
    run 3s
    > N2: y unknown
    log N2
    > N2 t1 t1=y
    "#
);

// scenario B76
story!(
    a_leader_that_stepped_down_does_not_deny_what_it_took,
    r#"
    # N1 takes x of N2, and the answer is lost. x is committed on N1 and N3. N1 loses its quorum and
    # steps down, in t1 still. Then a copy of x arrives.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    propose N2 x
    repeat propose
    hold N2>N1
    deliver 1 propose
    lose propose-reply
    cut N1>N2
    deliver append N1>N3
    deliver append-reply N3>N1
    log N1
    > N1 t1 t1=x
    status N1
    > N1 leader t1, commit 2, last 2:t1
    heal N1>N2
    pause N2 N3
    run 1s
    > N1 is follower t1
    resume N2
    status N1 N2
    > N1 follower t1, commit 2, last 2:t1
    > N2 follower t1 of N1, commit 1, last 1:t1
    deliver propose
    run 3s
    > N2: x unknown
    > N2 is pre-candidate t1
    > N1 is pre-candidate t1
    "#
);

story!(
    an_answer_to_an_earlier_run_is_not_for_this_one,
    r#"
    # N2 hands on x, its request 1, and restarts. Its request 1 is y now. The answer for x comes late.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    propose N2 x
    deliver propose
    hold N1>N2
    crash N2
    restart N2
    run 100ms
    deliver heartbeat N1>N2
    propose N2 y
    lose propose
    deliver propose-reply
    heal
    run 3s
    > N2: y unknown
    log N2
    > N2 t1 t1=x
    "#
);

story!(
    an_answer_that_comes_after_the_commit_still_ends_the_request,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    propose N2 x
    deliver propose
    # The answer is late, on purpose: the entry, and the news of its commit, overtake it.
    deliver append
    deliver append-reply
    deliver commit
    status N2
    > N2 follower t1 of N1, commit 2, last 2:t1
    deliver propose-reply
    > N2: x committed at 2
    run 5s
    "#
);

story!(
    an_answer_that_comes_after_the_leader_was_given_up_still_ends_the_request,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    propose N2 x
    deliver propose
    hold N2
    cut N3
    campaign N2
    > N2 is pre-candidate t1
    deliver propose-reply
    run 5s
    > N1 is follower t1
    > N2: x unknown
    > N3 is pre-candidate t1
    > N1 is pre-candidate t1
    status N2
    > N2 pre-candidate t1, commit 1, last 1:t1
    "#
);

story!(
    without_forwarding_the_caller_is_sent_to_the_leader,
    r#"
    nodes 3 forward=off
    propose N2 x
    > N2: x refused: no leader
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    propose N2 y
    > N2: y refused: ask N1
    "#
);

// scenario B78
story!(
    a_superseded_proposal_is_reported_so_and_a_committed_one_too,
    r#"
    # N1 hands out a and b; only a gets to N2, which leads next.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    cut N3
    propose N1 a
    deliver append N1>N2
    cut N1
    propose N1 b
    heal N2-N3
    skip N2 1s
    skip N3 1s
    campaign N2
    > N2 is pre-candidate t1
    deliver
    > N2 is candidate t2
    > N2 is leader t2
    heal
    run 1s
    > N1 is follower t2
    > N1: a committed at 2
    > N1: b superseded
    log
    > N1 t1 t1=a t2
    > N2 t1 t1=a t2
    > N3 t1 t1=a t2
    "#
);

// scenario B78
story!(
    a_stepped_down_leader_learns_in_time_that_its_proposal_was_committed,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    propose N1 x
    deliver append N1>N2
    cut N1
    skip N2 1s
    skip N3 1s
    campaign N2
    > N2 is pre-candidate t1
    deliver
    > N2 is candidate t2
    > N2 is leader t2
    run 900ms
    heal
    run 1s
    > N1 is follower t2
    > N1: x committed at 2
    "#
);
