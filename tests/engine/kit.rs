//! A group of real nodes on a log in memory and a network of channels, so that disks can fail
//! and links can be cut. Times are real and short.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{Cursor, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use bytes::Bytes;
use kontiki::raft_core::{self, Envelope, Lane, LogReader, LogStore, Transport, Write};
use kontiki::{
    Bincode, Codec, Config, Entry, Inbox, Index, Membership, Node, NodeId, Payload, Saved,
    StateMachine, start,
};
use tokio::sync::mpsc;

/// The heartbeat interval and the election timeout of these tests.
pub const HEARTBEAT: Duration = Duration::from_millis(20);
pub const ELECTION: Duration = Duration::from_millis(200);

/// How long anything here may take before the test says that it hangs.
pub const LIMIT: Duration = Duration::from_secs(20);

pub fn id(number: u64) -> NodeId {
    NodeId::new(number).expect("not zero")
}

/// A log in memory. It outlives its node, as a disk does.
#[derive(Clone, Default)]
pub struct MemoryLog {
    entries: Arc<RwLock<Vec<Entry>>>,
    fails: Arc<AtomicBool>,
    writes: Arc<AtomicU64>,
}

#[derive(Debug)]
pub struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the disk is broken")
    }
}

impl MemoryLog {
    pub fn break_disk(&self) {
        self.fails.store(true, Ordering::SeqCst);
    }
}

impl LogStore for MemoryLog {
    type Error = Broken;
    type Reader = Self;

    fn persist(&mut self, writes: &[Write]) -> Result<(), Broken> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(Broken);
        }
        self.writes.fetch_add(1, Ordering::SeqCst);
        let mut entries = self.entries.write().map_err(|_| Broken)?;
        for write in writes {
            if let Some(last) = write.truncate {
                entries.truncate(last.0 as usize);
            }
            entries.extend(write.entries.iter().cloned());
        }
        Ok(())
    }

    fn reader(&self) -> Self {
        self.clone()
    }
}

impl LogReader for MemoryLog {
    type Error = Broken;

    fn read(
        &self,
        first: Index,
        last: Index,
        bytes_max: usize,
        into: &mut Vec<Entry>,
    ) -> Result<(), Broken> {
        let mut bytes = 0;
        let entries = self.entries.read().map_err(|_| Broken)?;
        for entry in &entries[first.0 as usize - 1..last.0 as usize] {
            bytes += entry.size_bytes();
            if bytes > bytes_max && !into.is_empty() {
                break;
            }
            into.push(entry.clone());
        }
        Ok(())
    }
}

/// What a node has applied, and the last entry. It refuses to be fed out of order.
#[derive(Clone, Default)]
pub struct List(Arc<Mutex<(Vec<Bytes>, Index)>>);

impl List {
    pub fn contents(&self) -> Vec<Bytes> {
        self.0.lock().expect("not poisoned").0.clone()
    }
}

impl StateMachine for List {
    type Response = usize;
    type Error = String;

    fn applied(&self) -> Index {
        self.0.lock().map_or(Index::ZERO, |list| list.1)
    }

    /// Every other command, so that quick ones and others follow one another.
    fn is_quick(&self, entries: &[Entry]) -> bool {
        entries.iter().all(|entry| entry.index.0 % 2 == 0)
    }

    fn apply(&mut self, entries: &[Entry], responses: &mut Vec<usize>) -> Result<(), String> {
        for entry in entries {
            let due = self.0.lock().map_err(|error| error.to_string())?.1.next();
            if entry.index != due {
                return Err(format!("{:?} came where {due:?} was due", entry.index));
            }
            self.0.lock().map_err(|error| error.to_string())?.1 = due;
            if let Payload::Command(command) = &entry.payload {
                match &command[..] {
                    b"fail" => return Err("no space for it".into()),
                    b"panic" => panic!("told to"),
                    _ => {}
                }
                let mut list = self.0.lock().map_err(|error| error.to_string())?;
                list.0.push(command.clone());
                responses.push(list.0.len());
            }
        }
        Ok(())
    }

    fn snapshot(&self) -> Result<Box<dyn Read + Send>, String> {
        let list = self.0.lock().map_err(|error| error.to_string())?;
        let bytes = Bincode.encode(&list.0.iter().map(|it| it.to_vec()).collect::<Vec<_>>());
        Ok(Box::new(Cursor::new(bytes.map_err(|error| error.to_string())?)))
    }

    fn restore(&mut self, applied: Index, state: &mut dyn Read) -> Result<(), String> {
        let mut bytes = Vec::new();
        state.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        let list: Vec<Vec<u8>> = Bincode.decode(&bytes).map_err(|error| error.to_string())?;
        let list = list.into_iter().map(Bytes::from).collect();
        *self.0.lock().map_err(|error| error.to_string())? = (list, applied);
        Ok(())
    }
}

/// A node's control lane and its bulk lane.
type Lanes = (mpsc::Sender<Vec<Envelope>>, mpsc::Sender<Vec<Envelope>>);

/// Channels between nodes, any of which can be cut off.
#[derive(Default)]
pub struct Network {
    inboxes: RwLock<Vec<Lanes>>,
    cut: RwLock<BTreeSet<NodeId>>,
}

impl Network {
    pub fn cut(&self, node: NodeId) {
        self.cut.write().expect("not poisoned").insert(node);
    }

    pub fn heal(&self) {
        self.cut.write().expect("not poisoned").clear();
    }
}

/// One node's end of the network.
pub struct Link {
    network: Arc<Network>,
    own: NodeId,
}

impl Transport for Link {
    fn send(&self, envelopes: &mut Vec<Envelope>) {
        let cut = self.network.cut.read().expect("not poisoned");
        let inboxes = self.network.inboxes.read().expect("not poisoned");
        for envelope in envelopes.drain(..) {
            if cut.contains(&envelope.from) || cut.contains(&envelope.to) {
                continue;
            }
            let inbox = inboxes.get(envelope.to.get() as usize - 1);
            let Some((control, bulk)) = inbox else { continue };
            let lane = match envelope.message.lane() {
                Lane::Control => control,
                Lane::Bulk => bulk,
            };
            // A full lane drops, as a transport may.
            let _ = lane.try_send(vec![envelope]);
        }
    }

    fn is_reachable(&self, peer: NodeId) -> bool {
        let cut = self.network.cut.read().expect("not poisoned");
        !cut.contains(&self.own) && !cut.contains(&peer)
    }
}

pub struct Group {
    pub nodes: Vec<Node<usize>>,
    pub lists: Vec<List>,
    pub logs: Vec<MemoryLog>,
    pub network: Arc<Network>,
}

impl Group {
    pub fn new(size: u64) -> Self {
        Self::with(size, |_| {})
    }

    pub fn with(size: u64, tune: impl Fn(&mut raft_core::Config)) -> Self {
        let network = Arc::new(Network::default());
        let mut group = Self { nodes: vec![], lists: vec![], logs: vec![], network };
        for number in 1..=size {
            let (log, list) = (MemoryLog::default(), List::default());
            let mut config = raft_core::Config::new(id(number));
            (config.heartbeat_interval, config.election_timeout) = (HEARTBEAT, ELECTION);
            tune(&mut config);
            let (control, urgent) = mpsc::channel(1024);
            let (bulk, bulky) = mpsc::channel(1024);
            group.network.inboxes.write().expect("not poisoned").push((control, bulk));
            let membership = Membership::new((1..=size).map(id)).expect("not empty");
            let inbox = Inbox { control: urgent, bulk: bulky };
            let link = Link { network: Arc::clone(&group.network), own: id(number) };
            let saved = Saved::first_start(membership);
            let node =
                start(Config::new(config), saved, log.clone(), Arc::new(link), inbox, list.clone());
            group.nodes.push(node.expect("starts"));
            group.lists.push(list);
            group.logs.push(log);
        }
        group
    }

    /// The node that leads in the newest term, once there is one.
    pub async fn leader(&self) -> &Node<usize> {
        self.leader_but(None).await
    }

    /// The same, but another than `other`.
    pub async fn leader_but(&self, other: Option<NodeId>) -> &Node<usize> {
        let seek = async {
            loop {
                let leads = |node: &&Node<usize>| {
                    let status = node.status();
                    status.leadership.is_leader() && Some(status.id) != other
                };
                if let Some(leader) = self.nodes.iter().find(leads) {
                    return leader;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(LIMIT, seek).await.expect("a leader in time")
    }

    /// Waits until every node has applied the same list, of this length.
    pub async fn all_apply(&self, length: usize) {
        let wait = async {
            while self.lists.iter().any(|list| list.contents().len() < length) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        if tokio::time::timeout(LIMIT, wait).await.is_err() {
            panic!("not everybody applies in time: {:#?}", self.nodes);
        }
        for list in &self.lists {
            assert_eq!(list.contents(), self.lists[0].contents(), "equal lists");
            assert_eq!(list.contents().len(), length, "nothing twice, nothing more");
        }
    }
}
