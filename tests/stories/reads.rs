//! Raft §8, thesis §6.4: reads that see every write acknowledged before them.

use crate::story;

// scenario B16
story!(
    a_new_leader_answers_no_read_before_it_commits_in_its_term,
    r#"
    # N1 committed 4; N2 has the entries but knows of 1 only. N1 dies, N2 leads.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    cut N1>N3
    propose N1 a b c
    deliver append N1>N2
    deliver append-reply N2>N1
    > N1: a committed at 2
    > N1: b committed at 3
    > N1: c committed at 4
    status
    > N1 leader t1, commit 4, last 4:t1
    > N2 follower t1 of N1, commit 1, last 4:t1
    > N3 follower t1 of N1, commit 1, last 1:t1
    crash N1
    heal
    skip * 1s
    cut N1
    campaign N2
    > N2 is pre-candidate t1
    deliver pre-vote N2>N3
    deliver pre-vote-reply N3>N2
    > N2 is candidate t2
    deliver vote N2>N3
    deliver vote-reply N3>N2
    > N2 is leader t2
    read N2 r
    status N2
    > N2 leader t2, commit 1, last 5:t2
    run 100ms
    > N2: read r served at 5
    status N2
    > N2 leader t2, commit 5, last 5:t2
    "#
);

// scenario B18
story!(
    an_isolated_leader_answers_no_read,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 500ms
    cut N1
    read N1 r
    run 900ms
    run 200ms
    > N1: read r refused: no leader
    > N1 is follower t1
    > N3 is pre-candidate t1
    > N3 is candidate t2
    > N3 is leader t2
    "#
);

story!(
    a_read_is_confirmed_only_by_a_round_sent_after_it,
    r#"
    # N1 begins round 1 for the read a. b is asked afterwards: the echo of round 1 is not for b.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    cut N3
    read N1 a
    read N1 b
    messages heartbeat
    > N1>N2 t1 heartbeat commit 1, round1
    deliver heartbeat
    deliver heartbeat-reply
    > N1: read a served at 1
    messages heartbeat
    > N1>N2 t1 heartbeat commit 1, round2
    deliver
    > N1: read b served at 1
    "#
);

// scenario B17
story!(
    the_echo_of_an_older_term_confirms_nothing,
    r#"
    # N1 leads t1, and its round 1 to N3 is very late. N1 is deposed, and leads again in t3: its rounds
    # count from one again. N3 then meets the old heartbeat, and its answer carries t3.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    hold N1>N3
    read N1 a
    deliver
    > N1: read a served at 1
    skip * 1s
    elect N2
    > N2 is pre-candidate t1
    > N2 is candidate t2
    > N2 is leader t2
    > N1 is follower t2 of N2
    skip * 1s
    campaign N1
    > N1 is pre-candidate t2
    deliver pre-vote N1>N3
    deliver
    > N1 is candidate t3
    deliver vote N1>N3
    deliver
    > N1 is leader t3
    > N2 is follower t3 of N1
    deliver append N1>N3
    deliver
    status
    > N1 leader t3, commit 3, last 3:t3
    > N2 follower t3 of N1, commit 3, last 3:t3
    > N3 follower t3 of N1, commit 2, last 3:t3
    hold N1
    deliver heartbeat t1
    messages N3>N1
    > N3>N1 t3 heartbeat-reply round0
    # N3 and N2 elect N3, which commits x.
    skip N2 1s
    campaign N3
    > N3 is pre-candidate t3
    deliver
    > N3 is candidate t4
    > N3 is leader t4
    propose N3 x
    deliver
    > N3: x committed at 5
    # N1 has missed all this. Its first read of t3 must not be served by that old echo.
    read N1 b
    deliver heartbeat-reply N3>N1
    status
    > N1 leader t3, commit 3, last 3:t3
    > N2 follower t4 of N3, commit 5, last 5:t4
    > N3 leader t4, commit 5, last 5:t4
    heal
    run 3s
    > N1: read b refused: no leader
    > N1 is follower t4 of N3
    "#
);

// scenario B17
story!(
    late_copies_of_a_question_serve_nobody_else,
    r#"
    # N2 asks twice by accident; the first copy is served. N1 is then cut off by delay, N3 leads and
    # commits x. At N1 a new read q waits, behind it the copy arrives, then late echoes.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    deliver
    read N2 r
    hold N2>N1 N3>N1
    repeat read N2>N1
    deliver 1 read N2>N1
    deliver heartbeat
    deliver 1 heartbeat-reply N3>N1
    deliver read-reply
    > N2: read r served at 1
    repeat heartbeat-reply N2>N1
    hold N1
    skip N2 1s
    campaign N3
    > N3 is pre-candidate t1
    deliver
    > N3 is candidate t2
    > N3 is leader t2
    propose N3 x
    deliver
    > N3: x committed at 3
    read N1 q
    deliver read N2>N1
    deliver heartbeat-reply N2>N1
    messages N1>N2 read-reply
    heal
    run 3s
    > N1: read q refused: no leader
    > N1 is follower t2 of N3
    "#
);

story!(
    a_follower_serves_a_read_by_asking_the_leader,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    propose N1 x
    deliver
    > N1: x committed at 2
    read N3 r
    messages
    > N3>N1 t1 read
    deliver
    > N3: read r served at 2
    "#
);

story!(
    one_question_takes_one_round,
    r#"
    # The leader's heartbeat for the question comes to the asker before the answer does. It does not
    # ask again at once: that would double the work of every read.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    read N3 r
    deliver read
    messages
    > N1>N2 t1 heartbeat commit 1, round1
    > N1>N3 t1 heartbeat commit 1, round1
    deliver heartbeat
    messages
    > N2>N1 t1 heartbeat-reply round1
    > N3>N1 t1 heartbeat-reply round1
    "#
);

story!(
    a_lost_question_is_asked_again,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    read N3 r
    lose read
    run 500ms
    > N3: read r served at 1
    "#
);

story!(
    a_lost_answer_is_asked_for_again,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    read N3 r
    deliver read
    deliver heartbeat
    deliver heartbeat-reply
    lose read-reply
    run 500ms
    > N3: read r served at 1
    "#
);

story!(
    a_read_over_a_dead_link_ends,
    r#"
    # N3 hears N1, but N1 never hears N3.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    cut N3>N1
    read N3 r
    run 1s
    read N3 s
    run 5s
    > N3: read r refused: ask N1
    > N3: read s refused: ask N1
    status
    > N1 leader t1, commit 1, last 1:t1
    > N2 follower t1 of N1, commit 1, last 1:t1
    > N3 follower t1 of N1, commit 1, last 1:t1
    "#
);

// scenario B78
story!(
    losing_the_leader_ends_every_read,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    cut N1
    read N3 a
    read N1 b
    run 5s
    > N1: read b refused: no leader
    > N1 is follower t1
    > N2 is pre-candidate t1
    > N2 is candidate t2
    > N3: read a refused: no leader
    > N2 is leader t2
    > N1 is pre-candidate t1
    "#
);

// scenario B20
story!(
    a_lone_voter_that_restarts_reads_only_what_it_has_applied,
    r#"
    # Everything was committed; the commit index that is on disk is older. A read waits for the first
    # entry of the new term, and so sees all.
    nodes 1
    run 10ms
    > N1 is candidate t1
    > N1 is leader t1
    propose N1 a b c
    > N1: a committed at 2
    > N1: b committed at 3
    > N1: c committed at 4
    propose N1 d
    > N1: d committed at 5
    run 10ms
    crash N1
    restart N1
    status
    > N1 follower t1, commit 5, last 5:t1
    stall N1
    run 10ms
    > N1 is candidate t2
    sync N1
    > N1 is leader t2
    read N1 r
    status
    > N1 leader t2, commit 5, last 6:t2
    sync N1
    > N1: read r served at 6
    status
    > N1 leader t2, commit 6, last 6:t2
    "#
);

// scenario B17
story!(
    an_answer_that_comes_twice_does_not_answer_the_next_question,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    read N2 a
    deliver read
    deliver heartbeat
    deliver heartbeat-reply
    repeat read-reply
    deliver 1 read-reply
    > N2: read a served at 1
    # The copy is on its way when x is committed, and arrives when N2 has asked anew.
    hold N1>N2
    propose N1 x
    deliver append N1>N3
    deliver append-reply N3>N1
    > N1: x committed at 2
    read N2 b
    deliver 1 read-reply N1>N2
    heal
    run 50ms
    > N2: read b served at 2
    "#
);
