//! Nodes on the real log and the real transport, and the settings that are refused.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use kontiki::{
    Builder, Change, ChangeError, ChangeMembershipError, ChangeSet, Consistency, Index, NewMember,
    Node, ProposeError, StartError, StopReason,
};
use tokio::time::timeout;

use crate::kit::{ELECTION, HEARTBEAT, LIMIT, List, eventually, id};

fn builder(id: u64) -> Builder {
    Builder::new(id).cluster_id(7).heartbeat_interval(HEARTBEAT).election_timeout(ELECTION)
}

async fn refusal(builder: Builder) -> String {
    builder.start(List::default()).await.expect_err("refused").to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_cannot_work_are_refused_with_the_reason() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("never made");
    let base = |id| builder(id).data_dir(&path);
    let cases = [
        (base(0), "a node has the id 0; give it another number"),
        (base(1).member(0, "a:1").member(1, "b:1"), "a node has the id 0; give it another number"),
        (base(1).member(2, "a:1"), "this node, 1, is not among the members; add it"),
        (base(1).member(1, "a:1").member(1, "b:1"), "two members have the id 1; give each its own"),
        (
            base(1).member(1, "a:1").member(2, "a:1"),
            "members 1 and 2 have the same address, \"a:1\"; give each its own",
        ),
        (
            base(1).heartbeat_interval(Duration::ZERO),
            "the heartbeat interval is zero; 100 ms is usual",
        ),
        (
            base(1).election_timeout(HEARTBEAT * 4),
            "the election timeout (80ms) is less than five heartbeats (20ms); one late heartbeat \
             would depose a healthy leader, so make it at least 100ms",
        ),
        (base(1).entry_bytes_max(0), "entry_bytes_max is zero; give it at least one"),
    ];
    for (builder, reason) in cases {
        assert_eq!(refusal(builder).await, reason);
    }
    assert!(!path.exists(), "nothing was made");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_is_one_nodes_alone_and_survives_its_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let one = || builder(1).data_dir(dir.path());
    let list = List::default();
    let node: Node<usize> = one().start(list.clone()).await.expect("starts");
    timeout(LIMIT, node.leader()).await.expect("in time").expect("running");
    for text in ["a", "b", "c"] {
        node.propose(Bytes::from_static(text.as_bytes())).await.expect("committed");
    }
    let second = one().start(List::default()).await.expect_err("the log is in use");
    assert!(matches!(second, StartError::Storage(_)), "{second}");
    assert_eq!(timeout(LIMIT, node.shutdown()).await, Ok(StopReason::Shutdown));

    for (other, what) in [
        (builder(2).data_dir(dir.path()), "another node"),
        (one().cluster_id(8), "another cluster"),
    ] {
        let error = refusal(other).await;
        assert!(error.contains(&dir.path().display().to_string()), "{what}: {error}");
    }

    // Who belongs to the group is in the log, whoever is named now; and so is the cluster.
    let restarted = List::default();
    let again = Builder::new(1).heartbeat_interval(HEARTBEAT).election_timeout(ELECTION);
    let again = again.data_dir(dir.path()).member(1, "127.0.0.1:0").member(2, "127.0.0.1:1");
    let node = again.start(restarted.clone()).await.expect("starts again");
    assert_eq!(node.status().members.membership.voters().collect::<Vec<_>>(), [id(1)]);
    timeout(LIMIT, node.leader()).await.expect("in time").expect("running");
    let permit = node.read(Consistency::Linearizable).await.expect("leads");
    assert!(permit.index > Index(4), "a new term, a new entry");
    assert_eq!(restarted.contents(), ["a", "b", "c"], "everything is applied again, once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_in_use_is_a_clear_error() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    let dir = tempfile::tempdir().expect("a directory");
    let error = refusal(builder(1).member(1, &address).data_dir(dir.path())).await;
    assert!(error.starts_with(&format!("cannot listen on {address} for peers: ")), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_listens_wherever_it_is_told_to() {
    let dir = tempfile::tempdir().expect("a directory");
    let free = || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.local_addr().expect("bound")
    };
    let (first, second) = (free(), free());
    let addresses = [first.to_string(), second.to_string()];
    let node: Node<usize> = addresses
        .iter()
        .fold(builder(1).data_dir(dir.path()), |builder, address| builder.listen(address))
        .start(List::default())
        .await
        .expect("starts");
    for address in addresses {
        tokio::net::TcpStream::connect(&address).await.expect("it listens");
    }
    assert_eq!(node.shutdown().await, StopReason::Shutdown);
}

fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").to_string()
}

// scenario B54
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_is_cut_behind_snapshots_and_behind_what_survives_by_itself() {
    for survives in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let one = || builder(1).data_dir(dir.path()).snapshot_entries(50).snapshot_tail_entries(10);
        let list = List::default();
        list.survives.store(survives, Ordering::SeqCst);
        let node = one().start(list.clone()).await.expect("starts");
        timeout(LIMIT, node.leader()).await.expect("in time").expect("running");
        for _ in 0..200 {
            node.propose(Bytes::from_static(b"x")).await.expect("committed");
        }
        eventually("the log is cut", || node.status().base > Index(100)).await;
        assert_eq!(timeout(LIMIT, node.shutdown()).await, Ok(StopReason::Shutdown));

        if survives {
            // The state is gone, and the log is whole: it must be left alone, whoever tries.
            for _ in 0..2 {
                let lost = List::default();
                lost.survives.store(true, Ordering::SeqCst);
                let refused = one().start(lost).await.expect_err("nothing to begin with");
                assert!(matches!(refused, StartError::StateLost { .. }), "{refused}");
            }
        }
        let restarted = if survives { list.reopened() } else { List::default() };
        let opened = one().open().await.expect("opens");
        assert_eq!(opened.recovered().repairs, Vec::<String>::new(), "nothing is wrong with it");
        let node = opened.start(restarted.clone()).expect("starts again");
        timeout(LIMIT, node.leader()).await.expect("in time").expect("running");
        node.read(Consistency::Linearizable).await.expect("leads");
        assert_eq!(restarted.contents().len(), 200, "survives: {survives}");
        assert!(node.status().base > Index(100));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_joins_gets_a_snapshot_votes_and_is_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let base = |id: u64| {
        let builder = builder(id).data_dir(dir.path().join(id.to_string()));
        builder.snapshot_entries(50).snapshot_tail_entries(10)
    };
    let (first, second) = (free_address(), free_address());
    let (one_list, two_list) = (List::default(), List::default());
    let one = base(1).member(1, &first).start(one_list.clone()).await.expect("starts");
    timeout(LIMIT, one.leader()).await.expect("in time").expect("running");
    for _ in 0..200 {
        one.propose(Bytes::from_static(b"x")).await.expect("committed");
    }
    eventually("the log is cut", || one.status().base > Index(100)).await;

    let join = || Builder::new(2).heartbeat_interval(HEARTBEAT).election_timeout(ELECTION);
    let join = || join().data_dir(dir.path().join("2")).join([&first]);
    let change = |change| ChangeSet { changes: vec![change], ..ChangeSet::default() };
    let new = NewMember { id: id(2), address: second.clone() };
    one.change_membership(change(Change::AddVoter(new))).await.expect("added");
    let two = join().start(two_list.clone()).await.expect("joins");
    eventually("it votes", || two.status().members.membership.is_voter(id(2))).await;
    eventually("it has everything", || two_list.contents() == one_list.contents()).await;
    assert!(two.status().base > Index(100), "a snapshot came first");
    let disk = || one.status().members.membership.member(id(2)).and_then(|it| it.incarnation);
    eventually("its disk is noted", || disk().is_some()).await;

    // It starts again as what the log says, wherever it is told to join.
    assert_eq!(timeout(LIMIT, two.shutdown()).await, Ok(StopReason::Shutdown));
    let two_list = List::default();
    let two = join().start(two_list.clone()).await.expect("starts again");
    timeout(LIMIT, two.leader()).await.expect("in time").expect("running");
    let applied = loop {
        match two.propose(Bytes::from_static(b"y")).await {
            Ok(applied) => break applied,
            Err(ProposeError::NotLeader { .. }) => tokio::time::sleep(HEARTBEAT).await,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(applied.response, 201);

    eventually("somebody leads", || one.status().leadership.leader.is_some()).await;
    let leader = if one.status().leadership.is_leader() { &one } else { &two };
    loop {
        match leader.change_membership(change(Change::Remove(id(2)))).await {
            Ok(_) => break,
            // The disk that it came with is still being noted.
            Err(ChangeMembershipError::Refused(ChangeError::InProgress)) => {}
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(HEARTBEAT).await;
    }
    let reason = timeout(LIMIT, two.stopped()).await.expect("it learns of it");
    assert_eq!(reason, StopReason::Removed);
    std::fs::remove_dir_all(dir.path().join("2")).expect("deleted");
    let refused = join().start(List::default()).await.expect_err("never again");
    assert!(refused.to_string().contains("an id is never given again"), "{refused}");
}

/// A member of three, each at its address.
async fn one_of_three(number: u64, dir: &Path, addresses: &[String], list: List) -> Node<usize> {
    let base = builder(number).data_dir(dir.join(number.to_string()));
    let base = base.snapshot_entries(50).snapshot_tail_entries(10);
    let members = (1..).zip(addresses);
    let builder = members.fold(base, |builder, (id, at)| builder.member(id, at));
    builder.start(list).await.expect("starts")
}

// scenario B64
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_snapshot_rots_is_sent_everything_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let addresses: Vec<String> = (0..3).map(|_| free_address()).collect();
    let start = |number, list| one_of_three(number, dir.path(), &addresses, list);
    let (one, two) = (start(1, List::default()).await, start(2, List::default()).await);
    let three = start(3, List::default()).await;
    timeout(LIMIT, one.leader()).await.expect("in time").expect("running");
    for _ in 0..200 {
        one.propose(Bytes::from_static(b"x")).await.expect("committed");
    }
    eventually("the log is cut", || three.status().base > Index(100)).await;
    three.shutdown().await;
    let files = std::fs::read_dir(dir.path().join("3")).expect("its directory");
    let files = files.map(|file| file.expect("its file").path());
    let snapshot = files.filter(|path| path.extension().is_some_and(|ext| ext == "snap"));
    for path in snapshot {
        let mut bytes = std::fs::read(&path).expect("a snapshot");
        let last_block = bytes.len() - 64;
        bytes[last_block] ^= 1;
        std::fs::write(&path, bytes).expect("written");
    }

    let list = List::default();
    let three = start(3, list.clone()).await;
    eventually("it is whole again", || list.contents().len() == 200).await;
    assert_eq!(three.status().claim, None);
    assert_eq!(three.status().leadership.leader, two.status().leadership.leader);
}

// scenario B70
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_comes_back_with_an_empty_disk_is_turned_away() {
    let dir = tempfile::tempdir().expect("a directory");
    let addresses: Vec<String> = (0..3).map(|_| free_address()).collect();
    let start = |number| one_of_three(number, dir.path(), &addresses, List::default());
    let (one, two, three) = (start(1).await, start(2).await, start(3).await);
    let known = |node: &Node<usize>| {
        let members = node.status().members.membership;
        members.members().iter().all(|member| member.incarnation.is_some())
    };
    eventually("all disks are noted", || known(&one) && known(&two) && known(&three)).await;
    three.shutdown().await;
    std::fs::remove_dir_all(dir.path().join("3")).expect("its disk is lost");

    let three = start(3).await;
    let reason = timeout(LIMIT, three.stopped()).await.expect("it is told");
    let StopReason::Impostor(reason) = reason else { panic!("{reason}") };
    assert!(reason.contains("kontiki member replace"), "{reason}");
    timeout(LIMIT, one.leader()).await.expect("in time").expect("running");
    one.propose(Bytes::from_static(b"x")).await.expect("the others go on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_not_added_cannot_join() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = free_address();
    let founder = builder(1).member(1, &first).data_dir(dir.path().join("1"));
    let _one: Node<usize> = founder.start(List::default()).await.expect("starts");
    let stranger = Builder::new(2).data_dir(dir.path().join("2")).join([&first]);
    let refused = refusal(stranger).await;
    assert!(refused.starts_with("node 2 is no member of cluster"), "{refused}");
    assert!(!dir.path().join("2").exists(), "nothing was made");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn meters_show_what_the_disk_has_done_and_keep_nothing_running() {
    let dir = tempfile::tempdir().expect("a directory");
    let opened = builder(1).data_dir(dir.path()).open().await.expect("opens");
    let (node, meters) = opened.start_metered(List::default()).expect("starts");
    timeout(LIMIT, node.leader()).await.expect("in time").expect("running");
    let before = meters.log();
    let command = Bytes::from(vec![7; 4000]);
    node.propose(command.clone()).await.expect("committed");
    let after = meters.log();
    assert!(after.syncs > before.syncs && after.sync_time > before.sync_time);
    assert!(after.written_bytes >= before.written_bytes + command.len() as u64);
    assert_eq!(timeout(LIMIT, node.shutdown()).await, Ok(StopReason::Shutdown));
    eventually("nobody holds the transport", || meters.peers().is_empty()).await;
    assert!(meters.log().syncs >= after.syncs);
}
