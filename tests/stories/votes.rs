//! Raft §5.2 and §5.4.1: how a vote is given, and what it rests on.

use crate::story;

// scenario B01
story!(
    a_vote_is_given_once_whatever_happens_within_the_term,
    r#"
    # N3 votes N1 in term 5. N1 leads, and N3 hears a heartbeat, but no entry, so that N2's log is
    # as good as its own. N1 loses its quorum and steps down, in term 5 still. The request of N2
    # for that term comes last.
    nodes 3 pre_vote=off
    saved * term 4
    campaign N1 N2
    > N1 is candidate t5
    > N2 is candidate t5
    hold N2>N3 N1>N3
    deliver vote N1>N3
    deliver vote-reply
    > N1 is leader t5
    lose append N1>N3
    run 100ms
    > N2 is follower t5 of N1
    deliver heartbeat N1>N3
    status N1 N3
    > N1 leader t5, commit 1, last 1:t5
    > N3 follower t5 of N1, commit 0, last 0:t0
    pause N2 N3
    run 1200ms
    > N1 is follower t5
    resume N2 N3
    status N1 N3
    > N1 follower t5, commit 1, last 1:t5
    > N3 follower t5 of N1, commit 0, last 0:t0
    deliver vote N2>N3
    messages vote-reply
    > N3>N2 t5 vote-reply no
    lose vote-reply
    # Nor does a restart make it free.
    crash N3
    restart N3
    send N2>N3 t5 vote
    messages vote-reply
    > N3>N2 t5 vote-reply no
    # N1 itself may have it again: its first answer may be lost.
    send N1>N3 t5 vote
    messages N3>N1 vote-reply
    > N3>N1 t5 vote-reply yes
    "#
);

// scenario B03
story!(
    whoever_sees_a_newer_term_has_not_voted_in_it,
    r#"
    # N1 leads t5 with 100 entries; N2 has 90 and stands for t6. N1 sees t6 in the request itself,
    # steps down, and compares logs all the same; so does N3.
    nodes 3 pre_vote=off check_quorum=off
    saved N1 term 4 log t4*99
    saved N2 term 5 log t4*90
    saved N3 term 4 log t4*99
    hold N2
    campaign N1
    > N1 is candidate t5
    deliver
    > N1 is leader t5
    status
    > N1 leader t5, commit 100, last 100:t5
    > N2 follower t5, commit 0, last 90:t4
    > N3 follower t5 of N1, commit 100, last 100:t5
    campaign N2
    > N2 is candidate t6
    repeat vote N2>N1
    deliver vote N2>N1 N2>N3
    > N1 is follower t6
    messages vote-reply N1>N2 N3>N2
    > N1>N2 t6 vote-reply no
    > N3>N2 t6 vote-reply no
    > N1>N2 t6 vote-reply no
    deliver vote-reply N1>N2 N3>N2
    heal
    run 5s
    > N1 is candidate t7
    > N2 is follower t7
    > N1 is leader t7
    status
    > N1 leader t7, commit 101, last 101:t7
    > N2 follower t7 of N1, commit 101, last 101:t7
    > N3 follower t7 of N1, commit 101, last 101:t7
    "#
);

// scenario B08
story!(
    logs_are_compared_by_last_term_and_then_by_length,
    r#"
    # N1 asks N2. Same term, shorter: no. Same term, same length: yes. An older last term, however
    # long: no. A newer last term, however short: yes.
    nodes 2 pre_vote=off
    saved N1 term 2 log t2*4
    saved N2 term 2 log t2*5
    campaign N1
    > N1 is candidate t3
    deliver vote
    messages vote-reply
    > N2>N1 t3 vote-reply no

    saved N1 term 3 log t2*5
    saved N2 term 3 log t2*5
    campaign N1
    > N1 is candidate t4
    deliver vote t4
    messages vote-reply t4
    > N2>N1 t4 vote-reply yes

    saved N1 term 4 log t1*100
    saved N2 term 4 log t1 t3*50
    campaign N1
    > N1 is candidate t5
    deliver vote t5
    messages vote-reply t5
    > N2>N1 t5 vote-reply no

    saved N1 term 5 log t1 t3*50
    saved N2 term 5 log t1*100
    campaign N1
    > N1 is candidate t6
    deliver vote t6
    messages vote-reply t6
    > N2>N1 t6 vote-reply yes
    "#
);

story!(
    a_stale_refusal_is_no_answer_to_the_next_candidacy,
    r#"
    # N1 asks N3 in term 1 and again in term 2. The question of term 1 comes late, and N3 refuses it,
    # in term 2 by now. That says nothing about its vote in term 2, whichever answer comes first.
    nodes 3 pre_vote=off check_quorum=off
    cut N2
    campaign N1
    > N1 is candidate t1
    campaign N1
    > N1 is candidate t2
    messages vote N1>N3
    > N1>N3 t1 vote my log ends at 0:t0
    > N1>N3 t2 vote my log ends at 0:t0
    hold N3>N1
    deliver vote t2
    lose vote-reply
    deliver vote t1
    repeat vote-reply
    deliver 1 vote-reply
    send N1>N3 t2 vote
    deliver vote-reply
    > N1 is leader t2
    status N1
    > N1 leader t2, commit 0, last 1:t2
    "#
);

// scenario B59
story!(
    votes_and_candidacies_wait_for_the_disk,
    r#"
    # N1 stands: nothing leaves before its own vote is durable, and it does not count it before.
    # N2 grants: the answer waits for its disk as well.
    nodes 3 pre_vote=off
    stall N1
    stall N2
    cut N3
    campaign N1
    > N1 is candidate t1
    messages
    sync N1
    messages
    > N1>N2 t1 vote my log ends at 0:t0
    deliver vote
    messages
    sync N2
    messages
    > N2>N1 t1 vote-reply yes
    deliver vote-reply
    > N1 is leader t1
    status N1
    > N1 leader t1, commit 0, last 1:t1
    "#
);

// scenario B60
story!(
    a_lone_voter_leads_when_its_vote_is_durable_and_commits_when_its_entry_is,
    r#"
    nodes 1
    stall N1
    run 100ms
    > N1 is candidate t1
    status
    > N1 candidate t1, commit 0, last 0:t0
    sync N1
    > N1 is leader t1
    status
    > N1 leader t1, commit 0, last 1:t1
    sync N1
    status
    > N1 leader t1, commit 1, last 1:t1
    "#
);

story!(
    a_candidate_that_crashes_before_its_disk_is_done_was_none,
    r#"
    nodes 3 pre_vote=off
    stall N1
    campaign N1
    > N1 is candidate t1
    status N1
    > N1 candidate t1, commit 0, last 0:t0
    crash N1
    restart N1
    status N1
    > N1 follower t0, commit 0, last 0:t0
    "#
);

story!(
    a_candidacy_that_is_over_asks_nobody,
    r#"
    # N1 stands, and its disk is slow. N3 leads the same term before anybody was asked.
    nodes 3 pre_vote=off
    stall N1
    campaign N1
    > N1 is candidate t1
    campaign N3
    > N3 is candidate t1
    deliver
    > N3 is leader t1
    > N1 is follower t1 of N3
    messages
    work N1
    messages
    > N1>N3 t1 append-reply have 1
    deliver
    status
    > N1 follower t1 of N3, commit 1, last 1:t1
    > N2 follower t1 of N3, commit 1, last 1:t1
    > N3 leader t1, commit 1, last 1:t1
    "#
);

// scenario B60
story!(
    a_candidate_does_not_count_its_own_vote_before_it_is_durable,
    r#"
    # Two grants of five come early (invented here, for nothing was asked yet). With its own vote,
    # which its disk has not taken yet, N1 would have three.
    nodes 5 pre_vote=off
    stall N1
    campaign N1
    > N1 is candidate t1
    send N2>N1 t1 vote-reply
    send N3>N1 t1 vote-reply
    send N3>N1 t1 vote-reply
    status N1
    > N1 candidate t1, commit 0, last 0:t0
    sync N1
    > N1 is leader t1
    "#
);

story!(
    who_hears_a_leader_still_answers_who_asks_in_its_term,
    r#"
    # N3 stands for the term in which N1 leads already. It is told no, and so learns what became of it.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    send N3>N2 t1 vote
    messages N2>N3 vote-reply
    > N2>N3 t1 vote-reply no
    "#
);
