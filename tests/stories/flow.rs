//! How much is under way, and how a lost message is made good.

use crate::story;

// scenario B38
story!(
    a_lost_probe_is_sent_again,
    r#"
    nodes 3 pre_vote=off
    campaign N1
    > N1 is candidate t1
    deliver vote
    deliver vote-reply
    > N1 is leader t1
    lose append
    run 100ms
    status N1
    > N1 leader t1, commit 0, last 1:t1
    run 100ms
    status
    > N1 leader t1, commit 1, last 1:t1
    > N2 follower t1 of N1, commit 1, last 1:t1
    > N3 follower t1 of N1, commit 1, last 1:t1
    "#
);

// scenario B38
story!(
    a_full_window_of_lost_appends_is_found_out,
    r#"
    nodes 3 inflight_appends=2 append_bytes=1
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    propose N1 a b c d e
    messages append
    > N1>N2 t1 append after 1:t1, 1 entries, commit 1
    > N1>N2 t1 append after 2:t1, 1 entries, commit 1
    > N1>N3 t1 append after 1:t1, 1 entries, commit 1
    > N1>N3 t1 append after 2:t1, 1 entries, commit 1
    lose append
    run 500ms
    > N1: a committed at 2
    > N1: b committed at 3
    > N1: c committed at 4
    > N1: d committed at 5
    > N1: e committed at 6
    status
    > N1 leader t1, commit 6, last 6:t1
    > N2 follower t1 of N1, commit 6, last 6:t1
    > N3 follower t1 of N1, commit 6, last 6:t1
    "#
);

// scenario B38
story!(
    lost_acknowledgements_are_found_out,
    r#"
    nodes 3 inflight_appends=2 append_bytes=1
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    propose N1 a b c d e
    deliver append
    lose append-reply
    run 500ms
    > N1: a committed at 2
    > N1: b committed at 3
    > N1: c committed at 4
    > N1: d committed at 5
    > N1: e committed at 6
    status
    > N1 leader t1, commit 6, last 6:t1
    > N2 follower t1 of N1, commit 6, last 6:t1
    > N3 follower t1 of N1, commit 6, last 6:t1
    "#
);

// scenario B38
story!(
    a_follower_that_restarts_is_sent_what_it_lost,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    stall N3
    propose N1 a b c
    run 300ms
    > N1: a committed at 2
    > N1: b committed at 3
    > N1: c committed at 4
    crash N3
    restart N3
    log N3
    > N3 t1
    work N3
    run 500ms
    log N3
    > N3 t1 t1=a t1=b t1=c
    status
    > N1 leader t1, commit 4, last 4:t1
    > N2 follower t1 of N1, commit 4, last 4:t1
    > N3 follower t1 of N1, commit 4, last 4:t1
    "#
);

story!(
    entries_that_left_memory_are_loaded,
    r#"
    nodes 3 recent_bytes=1 append_bytes=200
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    cut N3
    propose N1 a b c d e
    run 1s
    > N1: a committed at 2
    > N1: b committed at 3
    > N1: c committed at 4
    > N1: d committed at 5
    > N1: e committed at 6
    heal
    run 1s
    > N3 is pre-candidate t1
    > N3 is follower t1 of N1
    status
    > N1 leader t1, commit 6, last 6:t1
    > N2 follower t1 of N1, commit 6, last 6:t1
    > N3 follower t1 of N1, commit 6, last 6:t1
    "#
);

// scenario B40
story!(
    a_batch_is_split_by_bytes,
    r#"
    # Seventy bytes or so an entry: two fit.
    nodes 3 append_bytes=140
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    propose N1 a b c d e
    messages append N1>N2
    > N1>N2 t1 append after 1:t1, 2 entries, commit 1
    > N1>N2 t1 append after 3:t1, 2 entries, commit 1
    > N1>N2 t1 append after 5:t1, 1 entries, commit 1
    deliver
    > N1: a committed at 2
    > N1: b committed at 3
    > N1: c committed at 4
    > N1: d committed at 5
    > N1: e committed at 6
    "#
);

// scenario B40
story!(
    a_proposal_over_the_limit_is_refused_where_it_is_made,
    r#"
    nodes 3 entry_bytes=5
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    propose N1 toolong
    > N1: toolong refused: too large
    propose N2 toolong
    > N2: toolong refused: too large
    messages
    propose N2 right
    deliver
    > N2: right committed at 2
    run 150ms
    "#
);

// scenario B78
story!(
    a_leader_that_cannot_commit_takes_a_bounded_amount,
    r#"
    nodes 3 uncommitted_bytes=200
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    cut N1
    propose N1 a
    propose N1 b c
    propose N1 d
    > N1: d refused: overloaded
    run 3s
    > N1 is follower t1
    > N2 is pre-candidate t1
    > N2 is candidate t2
    > N2 is leader t2
    > N1: a unknown
    > N1: b unknown
    > N1: c unknown
    > N1 is pre-candidate t1
    "#
);

story!(
    a_leader_whose_disk_stands_still_takes_a_bounded_amount,
    r#"
    # The others commit, but nothing is applied here, and nothing may leave memory.
    nodes 3 uncommitted_bytes=200
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    stall N1
    propose N1 a b
    deliver
    propose N1 c
    deliver
    propose N1 d
    > N1: d refused: overloaded
    deliver
    status
    > N1 leader t1, commit 4, last 4:t1
    > N2 follower t1 of N1, commit 4, last 4:t1
    > N3 follower t1 of N1, commit 4, last 4:t1
    work N1
    > N1: a committed at 2
    > N1: b committed at 3
    > N1: c committed at 4
    propose N1 e
    deliver
    > N1: e committed at 5
    "#
);

story!(
    refusals_that_come_late_accuse_nobody,
    r#"
    # N2 meets the append of b before that of a, and refuses it. a arrives and is acknowledged; that
    # overtakes the refusal. Nothing is wrong with N2.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    cut N3
    hold N1>N2
    propose N1 a
    propose N1 b
    repeat 1 append N1>N2
    lose 1 append N1>N2
    messages append N1>N2
    > N1>N2 t1 append after 2:t1, 1 entries, commit 1
    > N1>N2 t1 append after 1:t1, 1 entries, commit 1
    deliver 1 append N1>N2
    deliver append N1>N2
    messages append-reply
    > N2>N1 t1 append-reply differ at 2, perhaps not at 1:t1
    > N2>N1 t1 append-reply have 2
    repeat 1 append-reply
    lose 1 append-reply
    deliver 1 append-reply
    > N1: a committed at 2
    deliver append-reply
    messages append N1>N2
    > N1>N2 t1 append after 2:t1, 1 entries, commit 2
    heal
    run 200ms
    > N1: b committed at 3
    log N2
    > N2 t1 t1=a t1=b
    "#
);

// scenario B70
story!(
    a_peer_whose_disk_went_back_in_time_is_reported,
    r#"
    # N3 acknowledged 3; then an old image of its disk is put back.
    nodes 3 pre_vote=off
    saved * term 3 log t1
    elect N1
    > N1 is candidate t4
    > N1 is leader t4
    propose N1 x
    run 150ms
    > N1: x committed at 3
    cut N3
    saved N3 term 4 log t1
    heal
    run 250ms
    > N1 finds that N3 fell from 3 to 1
    > N1 finds that N3 fell from 3 to 1
    > N1 finds that N3 fell from 3 to 1
    propose N1 y
    run 450ms
    > N1 finds that N3 fell from 3 to 1
    > N1: y committed at 4
    > N1 finds that N3 fell from 3 to 1
    > N1 finds that N3 fell from 3 to 1
    > N1 finds that N3 fell from 3 to 1
    > N1 finds that N3 fell from 3 to 1
    > N1 finds that N3 fell from 3 to 1
    > N1 finds that N3 fell from 3 to 1
    > N1 finds that N3 fell from 3 to 1
    > N1 finds that N3 fell from 3 to 1
    > N1 finds that N3 fell from 3 to 1
    status
    > N1 leader t4, commit 4, last 4:t4
    > N2 follower t4 of N1, commit 4, last 4:t4
    > N3 follower t4 of N1, commit 0, last 1:t1
    "#
);

story!(
    the_answer_to_an_old_append_restarts_nothing,
    r#"
    # An append of t1 is very late. Its sender leads again, in t3, when N3 answers: that answer says
    # nothing about the log of t3.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    hold N1>N3
    propose N1 x
    deliver
    > N1: x committed at 2
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
    status N1
    > N1 leader t3, commit 4, last 4:t3
    messages append N1>N3
    > N1>N3 t1 append after 1:t1, 1 entries, commit 1
    > N1>N3 t3 append after 3:t2, 1 entries, commit 3
    deliver append t3
    deliver append-reply t3
    deliver append t1
    messages N3>N1
    > N3>N1 t3 heartbeat-reply round0
    deliver
    "#
);

story!(
    a_commit_travels_with_the_next_append_or_alone_after_a_moment,
    r#"
    nodes 3 commit_notice=2ms
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    propose N1 a
    deliver append
    deliver append-reply
    > N1: a committed at 2
    messages append
    propose N1 b
    messages append
    > N1>N2 t1 append after 2:t1, 1 entries, commit 2
    > N1>N3 t1 append after 2:t1, 1 entries, commit 2
    deliver append
    deliver append-reply
    > N1: b committed at 3
    messages append commit
    skip * 2ms
    run 0ms
    messages append commit
    > N1>N2 t1 commit 3
    > N1>N3 t1 commit 3
    deliver commit
    status
    > N1 leader t1, commit 3, last 3:t1
    > N2 follower t1 of N1, commit 3, last 3:t1
    > N3 follower t1 of N1, commit 3, last 3:t1
    "#
);

story!(
    who_handed_a_proposal_on_hears_of_its_commit_at_once,
    r#"
    nodes 3 commit_notice=2ms
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    propose N2 a
    deliver propose
    deliver append
    deliver append-reply
    messages append commit
    > N1>N2 t1 commit 2
    "#
);

story!(
    entries_that_are_loaded_late_are_looked_at_again,
    r#"
    # N1 asks its disk for 2 and 3 of t1, which N3 lacks. Before they come, N2 has led t2 and put
    # another 2 in their place, and N1 leads t3. It needs 2 for N3 again: but not the old one.
    nodes 3 pre_vote=off check_quorum=off recent_bytes=1
    elect N1
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    cut N1>N2 N1>N3
    propose N1 a
    propose N1 b
    loads 50ms
    heal N1>N3
    run 60ms
    hold N1 N2>N3
    campaign N2
    > N2 is candidate t2
    deliver vote N2>N3
    deliver vote-reply N3>N2
    > N2 is leader t2
    heal N1>N2 N2>N1
    deliver
    > N1 is follower t2
    > N1: a superseded
    > N1: b superseded
    log
    > N1 t1 t2
    > N2 t1 t2
    > N3 t1
    campaign N1
    > N1 is candidate t3
    deliver
    > N2 is follower t3
    > N1 is leader t3
    lose N2>N3
    heal
    run 35ms
    log N3
    > N3 t1
    messages append N1>N3
    run 100ms
    log N3
    > N3 t1 t2 t3
    "#
);

story!(
    the_moment_that_a_commit_waits_begins_with_the_first,
    r#"
    # There is one other node, and each commit waits for the next append, which brings another one.
    nodes 2 commit_notice=2ms
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    propose N1 a
    deliver append
    deliver append-reply
    > N1: a committed at 2
    skip * 1ms
    run 0ms
    messages commit
    propose N1 b
    deliver append
    deliver append-reply
    > N1: b committed at 3
    messages commit
    skip * 1ms
    run 0ms
    messages commit
    > N1>N2 t1 commit 3
    "#
);

story!(
    who_has_handed_nothing_on_since_waits_for_the_next_append,
    r#"
    nodes 3 commit_notice=2ms
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    propose N2 a
    deliver propose
    deliver append
    deliver append-reply
    deliver
    > N2: a committed at 2
    propose N1 b
    deliver append
    deliver append-reply
    > N1: b committed at 3
    messages commit
    skip * 2ms
    run 0ms
    messages commit
    > N1>N2 t1 commit 3
    > N1>N3 t1 commit 3
    "#
);

story!(
    asking_whether_appends_arrived_takes_no_room_from_them,
    r#"
    # N2 hears N1, but writes nothing yet. It is asked after each heartbeat, and y still has room.
    nodes 3 inflight_appends=2
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 150ms
    stall N2
    propose N1 x
    run 500ms
    > N1: x committed at 2
    propose N1 y
    messages append N1>N2
    > N1>N2 t1 append after 2:t1, 1 entries, commit 2
    "#
);
