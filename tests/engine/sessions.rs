//! Exactly once: sessions through leaders that are cut off, snapshots and restarts.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kontiki::{
    Answer, Config, Membership, Node, Parts, ProposeError, Session, SessionError, SessionMachine,
    keep_time, raft_core, start,
};
use tokio::time::{Instant, sleep, timeout};

use crate::kit::{ELECTION, HEARTBEAT, LIMIT, List, MemoryLog, MemorySnapshots, Network, id};

/// How long commands are given.
const STORM: Duration = Duration::from_secs(4);

/// Nodes whose callers have sessions, and which take a snapshot every few entries.
struct Desk {
    nodes: Vec<Node<Answer<usize>>>,
    lists: Vec<List>,
    network: Arc<Network>,
}

impl Desk {
    fn new(size: u64) -> Self {
        let network = Arc::<Network>::default();
        let (mut nodes, mut lists) = (Vec::new(), Vec::new());
        for number in (1..=size).map(id) {
            let mut config = Config::new(raft_core::Config::new(number));
            (config.raft.heartbeat_interval, config.raft.election_timeout) = (HEARTBEAT, ELECTION);
            (config.snapshot_entries, config.raft.snapshot_tail_entries) = (20, 5);
            let founders = Membership::new((1..=size).map(id)).expect("not empty");
            let (store, snapshots) = (MemoryLog::founded(founders), MemorySnapshots::default());
            let (link, inbox) = network.connect(number, snapshots.clone());
            let list = List::default();
            let saved = store.saved(raft_core::Index::ZERO);
            let machine = SessionMachine::new(list.clone());
            let (snapshots, transport) = (Arc::new(snapshots), Arc::new(link));
            let parts = Parts { store, snapshots, transport, inbox, machine };
            nodes.push(start(config, saved, parts).expect("starts"));
            lists.push(list);
        }
        Self { nodes, lists, network }
    }

    /// Cuts one node after the other off for a while: what a follower handed on may be executed
    /// without it, and its caller asks again.
    async fn disturb(&self) {
        for node in self.nodes.iter().cycle() {
            sleep(ELECTION / 2).await;
            self.network.cut(node.status().id);
            sleep(3 * ELECTION).await;
            self.network.heal();
        }
    }
}

/// One caller's commands, one after the other without a pause, and where the answers say that
/// they stand.
async fn call(session: Session<usize>, caller: usize) -> Vec<(Bytes, usize)> {
    let (until, mut places) = (Instant::now() + STORM, Vec::new());
    while Instant::now() < until {
        let command = Bytes::from(format!("{caller}-{}", places.len()));
        let applied = session.propose(command.clone()).await.expect("answered in the end");
        places.push((command, applied.response));
    }
    places
}

// scenarios B76, B77
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_is_executed_once_whoever_is_cut_off() {
    let desk = Desk::new(3);
    let mut calls = Vec::new();
    for (caller, node) in desk.nodes.iter().cycle().take(6).enumerate() {
        let session = Session::open(node, Duration::from_secs(60)).await.expect("opened");
        calls.push(tokio::spawn(call(session, caller)));
    }
    let all = async {
        let mut places = Vec::new();
        for call in calls {
            places.extend(call.await.expect("no panic"));
        }
        places
    };
    let places = tokio::select! {
        places = timeout(3 * LIMIT, all) => places.expect("answered in time"),
        () = desk.disturb() => unreachable!("it goes on for ever"),
    };
    desk.network.heal();
    let longest = || desk.lists.iter().map(List::contents).max_by_key(Vec::len);
    let list = longest().expect("there are nodes");
    assert_eq!(list.len(), places.len(), "nothing twice, nothing lost");
    for (command, place) in places {
        assert_eq!(list[place - 1], command, "the first answer, for the very command");
    }
    let equal = async {
        while desk.lists.iter().any(|other| other.contents() != list) {
            sleep(HEARTBEAT).await;
        }
    };
    timeout(LIMIT, equal).await.expect("all nodes come to the same");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_nobody_uses_expires_by_replicated_time() {
    let desk = Desk::new(1);
    let node = &desk.nodes[0];
    let lifetime = Duration::from_millis(150);
    let idle = Session::open(node, lifetime).await.expect("opened");
    let used = Session::open(node, lifetime).await.expect("opened");
    idle.propose("x".into()).await.expect("alive");
    sleep(2 * lifetime).await;
    idle.touch().await.expect("time stands still until somebody keeps it");
    let time = tokio::spawn(keep_time(node.clone(), HEARTBEAT));
    for _ in 0..20 {
        sleep(HEARTBEAT).await;
        used.touch().await.expect("alive");
    }
    assert_eq!(idle.touch().await, Err(SessionError::Expired));
    let refused = idle.propose("y".into()).await;
    assert_eq!(refused.map(|applied| applied.response), Err(SessionError::Expired));
    assert_eq!(desk.lists[0].contents().len(), 1, "and was not executed");

    node.shutdown().await;
    timeout(LIMIT, time).await.expect("time ends with the node").expect("no panic");
    let stopped = used.propose("z".into()).await.expect_err("the node has stopped");
    assert_eq!(stopped, SessionError::Refused(ProposeError::Stopped));
}
