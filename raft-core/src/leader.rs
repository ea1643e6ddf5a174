//! A leader appends, replicates, counts, and steps down when it has lost its quorum.

mod membership;
mod replication;
mod transfer;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use self::membership::Changing;
use self::replication::{
    Rejected, Told, has_room, notice_commit, on_reject, send_append, send_appends, send_commit,
};
use self::transfer::Transfer;
use crate::node::Node;
use crate::progress::{Pace, Progress};
use crate::reads::{Reader, Rounds};
use crate::untracked::Untracked;
use crate::{
    AppendReply, Effect, Entries, Entry, Index, Instant, Message, NodeId, Payload, Refusal,
    Requests, Round, seeded,
};

/// Invariants: there is a progress for every other member, and for members that were removed and
/// may not know it yet; a lease that was given up is never taken again in this term.
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
    /// The change of the members whose end somebody waits for.
    changing: Option<Changing>,
    /// The transfer of leadership that is under way.
    transfer: Option<Transfer>,
    /// Somebody was asked to take over, and may do so at any time in this term: no lease holds.
    lease_is_void: bool,
    /// When a member of higher priority may be made leader, at the earliest.
    prefer_at: Untracked<Instant>,
    indexes: Untracked<Vec<Index>>,
    times: Untracked<Vec<Instant>>,
}

impl Leader {
    /// Takes office: an entry of its own term makes everything before committable (Raft §8).
    pub(crate) fn new(node: &mut Node) -> Self {
        let (last, now) = (node.log.last_index(), node.now.0);
        let mut leader = Self {
            peers: BTreeMap::new(),
            heartbeat_at: Untracked(now + node.config.heartbeat_interval),
            notice_at: None,
            quorum_until: Untracked(now + node.config.election_timeout),
            rounds: Rounds::default(),
            uncommitted: VecDeque::new(),
            uncommitted_bytes: 0,
            changing: None,
            transfer: None,
            lease_is_void: false,
            prefer_at: Untracked(now + node.config.election_timeout * 2),
            indexes: Untracked::default(),
            times: Untracked::default(),
        };
        leader.meet_members(node);
        node.forwarded.begin(node.term);
        let empty = Entry { index: last.next(), term: node.term, payload: Payload::Empty };
        leader.append(node, empty.into());
        leader.replicate(node);
        leader
    }

    /// Heartbeats, and the check that a quorum still answers (thesis §6.2). Returns whether
    /// this node may go on leading.
    pub(crate) fn on_timer(&mut self, node: &mut Node) -> bool {
        let now = node.now.0;
        if node.config.check_quorum && now >= self.quorum_until.0 && !seeded!(NoCheckQuorum) {
            let quorum_heard = self.quorum_time(node, |peer| peer.heard_at.0);
            self.quorum_until = Untracked(quorum_heard + node.config.election_timeout);
            if now >= self.quorum_until.0 {
                return false;
            }
        }
        // Nothing can be committed through this disk, whatever the others say.
        if node.is_stalled() {
            self.abdicate(node);
            return false;
        }
        if !self.tend_transfer(node) {
            return false;
        }
        if now >= self.heartbeat_at.0 {
            self.tend_members(node);
            self.prefer(node);
            self.heartbeat(node);
            self.confirm_round(node); // A change of the members may have made a quorum of fewer.
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
        let transfer_at = self.transfer.as_ref().map(|transfer| transfer.until.0);
        let times = [quorum_until, notice_at, transfer_at];
        times.into_iter().flatten().fold(self.heartbeat_at.0, Instant::min)
    }

    fn heartbeat(&mut self, node: &mut Node) {
        self.heartbeat_at = Untracked(node.now.0 + node.config.heartbeat_interval);
        for (&peer, progress) in &self.peers {
            let held =
                if seeded!(HeartbeatCommitUncapped) { node.commit } else { progress.matched };
            let commit = node.commit.min(held);
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
        if !node.forwarded.is_new(node.term, peer, session, requests) {
            return; // A copy, or overtaken by a later one: its sender will call it unknown.
        }
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
        if self.transfer.is_some() || !node.membership.is_voter(node.id()) {
            return Err(Refusal::Transferring); // The log stands still, so that the other can catch up.
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
                progress.on_accept(matched, &node.log, node.now.0);
                if let Some(catch_up) = &mut progress.catch_up {
                    let (last, most) = (node.log.last_index(), node.config.election_timeout);
                    catch_up.on_accept(matched, last, node.now.0, most);
                }
                send_appends(node, peer, progress);
                if self.transfer.is_some() {
                    self.try_hand_over(node);
                }
                if matched > node.commit {
                    return self.advance_commit(node);
                }
                let Some(progress) = self.peers.get_mut(&peer) else { return };
                // What others had committed before it held as much.
                let told = send_commit(node, peer, progress);
                self.notice_later(node, told);
            }
            AppendReply::Reject { previous, hint, repairing } => {
                on_reject(node, peer, progress, Rejected { previous, hint, repairing });
            }
        }
    }

    /// Counts (Raft §5.3, §5.4.2): an entry is committed once a majority holds it durably and
    /// it is of the leader's own term; everything before it goes with it. This node counts
    /// only what is durable here, and only if it is a voter.
    pub(crate) fn advance_commit(&mut self, node: &mut Node) {
        let (id, mut durable, peers) = (node.id(), node.log.durable(), &self.peers);
        if seeded!(CountsItselfBeforeDurable) {
            durable = node.log.last_index();
        }
        let matched = |voter| if voter == id { durable } else { peers[&voter].matched };
        let held = node.membership.quorum_value(&mut self.indexes, matched);
        let held = held.unwrap_or(Index::ZERO);
        let own = node.log.term_at(held) == Some(node.term) || seeded!(CommitsOldTerm);
        if held <= node.commit || !own {
            return self.free(node);
        }
        node.commit_up_to(held);
        self.free(node);
        self.announce_commit(node);
        self.on_commit(node);
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

    pub(crate) fn on_heartbeat_reply(
        &mut self,
        node: &mut Node,
        peer: NodeId,
        (round, sent_at): (Round, Instant),
    ) {
        let Some(progress) = self.peers.get_mut(&peer) else { return };
        progress.heard_at = node.now;
        if sent_at <= node.now.0 {
            let since = if seeded!(LeaseFromReceiveTime) { node.now.0 } else { sent_at };
            progress.echoed.0 = progress.echoed.0.max(since);
        }
        progress.round_acked = progress.round_acked.max(round);
        match &mut progress.pace {
            // The probe or its answer may be lost.
            Pace::Probe { waiting } => *waiting = *waiting && seeded!(LostProbeStalls),
            // Nothing moved since the last answer: ask whether the appends arrived.
            Pace::Replicate(window) if !window.is_empty() && !progress.moved => {
                send_append(node, peer, progress, Entries::EMPTY);
            }
            Pace::Replicate(_) | Pace::Snapshot => {}
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

    /// Reads under the lease, without asking anybody (thesis §6.4.1); without one, as any other.
    pub(crate) fn on_lease_read(&mut self, node: &mut Node, requests: Requests) {
        let index = node.commit;
        let own = node.log.term_at(index) == Some(node.term) || seeded!(LeaseReadBeforeOwnTerm);
        match self.lease_until(node) {
            // Until then, nobody else can have been elected.
            Some(until) if node.now.0 < until && own => {
                let until = Some(until);
                node.effects.push(Effect::ReadReady { requests, index, until });
            }
            Some(_) | None => self.on_read(node, Reader::Local(requests)),
        }
    }

    /// When the lease ends: it runs from when the heartbeats left that a quorum has answered,
    /// since its voters heard them no earlier.
    fn lease_until(&mut self, node: &Node) -> Option<Instant> {
        let lease = node.config.lease.filter(|_| !self.lease_is_void)?;
        let echoed = self.quorum_time(node, |peer| peer.echoed.0);
        let most = node.config.election_timeout;
        let length = if seeded!(LeaseIgnoresClockError) { most } else { lease.length(most) };
        Some(echoed + length)
    }

    /// The latest time that a quorum has reached; this node itself is at the present.
    fn quorum_time(&mut self, node: &Node, time: impl Fn(&Progress) -> Instant) -> Instant {
        let (id, now, peers) = (node.id(), node.now.0, &self.peers);
        let reached = |voter| if voter == id { now } else { time(&peers[&voter]) };
        node.membership.quorum_value(&mut self.times, reached).unwrap_or(Instant(0))
    }

    /// Begins a round for the reads that wait. Until an entry of this term is committed, the
    /// commit index may be behind what an earlier leader acknowledged (thesis §6.4).
    fn begin_round(&mut self, node: &mut Node) {
        if node.log.term_at(node.commit) != Some(node.term) && !seeded!(ReadBeforeOwnTerm) {
            return;
        }
        if self.rounds.begin(node.commit).is_some() {
            self.heartbeat(node);
            self.confirm_round(node); // A single voter needs no echo.
        }
    }

    fn confirm_round(&mut self, node: &mut Node) {
        let (id, newest, peers) = (node.id(), self.rounds.newest, &self.peers);
        let needed = if seeded!(OldRoundConfirms) { Round::ZERO.next() } else { newest };
        let has_echoed =
            |voter| voter == id || peers[&voter].round_acked >= needed || seeded!(ReadOnRoleAlone);
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

    /// A snapshot's transfer has ended.
    pub(crate) fn on_snapshot_sent(&mut self, node: &mut Node, peer: NodeId, last: Option<Index>) {
        let Some(progress) = self.peers.get_mut(&peer) else { return };
        progress.on_snapshot_sent(last, &node.log, node.now.0);
        send_appends(node, peer, progress);
    }

    /// From where on the log is needed for those who are sent a snapshot, or were just now.
    pub(crate) fn keep_after(&self, node: &Node) -> Option<Index> {
        let (base, patience) = (node.log.base().index, node.config.election_timeout);
        let kept = |progress: &Progress| progress.keep_after(base, node.now.0, patience);
        self.peers.values().filter_map(kept).min()
    }

    /// Leadership is over: nobody's read can be answered, and nobody's proposal is sure.
    pub(crate) fn on_leave(&mut self, node: &mut Node) {
        if self.peers.values().any(|progress| matches!(progress.pace, Pace::Snapshot)) {
            node.effects.push(Effect::CancelSnapshots);
        }
        if let Some(changing) = self.changing.take() {
            changing.give_up(node);
        }
        if let Some(transfer) = self.transfer.take() {
            transfer.leave_open(node);
        }
        if !seeded!(ReadsForgotten) {
            self.rounds.refuse(Refusal::NotLeader { leader: None }, &mut node.effects);
        }
        node.proposals.doubt(node.unknown_at());
    }

    /// What must hold after every event.
    pub(crate) fn check(&self, node: &Node) {
        for member in node.membership.members() {
            let known = member.id == node.id() || self.peers.contains_key(&member.id);
            assert!(known, "every member is replicated to: {:?}", member.id);
        }
        for (peer, progress) in &self.peers {
            assert!(progress.matched < progress.next, "what is held need not be sent: {peer:?}");
            assert!(progress.matched <= node.log.last_index(), "nobody holds more than we do");
            assert!(progress.next <= node.log.last_index().next(), "only what exists is sent");
        }
        let bytes: usize = self.uncommitted.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(bytes, self.uncommitted_bytes, "bytes are counted");
    }
}
