//! The cluster under torture: its processes, its links, and what it says of itself.

use std::collections::BTreeMap;
use std::path::Path;

use kontiki_client::{ClientUrl, prefix_end};
use kontiki_kv::admin::Admin;
use kontiki_kv::proto::etcdserverpb::RangeRequest;
use kontiki_kv::proto::kontiki::InspectResponse;
use kontiki_kv::proto::mvccpb::KeyValue;
use rustix::process::Signal;
use tokio::sync::watch;

use super::disk::SmallDisk;
use super::node::{Common, Node};
use super::schedule::{Cut, Whom};
use super::until;
use super::wires::Wires;
use crate::cli::Failure;

/// All nodes, and what is between them. Dropped, all of it ends.
pub(crate) struct Arena {
    pub(crate) common: Common,
    pub(crate) nodes: Vec<Node>,
    pub(crate) wires: Wires,
    pub(crate) endpoints: watch::Sender<Vec<ClientUrl>>,
    /// Why there is none, if there is no disk that can be filled.
    pub(crate) small_disk: Result<(), String>,
    next_number: usize,
}

impl Arena {
    /// A cluster that has a leader. If `fills_disks`, one node has its data on a disk that can be
    /// filled, where the machine allows that.
    pub(crate) async fn start(
        common: Common,
        count: usize,
        seed: u64,
        fills_disks: bool,
    ) -> Result<Self, Failure> {
        let nodes = (1..=count).map(|number| Node::new(number, &common));
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        let wires = Wires::new(seed).map_err(Failure::new)?;
        let mut arena = Self {
            common,
            nodes,
            wires,
            endpoints: watch::Sender::new(Vec::new()),
            small_disk: Err("not asked for".to_owned()),
            next_number: count + 1,
        };
        let members: Vec<String> = arena.nodes.iter().map(Node::as_member).collect();
        for node in &mut arena.nodes {
            node.members = members.join(",");
        }
        if fills_disks {
            arena.mount_small_disk((seed % count as u64) as usize).await;
        }
        for at in 0..count {
            arena.join_wires(at)?;
            arena.start_node(at)?;
        }
        arena.tell_endpoints();
        arena.leader_surely().await?;
        Ok(arena)
    }

    /// A node that was never there before, and does not run yet.
    pub(crate) fn new_node(&mut self) -> Result<Node, Failure> {
        self.next_number += 1;
        Node::new(self.next_number - 1, &self.common)
    }

    /// Its data will be on a disk that can be filled, if there can be one.
    async fn mount_small_disk(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        match SmallDisk::mount(&node.data_dir).await {
            Ok(disk) => (node.disk, self.small_disk) = (Some(disk), Ok(())),
            Err(reason) => self.small_disk = Err(reason),
        }
    }

    pub(crate) fn join_wires(&mut self, at: usize) -> Result<(), Failure> {
        let node = &self.nodes[at];
        if self.common.has_wires {
            let added = self.wires.add(node.number, node.front_port, node.peer_port);
            added.map_err(|error| Failure::new(format!("cannot listen: {error}")))?;
        }
        Ok(())
    }

    pub(crate) fn tell_endpoints(&self) {
        self.endpoints.send_replace(self.nodes.iter().map(Node::client_url).collect());
    }

    pub(crate) fn start_node(&mut self, at: usize) -> Result<(), Failure> {
        let node = &mut self.nodes[at];
        let process = node.spawn(&self.common)?;
        self.wires.set_process(node.number, Some(process));
        Ok(())
    }

    /// `kill -9`.
    pub(crate) async fn kill(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        if let Some(mut process) = node.process.take() {
            process.kill().await;
        }
        self.wires.set_process(node.number, None);
    }

    pub(crate) fn pause(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        if let Some(process) = &node.process {
            process.signal(Signal::STOP);
            node.is_paused = true;
        }
    }

    pub(crate) fn resume(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        if let Some(process) = &node.process {
            process.signal(Signal::CONT);
            node.is_paused = false;
        }
    }

    pub(crate) fn cut(&self, links: &[(usize, usize)]) {
        let number = |at: usize| self.nodes[at].number;
        self.wires.cut(links.iter().map(|(from, to)| (number(*from), number(*to))));
    }

    /// A node that ended by itself, which none should.
    pub(crate) fn check_alive(&mut self) -> Result<(), Failure> {
        for node in &mut self.nodes {
            if node.process.as_mut().is_some_and(|process| process.has_ended()) {
                let words = node.last_words();
                return Err(Failure::new(format!("{} ended by itself; {words}", node.name)));
            }
        }
        Ok(())
    }

    /// The positions of those whom it meets.
    pub(crate) async fn find(&self, whom: Whom) -> Vec<usize> {
        let count = self.nodes.len();
        match whom {
            Whom::Leader => vec![self.leader().await.unwrap_or(0)],
            Whom::Node(at) => vec![at % count],
            Whom::Majority(at) => (0..=count / 2).map(|more| (at + more) % count).collect(),
            Whom::All => (0..count).collect(),
        }
    }

    /// The links that it cuts, from whom to whom.
    pub(crate) async fn links(&self, cut: Cut) -> Vec<(usize, usize)> {
        let count = self.nodes.len();
        let all = || (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
        let (away, inward, outward) = match cut {
            Cut::Off(whom) => (self.find(whom).await, true, true),
            Cut::Mute(whom) => (self.find(whom).await, false, true),
            Cut::Deaf(whom) => (self.find(whom).await, true, false),
            Cut::Pair(a, b) => {
                let pair = [a % count, b % count];
                let is_pair = |(from, to): &(usize, usize)| {
                    from != to && pair.contains(from) && pair.contains(to)
                };
                return all().filter(is_pair).collect();
            }
            Cut::Minority(at) => {
                ((0..count.div_ceil(2) - 1).map(|more| (at + more) % count).collect(), true, true)
            }
        };
        let crosses = |(from, to): &(usize, usize)| {
            let (leaves, enters) = (away.contains(from), away.contains(to));
            (leaves && !enters && outward) || (enters && !leaves && inward)
        };
        all().filter(crosses).collect()
    }

    /// What a node says of itself, if it answers.
    pub(crate) async fn inspect(&self, at: usize) -> Option<InspectResponse> {
        if !self.nodes[at].is_well() {
            return None;
        }
        self.nodes[at].client().inspect().await.ok()
    }

    /// Who leads, as far as anybody says.
    pub(crate) async fn leader(&self) -> Option<usize> {
        let mut leader = None;
        for at in 0..self.nodes.len() {
            if let Some(said) = self.inspect(at).await
                && said.role == "leader"
            {
                leader = leader.max(Some((said.term, at)));
            }
        }
        leader.map(|(_, at)| at)
    }

    pub(crate) async fn leader_surely(&self) -> Result<usize, Failure> {
        until("somebody leads", async || self.leader().await).await
    }

    /// Waits until all nodes have the same hash at the same revision; both of them.
    pub(crate) async fn settled(&self) -> Result<(i64, u32), Failure> {
        let agreed = until("all nodes hold the same", async || {
            let mut states = Vec::new();
            for node in &self.nodes {
                let revision = node.client().status().await.ok()?.header?.revision;
                let said = node.client().hash_kv(revision).await.ok()?;
                states.push(((revision, said.compact_revision), said.hash));
            }
            // A compaction is no revision, and changes what is hashed.
            let is_one = states.iter().all(|state| state.0 == states[0].0);
            is_one.then_some(states)
        });
        let states = agreed.await?;
        let hashes: Vec<String> = states.iter().map(|(_, hash)| format!("{hash:08x}")).collect();
        if states.iter().any(|state| state.1 != states[0].1) {
            let revision = states[0].0.0;
            return Err(Failure::new(format!(
                "the replicas have diverged: at revision {revision} the hashes are {}",
                hashes.join(", ")
            )));
        }
        Ok((states[0].0.0, states[0].1))
    }

    /// All keys that start so, as this node has them, in pages.
    pub(crate) async fn held(
        &self,
        at: usize,
        prefix: &str,
    ) -> Result<BTreeMap<String, KeyValue>, Failure> {
        const PAGE: i64 = 500;
        let client = self.nodes[at].client();
        let mut request = RangeRequest {
            key: prefix.to_owned().into(),
            range_end: prefix_end(prefix.as_bytes()).into(),
            serializable: true,
            limit: PAGE,
            ..RangeRequest::default()
        };
        let mut held = BTreeMap::new();
        loop {
            let page = client.range(request.clone()).await.map_err(Failure::new)?;
            if request.revision == 0 {
                request.revision = page.header.map_or(0, |header| header.revision);
            }
            if let Some(last) = page.kvs.last().filter(|_| page.more) {
                request.key = [&last.key[..], &[0]].concat().into();
            }
            let entry = |kv: KeyValue| (String::from_utf8_lossy(&kv.key).into_owned(), kv);
            held.extend(page.kvs.into_iter().map(entry));
            if !page.more {
                return Ok(held);
            }
        }
    }

    /// Ends all processes, politely.
    pub(crate) async fn end(mut self) {
        for node in &mut self.nodes {
            if let Some(mut process) = node.process.take() {
                process.kill().await;
            }
            if let Some(disk) = node.disk.take() {
                disk.unmount().await;
            }
        }
    }

    /// The file system that the nodes are on.
    pub(crate) fn dir(&self) -> &Path {
        &self.common.dir
    }
}
