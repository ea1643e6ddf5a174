//! A leader appends, replicates, counts, and steps down when it has lost its quorum.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::node::Node;
use crate::progress::{Pace, Progress};
use crate::reads::{Reader, Rounds};
use crate::untracked::Untracked;
use crate::{
    Append, AppendReply, Effect, Entries, Entry, Index, Instant, LogPosition, Message, NodeId,
    Payload, Refusal, RequestId, Requests, Round,
};

/// Invariant: there is a progress for every other voter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Leader {
    pub(crate) peers: BTreeMap<NodeId, Progress>,
    pub(crate) heartbeat_at: Untracked<Instant>,
    /// When followers are told of a new commit index that no append has carried to them.
    notice_at: Option<Untracked<Instant>>,
    /// A quorum has been heard that lets it lead until then.
    pub(crate) quorum_until: Untracked<Instant>,
    rounds: Rounds,
    /// Batches of this term that are not committed, or not durable here: the last index and
    /// size of each.
    uncommitted: VecDeque<(Index, usize)>,
    uncommitted_bytes: usize,
    /// The newest request taken of each peer in each of its runs: older ones are copies.
    forwarded: BTreeMap<(NodeId, u64), RequestId>,
    indexes: Untracked<Vec<Index>>,
    times: Untracked<Vec<Instant>>,
}

impl Leader {
    /// Takes office: an entry of its own term makes everything before committable (Raft §8).
    pub(crate) fn new(node: &mut Node) -> Self {
        let (last, now) = (node.log.last_index(), node.now.0);
        let progress = |peer| (peer, Progress::new(last, now));
        let mut leader = Self {
            peers: node.peers().into_iter().map(progress).collect(),
            heartbeat_at: Untracked(now + node.config.heartbeat_interval),
            notice_at: None,
            quorum_until: Untracked(now + node.config.election_timeout),
            rounds: Rounds::default(),
            uncommitted: VecDeque::new(),
            uncommitted_bytes: 0,
            forwarded: BTreeMap::new(),
            indexes: Untracked::default(),
            times: Untracked::default(),
        };
        let empty = Entry { index: last.next(), term: node.term, payload: Payload::Empty };
        leader.append(node, empty.into());
        leader.replicate(node);
        leader
    }

    /// Heartbeats, and the check that a quorum still answers (thesis §6.2). Returns whether
    /// this node may go on leading.
    pub(crate) fn on_timer(&mut self, node: &mut Node) -> bool {
        if node.config.check_quorum && node.now.0 >= self.quorum_until.0 {
            let (id, now, peers) = (node.id(), node.now.0, &self.peers);
            let heard = |voter| if voter == id { now } else { peers[&voter].heard_at.0 };
            let quorum_heard = node.membership.quorum_value(&mut self.times, heard);
            let quorum_heard = quorum_heard.unwrap_or(Instant(0));
            self.quorum_until = Untracked(quorum_heard + node.config.election_timeout);
            if now >= self.quorum_until.0 {
                return false;
            }
        }
        if node.now.0 >= self.heartbeat_at.0 {
            self.heartbeat(node);
        }
        if self.notice_at.is_some_and(|at| at.0 <= node.now.0) {
            self.notice_at = None;
            for (&peer, progress) in &mut self.peers {
                notice_commit(node, peer, progress);
            }
        }
        true
    }

    pub(crate) fn deadline(&self, node: &Node) -> Instant {
        let quorum_until = node.config.check_quorum.then_some(self.quorum_until.0);
        let notice_at = self.notice_at.map(|at| at.0);
        [quorum_until, notice_at].into_iter().flatten().fold(self.heartbeat_at.0, Instant::min)
    }

    fn heartbeat(&mut self, node: &mut Node) {
        self.heartbeat_at = Untracked(node.now.0 + node.config.heartbeat_interval);
        for (&peer, progress) in &self.peers {
            let commit = node.commit.min(progress.matched);
            node.send(
                peer,
                Message::Heartbeat { commit, round: self.rounds.newest, sent_at: node.now.0 },
            );
        }
    }

    /// Takes proposals into the log, or refuses all of them.
    pub(crate) fn on_propose(&mut self, node: &mut Node, requests: Requests, entries: Entries) {
        assert_eq!(requests.count, entries.len() as u64, "a number for each entry");
        match self.propose(node, entries) {
            Ok(first) => node.proposals.place(requests, first, node.term),
            Err(reason) => return node.refuse(requests, reason),
        }
        self.replicate(node);
    }

    /// Takes what a follower hands on, once. The answer leaves before the append that carries
    /// the entries, so the follower knows their place before it can commit them.
    pub(crate) fn on_forwarded(
        &mut self,
        node: &mut Node,
        (peer, session): (NodeId, u64),
        requests: Requests,
        entries: Entries,
    ) {
        let commands = entries.iter().all(|entry| matches!(entry.payload, Payload::Command(_)));
        if !commands || entries.is_empty() || requests.count != entries.len() as u64 {
            return; // Nothing that we would send.
        }
        let newest = self.forwarded.entry((peer, session)).or_insert(RequestId::ZERO);
        if requests.first < *newest {
            return; // A copy, or overtaken by a later one: its sender will call it unknown.
        }
        *newest = requests.end();
        let outcome = self.propose(node, entries);
        if let (Ok(_), Some(progress)) = (outcome, self.peers.get_mut(&peer)) {
            progress.forwarded = node.log.last_index();
        }
        node.send(peer, Message::ProposeReply { requests, outcome });
        self.replicate(node);
    }

    fn propose(&mut self, node: &mut Node, mut entries: Entries) -> Result<Index, Refusal> {
        if node.is_too_large(&entries) {
            return Err(Refusal::TooLarge);
        }
        let bytes = self.uncommitted_bytes + entries.size_bytes();
        if bytes > node.config.uncommitted_bytes_max && self.uncommitted_bytes > 0 {
            return Err(Refusal::Overloaded);
        }
        let first = node.log.last_index().next();
        entries.stamp(first, node.term);
        self.append(node, entries);
        Ok(first)
    }

    fn append(&mut self, node: &mut Node, entries: Entries) {
        let bytes = entries.size_bytes();
        node.append(entries);
        self.uncommitted.push_back((node.log.last_index(), bytes));
        self.uncommitted_bytes += bytes;
    }

    fn replicate(&mut self, node: &mut Node) {
        for (&peer, progress) in &mut self.peers {
            send_appends(node, peer, progress);
        }
    }

    pub(crate) fn on_append_reply(&mut self, node: &mut Node, peer: NodeId, reply: AppendReply) {
        let Some(progress) = self.peers.get_mut(&peer) else { return };
        progress.heard_at = node.now;
        match reply {
            AppendReply::Accept { matched } if matched > node.log.last_index() => {}
            AppendReply::Accept { matched } => {
                progress.on_accept(matched);
                send_appends(node, peer, progress);
                if matched > node.commit {
                    return self.advance_commit(node);
                }
                // What others had committed before it held as much.
                let told = send_commit(node, peer, progress);
                self.notice_later(node, told);
            }
            AppendReply::Reject { previous, hint } => {
                on_reject(node, peer, progress, previous, hint);
            }
        }
    }

    /// Counts (Raft §5.3, §5.4.2): an entry is committed once a majority holds it durably and
    /// it is of the leader's own term; everything before it goes with it. This node counts
    /// only what is durable here, and only if it is a voter.
    pub(crate) fn advance_commit(&mut self, node: &mut Node) {
        let (id, durable, peers) = (node.id(), node.log.durable(), &self.peers);
        let matched = |voter| if voter == id { durable } else { peers[&voter].matched };
        let held = node.membership.quorum_value(&mut self.indexes, matched);
        let held = held.unwrap_or(Index::ZERO);
        if held <= node.commit || node.log.term_at(held) != Some(node.term) {
            return self.free(node);
        }
        node.commit_up_to(held);
        self.free(node);
        self.announce_commit(node);
        self.begin_round(node); // Reads wait for the first commit of a term.
    }

    /// Tells the followers, at once or with the next append.
    fn announce_commit(&mut self, node: &mut Node) {
        let mut told = Told::Enough;
        for (&peer, progress) in &mut self.peers {
            send_appends(node, peer, progress);
            if send_commit(node, peer, progress) == Told::Later {
                told = Told::Later;
            }
        }
        self.notice_later(node, told);
    }

    fn notice_later(&mut self, node: &Node, told: Told) {
        if told == Told::Later && self.notice_at.is_none() {
            self.notice_at = Some(Untracked(node.now.0 + node.config.commit_notice_delay));
        }
    }

    /// Counts no longer what is committed, and durable here: only that can leave memory.
    fn free(&mut self, node: &Node) {
        let done = node.commit.min(node.log.durable());
        while let Some((_, bytes)) = self.uncommitted.pop_front_if(|(last, _)| *last <= done) {
            self.uncommitted_bytes -= bytes;
        }
    }

    pub(crate) fn on_heartbeat_reply(&mut self, node: &mut Node, peer: NodeId, round: Round) {
        let Some(progress) = self.peers.get_mut(&peer) else { return };
        progress.heard_at = node.now;
        progress.round_acked = progress.round_acked.max(round);
        match &mut progress.pace {
            // The probe or its answer may be lost.
            Pace::Probe { waiting } => *waiting = false,
            // Nothing moved since the last answer: ask whether the appends arrived.
            Pace::Replicate(window) if !window.is_empty() && !progress.moved => {
                send_append(node, peer, progress, Entries::EMPTY);
            }
            Pace::Replicate(_) => {}
        }
        progress.moved = false;
        send_appends(node, peer, progress);
        self.confirm_round(node);
    }

    pub(crate) fn on_read(&mut self, node: &mut Node, reader: Reader) {
        if let Err(reason) = self.rounds.ask(reader) {
            if let Reader::Local(requests) = reader {
                node.refuse(requests, reason);
            }
            return;
        }
        self.begin_round(node);
    }

    /// Begins a round for the reads that wait. Until an entry of this term is committed, the
    /// commit index may be behind what an earlier leader acknowledged (thesis §6.4).
    fn begin_round(&mut self, node: &mut Node) {
        if node.log.term_at(node.commit) != Some(node.term) {
            return;
        }
        if self.rounds.begin(node.commit).is_some() {
            self.heartbeat(node);
            self.confirm_round(node); // A single voter needs no echo.
        }
    }

    fn confirm_round(&mut self, node: &mut Node) {
        let (id, newest, peers) = (node.id(), self.rounds.newest, &self.peers);
        let has_echoed = |voter| voter == id || peers[&voter].round_acked >= newest;
        if !node.membership.has_quorum(has_echoed) {
            return;
        }
        let Some((readers, index)) = self.rounds.confirm(newest) else { return };
        for reader in readers {
            match reader {
                Reader::Local(requests) => {
                    node.effects.push(Effect::ReadReady { requests, index, until: None });
                }
                Reader::Remote { peer, question } => {
                    node.send(peer, Message::ReadReply { question, index });
                }
            }
        }
        self.begin_round(node);
    }

    /// Entries that were asked for have come from storage.
    pub(crate) fn on_loaded(&mut self, node: &mut Node, peer: NodeId, entries: Entries) {
        let Some(progress) = self.peers.get_mut(&peer) else { return };
        progress.loading = false;
        let known = |entry: &Entry| node.log.term_at(entry.index) == Some(entry.term);
        let wanted = entries.first().is_some_and(|first| first.index == progress.next);
        if wanted && entries.iter().all(known) && has_room(node, progress) {
            send_append(node, peer, progress, entries);
        }
        send_appends(node, peer, progress);
    }

    /// Leadership is over: nobody's read can be answered, and nobody's proposal is sure.
    pub(crate) fn on_leave(&mut self, node: &mut Node) {
        self.rounds.refuse(Refusal::NotLeader { leader: None }, &mut node.effects);
        node.proposals.doubt(node.unknown_at());
    }

    /// What must hold after every event.
    pub(crate) fn check(&self, node: &Node) {
        for (peer, progress) in &self.peers {
            assert!(progress.matched < progress.next, "what is held need not be sent: {peer:?}");
            assert!(progress.matched <= node.log.last_index(), "nobody holds more than we do");
            assert!(progress.next <= node.log.last_index().next(), "only what exists is sent");
        }
        let bytes: usize = self.uncommitted.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(bytes, self.uncommitted_bytes, "bytes are counted");
    }
}

fn has_room(node: &Node, progress: &Progress) -> bool {
    let config = &node.config;
    match &progress.pace {
        Pace::Probe { waiting } => !waiting,
        Pace::Replicate(window) => {
            !window.is_full(config.inflight_appends_max, config.inflight_bytes_max)
        }
    }
}

/// Sends what the peer lacks, as far as its window has room.
fn send_appends(node: &mut Node, peer: NodeId, progress: &mut Progress) {
    let last = node.log.last_index();
    while has_room(node, progress) && !progress.loading {
        let probing = matches!(progress.pace, Pace::Probe { .. });
        let (first, bytes_max) = (progress.next, node.config.append_bytes_max);
        if first > last {
            if probing {
                send_append(node, peer, progress, Entries::EMPTY);
            }
            return;
        }
        let Some(entries) = node.log.recent(first, last, bytes_max) else {
            progress.loading = true;
            return node.effects.push(Effect::Load { peer, first, last, bytes_max });
        };
        send_append(node, peer, progress, entries);
    }
}

/// What a peer knows of what is committed among the entries it holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Enough,
    Later,
}

/// Tells the peer of a commit index that no append has carried, unless that may wait.
fn send_commit(node: &mut Node, peer: NodeId, progress: &mut Progress) -> Told {
    let commit = node.commit.min(progress.matched);
    let waits = progress.commit_sent < progress.forwarded.min(commit);
    if progress.commit_sent < commit && !waits && !node.config.commit_notice_delay.is_zero() {
        return Told::Later;
    }
    notice_commit(node, peer, progress);
    Told::Enough
}

fn notice_commit(node: &mut Node, peer: NodeId, progress: &mut Progress) {
    let commit = node.commit.min(progress.matched);
    if progress.commit_sent < commit {
        progress.commit_sent = commit;
        node.send(peer, Message::Commit { commit });
    }
}

/// Sends these entries, which begin at the peer's next index.
fn send_append(node: &mut Node, peer: NodeId, progress: &mut Progress, entries: Entries) {
    let previous = node.log.position_at(progress.next.prev()).expect("the log begins before next");
    let commit = node.commit;
    let append = Append { previous, entries, commit };
    let covered = append.last_covered();
    match &mut progress.pace {
        Pace::Probe { waiting } => *waiting = true,
        Pace::Replicate(window) if !append.entries.is_empty() => {
            window.push(covered, append.entries.size_bytes());
            progress.next = covered.next();
        }
        Pace::Replicate(_) => {}
    }
    // The peer commits no further than this message proves.
    progress.commit_sent = commit.min(covered);
    node.send(peer, Message::Append(append));
}

fn on_reject(
    node: &mut Node,
    peer: NodeId,
    progress: &mut Progress,
    previous: Index,
    hint: LogPosition,
) {
    let current = match &progress.pace {
        Pace::Probe { .. } => previous == progress.next.prev(),
        Pace::Replicate(_) => previous >= progress.matched,
    };
    if !current || previous < progress.matched {
        return; // An answer to something older.
    }
    if previous == progress.matched && matches!(progress.pace, Pace::Probe { .. }) {
        // Asked for just this, it has no more what it had, durably. No probe can help, so it
        // is only tried again after the next heartbeat.
        let (acknowledged, holds) = (progress.matched, hint.index);
        node.effects.push(Effect::PeerRegressed { peer, acknowledged, holds });
        progress.pace = Pace::Probe { waiting: true };
        return;
    }
    // A rejection at `matched` while appends follow one another may be older than what was
    // acknowledged since: a probe there tells.
    let agreed = node.log.latest_agreement(hint.index, hint.term);
    progress.on_reject(agreed.index);
    send_appends(node, peer, progress);
}
