//! A damaged log that is known to be damaged (PAR, FAST '18).

use crate::story;

// scenario B64
story!(
    a_damaged_node_is_sent_again_what_it_had_acknowledged,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    propose N1 a b c d
    run 100ms
    > N1: a committed at 2
    > N1: b committed at 3
    > N1: c committed at 4
    > N1: d committed at 5
    crash N2
    damage N2 2
    restart N2
    status N2
    > N2 follower t1, commit 2, last 2:t1, had 5:t1
    run 300ms
    status N2
    > N2 follower t1 of N1, commit 5, last 5:t1
    log N2
    > N2 t1 t1=a t1=b t1=c t1=d
    state N2
    > N2 has applied 5: a b c d
    "#
);

// scenario B64
story!(
    it_votes_for_nobody_who_has_less_than_it_had,
    r#"
    # a to d are on N1 and N2. N2 loses them; N1 is away. N3 must not be elected.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    cut N3
    propose N1 a b c d
    run 100ms
    > N1: a committed at 2
    > N1: b committed at 3
    > N1: c committed at 4
    > N1: d committed at 5
    crash N1
    crash N2
    damage N2 1
    restart N2
    heal
    run 20s
    > N3 is pre-candidate t1
    status
    > N1 down
    > N2 follower t1, commit 1, last 1:t1, had 5:t1
    > N3 pre-candidate t1, commit 1, last 1:t1
    restart N1
    run 4s
    > N1 is pre-candidate t1
    > N1 is candidate t2
    > N3 is follower t2
    > N1 is leader t2
    status
    > N1 leader t2, commit 6, last 6:t2
    > N2 follower t2 of N1, commit 6, last 6:t2
    > N3 follower t2 of N1, commit 6, last 6:t2
    log N2 N3
    > N2 t1 t1=a t1=b t1=c t1=d t2
    > N3 t1 t1=a t1=b t1=c t1=d t2
    "#
);

// scenario B64
story!(
    nor_does_it_stand_itself,
    r#"
    # N2 has lost d, N3 never had anything.
    nodes 3 pre_vote=off
    elect N1
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    cut N3
    propose N1 a b c d
    run 100ms
    > N1: a committed at 2
    > N1: b committed at 3
    > N1: c committed at 4
    > N1: d committed at 5
    crash N1
    crash N2
    damage N2 4
    restart N2
    heal
    campaign N2
    deliver
    status N2 N3
    > N2 follower t1 of N1, commit 4, last 4:t1, had 5:t1
    > N3 follower t1 of N1, commit 1, last 1:t1
    run 10s
    > N3 is candidate t2
    > N3 is candidate t3
    > N3 is candidate t4
    > N3 is candidate t5
    > N3 is candidate t6
    > N3 is candidate t7
    > N3 is candidate t8
    status N2
    > N2 follower t8, commit 4, last 4:t1, had 5:t1
    log N3
    > N3 t1
    "#
);

// scenario B64
story!(
    a_longer_log_of_an_older_term_is_not_as_good,
    r#"
    nodes 3 pre_vote=off
    saved N1 term 2 log t1*3 t2*2
    saved N2 term 2 log t1*3 t2*2
    saved N3 term 2 log t1*9
    crash N2
    damage N2 1
    restart N2
    campaign N3
    > N3 is candidate t3
    deliver
    status N2 N3
    > N2 follower t3, commit 0, last 1:t1, had 5:t2
    > N3 candidate t3, commit 0, last 9:t1
    campaign N1
    > N1 is candidate t4
    deliver
    > N3 is follower t4
    > N1 is leader t4
    status
    > N1 leader t4, commit 6, last 6:t4
    > N2 follower t4 of N1, commit 6, last 6:t4
    > N3 follower t4 of N1, commit 6, last 6:t4
    log N2
    > N2 t1=1:t1 t1=2:t1 t1=3:t1 t2=4:t2 t2=5:t2 t4
    "#
);

// scenario B64
story!(
    one_whole_log_is_enough_where_the_damaged_ones_know_it,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    propose N1 a b c d
    run 100ms
    > N1: a committed at 2
    > N1: b committed at 3
    > N1: c committed at 4
    > N1: d committed at 5
    crash N1
    crash N2
    crash N3
    damage N1 3
    damage N2 2
    restart *
    run 30s
    > N3 is pre-candidate t1
    > N3 is candidate t2
    > N1 is follower t2
    > N3 is leader t2
    status
    > N1 follower t2 of N3, commit 6, last 6:t2
    > N2 follower t2 of N3, commit 6, last 6:t2
    > N3 leader t2, commit 6, last 6:t2
    log N1 N2
    > N1 t1 t1=a t1=b t1=c t1=d t2
    > N2 t1 t1=a t1=b t1=c t1=d t2
    "#
);

// scenario B64
story!(
    with_no_whole_log_nobody_leads,
    r#"
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    propose N1 a b c d
    run 100ms
    > N1: a committed at 2
    > N1: b committed at 3
    > N1: c committed at 4
    > N1: d committed at 5
    crash N1
    crash N2
    crash N3
    damage N1 3
    damage N2 2
    damage N3 4
    restart *
    run 1min
    status
    > N1 follower t1, commit 3, last 3:t1, had 5:t1
    > N2 follower t1, commit 2, last 2:t1, had 5:t1
    > N3 follower t1, commit 4, last 4:t1, had 5:t1
    "#
);

story!(
    what_was_never_committed_need_not_come_back,
    r#"
    # N1 wrote x and y for itself alone, and lost them; the others went on without.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    cut N1
    propose N1 x y
    run 50ms
    crash N1
    damage N1 1
    restart N1
    status N1
    > N1 follower t1, commit 1, last 1:t1, had 3:t1
    run 4s
    > N2 is pre-candidate t1
    > N2 is candidate t2
    > N2 is leader t2
    propose N2 z
    heal
    run 500ms
    > N2: z committed at 3
    > N1 is follower t2 of N2
    status
    > N1 follower t2 of N2, commit 3, last 3:t2
    > N2 leader t2, commit 3, last 3:t2
    > N3 follower t2 of N2, commit 3, last 3:t2
    log
    > N1 t1 t2 t2=z
    > N2 t1 t2 t2=z
    > N3 t1 t2 t2=z
    "#
);

story!(
    a_damaged_lone_voter_waits_for_its_operator,
    r#"
    nodes 1
    run 10ms
    > N1 is candidate t1
    > N1 is leader t1
    propose N1 a b
    > N1: a committed at 2
    > N1: b committed at 3
    run 10ms
    crash N1
    damage N1 2
    restart N1
    run 1min
    status
    > N1 follower t1, commit 2, last 2:t1, had 3:t1
    "#
);

story!(
    a_damaged_node_takes_a_snapshot_instead,
    r#"
    nodes 3 tail=0
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    propose N1 a b
    run 100ms
    > N1: a committed at 2
    > N1: b committed at 3
    crash N2
    damage N2 1
    propose N1 c
    run 100ms
    > N1: c committed at 4
    snapshot N1
    restart N2
    run 500ms
    > N1 sends N2 a snapshot
    > N2 installs the snapshot of 4:t1
    status N2
    > N2 follower t1 of N1, commit 4, last 4:t1, begins after 4:t1
    state N2
    > N2 has applied 4: a b c
    "#
);

// scenario B70
story!(
    an_empty_disk_that_does_not_know_it_is_noticed,
    r#"
    # N2's disk was replaced by an empty one, under its old name. The leader finds out, also when
    # nothing is proposed, and does not count on it any more.
    nodes 3
    elect N1
    > N1 is pre-candidate t0
    > N1 is candidate t1
    > N1 is leader t1
    run 200ms
    propose N1 a b
    run 100ms
    > N1: a committed at 2
    > N1: b committed at 3
    saved N2 term 0
    run 150ms
    > N1 finds that N2 fell from 3 to 0
    > N1 finds that N2 fell from 3 to 0
    > N1 finds that N2 fell from 3 to 0
    status N2
    > N2 follower t1 of N1, commit 0, last 0:t0
    cut N3
    propose N1 c
    run 50ms
    status N1
    > N1 leader t1, commit 3, last 4:t1
    "#
);
