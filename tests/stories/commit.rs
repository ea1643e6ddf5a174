//! Raft §5.3 and §5.4.2: what is committed, and when.

use crate::story;

story!(
    figure_8_an_older_term_is_never_committed_by_counting,
    r#"
    #        (a)      (b)         (c)            (d)
    #   N1  1 2      1 2         1 2 4 leads    1 3
    #   N2  1 2      1 2         1 2            1 3
    #   N3  1        1           1 2 copied     1 3
    #   N4  1        1           1              1 3
    #   N5  1        1 3 led t3  1 3 down       1 3 leads t5
    nodes 5 pre_vote=off append_bytes=1
    saved N1 term 2 vote N1 log t1 t2
    saved N2 term 2 vote N1 log t1 t2
    saved N3 term 3 vote N5 log t1
    saved N4 term 3 vote N5 log t1
    saved N5 term 3 vote N5 log t1 t3
    crash N5
    saved N1 term 3 log t1 t2
    cut N4
    campaign N1
    > N1 is candidate t4
    deliver vote
    deliver vote-reply
    > N1 is leader t4
    # Copy 2:t2 to N3, and nothing newer.
    deliver append N1>N3
    deliver append-reply N3>N1
    deliver 1 append N1>N3
    deliver append-reply N3>N1
    log
    > N1 t1=1:t1 t2=2:t2 t4
    > N2 t1=1:t1 t2=2:t2
    > N3 t1=1:t1 t2=2:t2
    > N4 t1=1:t1
    > N5 t1=1:t1 t3=2:t3
    # A majority holds 2:t2, and it is not committed,
    status N1
    > N1 leader t4, commit 0, last 3:t4
    # which is well, for N5 still wins (its last term is newer) and replaces it.
    crash N1
    restart N5
    heal
    hold N1
    skip * 2s
    campaign N5
    > N5 is candidate t4
    campaign N5
    > N5 is candidate t5
    deliver
    > N5 is leader t5
    log N2 N3 N4 N5
    > N2 t1=1:t1 t3=2:t3 t5
    > N3 t1=1:t1 t3=2:t3 t5
    > N4 t1=1:t1 t3=2:t3 t5
    > N5 t1=1:t1 t3=2:t3 t5
    status N2 N3 N4 N5
    > N2 follower t5 of N5, commit 3, last 3:t5
    > N3 follower t5 of N5, commit 3, last 3:t5
    > N4 follower t5 of N5, commit 3, last 3:t5
    > N5 leader t5, commit 3, last 3:t5
    "#
);

story!(
    figure_8_e_an_entry_of_the_own_term_commits_all_before_it,
    r#"
    nodes 5 pre_vote=off append_bytes=1
    saved N1 term 3 log t1 t2
    saved N2 term 3 log t1 t2
    saved N3 term 3 log t1
    saved N4 term 3 log t1
    saved N5 term 3 vote N5 log t1 t3
    crash N5
    cut N4
    campaign N1
    > N1 is candidate t4
    deliver
    > N1 is leader t4
    status N1 N2 N3
    > N1 leader t4, commit 3, last 3:t4
    > N2 follower t4 of N1, commit 3, last 3:t4
    > N3 follower t4 of N1, commit 3, last 3:t4
    # N5 cannot win any more: N2 and N3 have 3:t4.
    crash N1
    restart N5
    heal
    hold N1
    skip * 2s
    campaign N5
    > N5 is candidate t4
    deliver
    campaign N5
    > N5 is candidate t5
    deliver
    status N2 N3 N4 N5
    > N2 follower t5, commit 3, last 3:t4
    > N3 follower t5, commit 3, last 3:t4
    > N4 follower t5, commit 0, last 1:t1
    > N5 candidate t5, commit 0, last 2:t3
    "#
);

// scenario B25
story!(
    entries_of_an_older_term_stay_unreported_until_one_of_this_term_is_held,
    r#"
    # N1 led t1 to 100; N2 and N3 have 50. N2 led t2 and wrote 51:t2, on itself only.
    nodes 3 pre_vote=off append_bytes=1
    saved N1 term 2 log t1*100
    saved N2 term 2 vote N2 log t1*50 t2
    saved N3 term 2 vote N2 log t1*50
    # N1 leads t3, and copies 51..100 to N3, which is a majority; but not its own entry 101.
    hold N2
    campaign N1
    > N1 is candidate t3
    deliver vote N1>N3
    deliver vote-reply
    > N1 is leader t3
    deliver append N1>N3
    deliver append-reply
    deliver 1 append N1>N3
    deliver append-reply
    deliver 49 append N1>N3
    deliver append-reply N3>N1
    status N1 N3
    > N1 leader t3, commit 0, last 101:t3
    > N3 follower t3 of N1, commit 0, last 100:t1
    # Nothing is committed, so N2 may win t4 with N3: 51:t2 beats 100:t1.
    hold N1
    heal N2-N3
    skip * 2s
    campaign N2
    > N2 is candidate t3
    campaign N2
    > N2 is candidate t4
    deliver
    > N2 is leader t4
    log N3
    > N3 t1=1:t1 t1=2:t1 t1=3:t1 t1=4:t1 t1=5:t1 t1=6:t1 t1=7:t1 t1=8:t1 t1=9:t1 t1=10:t1 t1=11:t1 t1=12:t1 t1=13:t1 t1=14:t1 t1=15:t1 t1=16:t1 t1=17:t1 t1=18:t1 t1=19:t1 t1=20:t1 t1=21:t1 t1=22:t1 t1=23:t1 t1=24:t1 t1=25:t1 t1=26:t1 t1=27:t1 t1=28:t1 t1=29:t1 t1=30:t1 t1=31:t1 t1=32:t1 t1=33:t1 t1=34:t1 t1=35:t1 t1=36:t1 t1=37:t1 t1=38:t1 t1=39:t1 t1=40:t1 t1=41:t1 t1=42:t1 t1=43:t1 t1=44:t1 t1=45:t1 t1=46:t1 t1=47:t1 t1=48:t1 t1=49:t1 t1=50:t1 t2=51:t2 t4
    status
    > N1 leader t3, commit 0, last 101:t3
    > N2 leader t4, commit 52, last 52:t4
    > N3 follower t4 of N2, commit 52, last 52:t4
    "#
);

// scenario B25
story!(
    and_once_it_is_held_the_other_cannot_win,
    r#"
    nodes 3 pre_vote=off
    saved N1 term 2 log t1*100
    saved N2 term 2 vote N2 log t1*50 t2
    saved N3 term 2 vote N2 log t1*50
    hold N2
    campaign N1
    > N1 is candidate t3
    deliver
    > N1 is leader t3
    status N1 N3
    > N1 leader t3, commit 101, last 101:t3
    > N3 follower t3 of N1, commit 101, last 101:t3
    hold N1
    heal N2-N3
    skip * 2s
    campaign N2
    > N2 is candidate t3
    campaign N2
    > N2 is candidate t4
    deliver
    status N2 N3
    > N2 candidate t4, commit 0, last 51:t2
    > N3 follower t4, commit 101, last 101:t3
    heal
    run 5s
    > N1 is follower t3
    > N3 is candidate t5
    > N2 is follower t5
    > N3 is leader t5
    status
    > N1 follower t5 of N3, commit 102, last 102:t5
    > N2 follower t5 of N3, commit 102, last 102:t5
    > N3 leader t5, commit 102, last 102:t5
    "#
);

// scenario B26
story!(
    a_follower_commits_no_more_than_was_proved_equal,
    r#"
    # N1 keeps 10:t1, which was never committed. N2 of t2 has another 10 and 11, committed both. A
    # message that proves 9 only commits 9 only, whatever it says.
    nodes 3
    saved N1 term 1 log t1*10
    send N2>N1 t2 append after 9:t1 commit 11
    status N1
    > N1 follower t2 of N2, commit 9, last 10:t1
    # A heartbeat carries what the leader knows N1 to hold; beyond the log it is not believed.
    send N2>N1 t2 heartbeat commit 11
    status N1
    > N1 follower t2 of N2, commit 9, last 10:t1
    "#
);

// scenario B26
story!(
    a_heartbeat_commits_no_more_than_the_peer_is_known_to_hold,
    r#"
    nodes 3 pre_vote=off
    saved N1 term 1 log t1*10
    saved N2 term 1 log t1*9
    saved N3 term 1 log t1*9
    cut N1
    campaign N2
    > N2 is candidate t2
    deliver
    > N2 is leader t2
    propose N2 y
    deliver
    > N2: y committed at 11
    status N2
    > N2 leader t2, commit 11, last 11:t2
    # N1 returns: the first heartbeats come before any append.
    heal
    run 100ms
    messages heartbeat N2>N1
    > N2>N1 t2 heartbeat commit 0, round0
    deliver heartbeat
    status N1
    > N1 follower t2 of N2, commit 0, last 10:t1
    run 1s
    log N1
    > N1 t1=1:t1 t1=2:t1 t1=3:t1 t1=4:t1 t1=5:t1 t1=6:t1 t1=7:t1 t1=8:t1 t1=9:t1 t2 t2=y
    status N1
    > N1 follower t2 of N2, commit 11, last 11:t2
    "#
);

// scenario B37
story!(
    a_new_leader_counts_nobody_before_it_has_heard_from_them,
    r#"
    # N1's log is full, the others are empty; nobody's copy is assumed.
    nodes 3 pre_vote=off
    saved N1 term 1 log t1*5
    campaign N1
    > N1 is candidate t2
    deliver vote
    deliver vote-reply
    > N1 is leader t2
    status N1
    > N1 leader t2, commit 0, last 6:t2
    deliver append
    deliver append-reply
    status N1
    > N1 leader t2, commit 0, last 6:t2
    deliver
    status
    > N1 leader t2, commit 6, last 6:t2
    > N2 follower t2 of N1, commit 6, last 6:t2
    > N3 follower t2 of N1, commit 6, last 6:t2
    "#
);

story!(
    a_leader_counts_itself_only_when_its_disk_is_done,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 100ms
    stall N1
    propose N1 x
    cut N3
    deliver append
    deliver append-reply
    # N2 holds x durably, N1 does not yet: one of three.
    status N1
    > N1 leader t1, commit 1, last 2:t1
    sync N1
    > N1: x committed at 2
    "#
);

// scenario B60
story!(
    what_others_have_made_durable_is_applied_here_only_when_it_is_durable_here,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 100ms
    stall N1
    propose N1 x
    deliver
    # N2 and N3 are a majority, so x is committed; N1 answers when it has it, too.
    status
    > N1 leader t1, commit 2, last 2:t1
    > N2 follower t1 of N1, commit 2, last 2:t1
    > N3 follower t1 of N1, commit 2, last 2:t1
    sync N1
    > N1: x committed at 2
    "#
);
