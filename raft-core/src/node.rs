//! What a node is in every role: its promises, its log, its commit index, its outbox.
//!
//! **The outbox.** A message that promises something (a vote, a candidacy, an append
//! acknowledgement) and a candidate's own vote wait here until the write they rest on is
//! durable. Everything that one event writes goes to storage as one write at its end
//! ([`Node::settle`]), so that term, vote and entries change together.

mod history;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use crate::configurations::Configurations;
use crate::forwarded::Forwarded;
use crate::log::{Change, Log};
use crate::proposals::Proposals;
use crate::untracked::Untracked;
use crate::{
    Claim, Config, Effect, Entries, Envelope, HardState, Incarnation, Index, Instant, LogPosition,
    Membership, Message, NodeId, Refusal, RequestId, Requests, Saved, SnapshotMark, Term, Ticket,
    TransferError, Write, seeded,
};

/// Invariants: `applied <= applying <= commit <= last` and `applying <= durable`, where `applying`
/// may be ahead at the start on a damaged log; `vote` changes
/// within a term only from nobody to somebody; `membership` is the newest of `configurations`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) config: Config,
    /// Those in snapshot and log.
    pub(crate) configurations: Configurations,
    /// The one in force.
    pub(crate) membership: Arc<Membership>,
    pub(crate) term: Term,
    pub(crate) vote: Option<NodeId>,
    pub(crate) log: Log,
    pub(crate) commit: Index,
    /// The state machine held this much at the start. It was committed, even where a damaged
    /// log does not hold it any more.
    restored: Index,
    /// Handed out to be applied up to here.
    pub(crate) applying: Index,
    /// Applied up to here.
    pub(crate) applied: Index,
    /// The end of the newest durable snapshot that the log knows of.
    pub(crate) snapshot: LogPosition,
    /// The log was damaged, and is known to have reached as far as this (see [`crate::Claim`]).
    pub(crate) claim: Option<Claim>,
    pub(crate) proposals: Proposals,
    pub(crate) forwarded: Forwarded,
    /// A transfer of leadership away from here, whose end is still open.
    pub(crate) handing_over: Option<HandingOver>,
    /// The disks that peers have shown.
    pub(crate) identified: BTreeMap<NodeId, Incarnation>,
    /// Until then this node helps nobody to depose the leader it heard last (thesis §6.4.1).
    /// Only where leases are on, and only a vote that the leader asked for is excepted.
    loyal_until: Option<Untracked<Instant>>,
    /// Storage has failed: no promise leaves this node any more.
    pub(crate) failed: bool,
    /// Distinguishes this run of the node from earlier ones.
    pub(crate) session: Untracked<u64>,
    /// The number of the last question to a leader.
    pub(crate) question: Untracked<u64>,
    pub(crate) now: Untracked<Instant>,
    rng: Untracked<Pcg32>,
    /// What storage holds or is about to hold.
    written: HardState,
    /// Changes of the log in this event.
    change: Option<Change>,
    /// A snapshot to be noted in this event.
    mark: Option<Box<SnapshotMark>>,
    /// The state machine may be replaced by a snapshot once this write is durable.
    install_needs: Ticket,
    newest: Ticket,
    durable: Ticket,
    /// Promises, each with the write that it waits for.
    outbox: VecDeque<(Ticket, Promise)>,
    /// How many of them, at the end, this event has made: it settles which write they need.
    promised: usize,
    pub(crate) effects: Vec<Effect>,
}

/// Leadership on its way to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HandingOver {
    pub(crate) request: RequestId,
    pub(crate) to: NodeId,
    pub(crate) until: Untracked<Instant>,
}

/// What may not leave, or count, before it is durable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Promise {
    Send(Envelope),
    /// The candidate's vote for itself, in this term.
    OwnVote(Term),
}

impl Node {
    pub(crate) fn restore(
        config: Config,
        saved: Saved,
        configurations: Configurations,
        seed: u64,
        now: Instant,
    ) -> Self {
        let HardState { term, vote, commit } = saved.hard_state;
        let log = Log::restore(saved.log);
        let membership = Arc::clone(configurations.newest().1);
        let base = log.base();
        let mut rng = Pcg32::seed_from_u64(seed);
        // A vote, or a heartbeat heard, that was forgotten in a crash may have made a lease.
        let loyal_until = config.lease.map(|_| Untracked(now + config.election_timeout));
        let loyal_until = loyal_until.filter(|_| !seeded!(RestartedVoterIgnoresLeases));
        Self {
            configurations,
            membership,
            term,
            vote,
            // What was applied, or is in a snapshot, was committed.
            commit: commit.max(saved.applied).max(saved.snapshot.index).min(log.last_index()),
            restored: saved.applied,
            applying: saved.applied,
            applied: saved.applied,
            log,
            snapshot: saved.snapshot.max(base),
            claim: saved.claim,
            proposals: Proposals::default(),
            forwarded: Forwarded::default(),
            handing_over: None,
            identified: BTreeMap::new(),
            loyal_until,
            failed: false,
            session: Untracked(rng.next_u64()),
            question: Untracked(rng.next_u64() >> 1),
            now: Untracked(now),
            rng: Untracked(rng),
            written: saved.hard_state,
            change: None,
            mark: None,
            install_needs: Ticket::ZERO,
            newest: Ticket::ZERO,
            durable: Ticket::ZERO,
            outbox: VecDeque::new(),
            promised: 0,
            effects: Vec::new(),
            config,
        }
    }

    pub(crate) fn id(&self) -> NodeId {
        self.config.id
    }

    /// The other voters, of both configurations in a joint phase.
    pub(crate) fn other_voters(&self) -> Vec<NodeId> {
        let others = self.membership.members().iter().map(|member| member.id);
        others.filter(|&id| id != self.id() && self.membership.is_voter(id)).collect()
    }

    /// Whether this node may try to lead. Also one that its newest configuration leaves out, as
    /// long as that is not known to be committed: it may be the only one that holds it, and
    /// then nobody else can win. It does not count itself.
    pub(crate) fn may_stand(&self) -> bool {
        let (index, membership) = self.configurations.newest();
        let entitled = membership.is_voter(self.id()) || index > self.commit;
        let whole = self.claim.is_none() || seeded!(DamagedNodeStands);
        entitled && whole && !self.is_stalled()
    }

    /// Whether a write has been under way for so long that the disk must be taken for stalled.
    pub(crate) fn is_stalled(&self) -> bool {
        let since = self.log.writing_since();
        since.is_some_and(|since| self.now.since(since) >= self.config.disk_stall_timeout)
    }

    /// The log that a candidate's must be as good as: a damaged one counts as it was.
    pub(crate) fn log_to_match(&self) -> LogPosition {
        let is_emptied = self.log.last_index() == self.log.base().index;
        if seeded!(EmptiedLogCountsAsZero) && is_emptied {
            return LogPosition::ZERO;
        }
        let claim = self.claim.filter(|_| !seeded!(ClaimDoesNotBind));
        claim.map_or(self.log.last(), |claim| claim.last.max(self.log.last()))
    }

    /// A leader was heard: whoever counts its lease counts on us.
    pub(crate) fn on_leader_heard(&mut self) {
        let until = Untracked(self.now.0 + self.config.election_timeout);
        self.loyal_until = self.loyal_until.map(|_| until);
    }

    pub(crate) fn is_loyal(&self) -> bool {
        self.loyal_until.is_some_and(|until| self.now.0 < until.0) && !seeded!(VotersIgnoreLeases)
    }

    /// A moment between one and two election timeouts from now, drawn anew (Raft §5.2).
    pub(crate) fn next_election(&mut self) -> Instant {
        let timeout = self.config.election_timeout;
        let nanos = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX).max(1);
        // The bias of a remainder is far below a nanosecond's worth.
        let extra = self.rng.next_u64() % nanos;
        self.now.0 + timeout + Duration::from_nanos(extra)
    }

    /// When a request whose leader is lost is given up as unknown.
    pub(crate) fn unknown_at(&self) -> Instant {
        self.now.0 + self.config.election_timeout
    }

    /// How far the numbers of what this run hands on are from the caller's, which may be used
    /// again by the next run: an answer to an earlier run must not be taken for one to this.
    fn handed_on_as(&self) -> u64 {
        self.session.0 >> 1
    }

    /// Hands a proposal on to the leader.
    pub(crate) fn forward(&mut self, leader: NodeId, requests: Requests, entries: Entries) {
        // Twice: once for the leader to answer, once for it to be missed.
        let unknown_at = self.unknown_at() + self.config.election_timeout;
        self.proposals.forward(requests, unknown_at);
        let (session, requests) = (self.session.0, requests.shifted(self.handed_on_as()));
        self.send(leader, Message::Propose { session, requests, entries });
    }

    /// The answer of the leader of `term` to a proposal that was handed on. Where that is not the
    /// present leader, it may or may not be committed what it took.
    pub(crate) fn on_propose_reply(
        &mut self,
        requests: Requests,
        outcome: Result<Index, Refusal>,
        term: Term,
        leader: Option<NodeId>,
    ) {
        let requests = requests.shifted(self.handed_on_as().wrapping_neg());
        self.proposals.on_reply(requests, outcome, term, &mut self.effects);
        // Where the answer is late, the place may be decided already, or the leader be lost.
        self.proposals.on_commit(self.applying, &self.log, &mut self.effects);
        if leader.is_none() {
            self.proposals.doubt(self.unknown_at());
        }
    }

    /// Moves to a newer term. The vote is cleared here and nowhere else, and promises of the
    /// old term are void (Raft §5.1).
    pub(crate) fn advance_term(&mut self, term: Term) {
        assert!(term > self.term, "terms only grow");
        (self.term, self.vote) = (term, None);
        self.outbox.clear();
        self.promised = 0;
        self.proposals.doubt(self.unknown_at());
    }

    pub(crate) fn send(&mut self, to: NodeId, message: Message) {
        let envelope = self.envelope(to, message);
        self.effects.push(Effect::Send(envelope));
    }

    /// Sends once everything written up to the end of this event is durable.
    pub(crate) fn promise(&mut self, to: NodeId, message: Message) {
        let waits = match message {
            Message::AppendReply(_) => !seeded!(AcksBeforeDurable),
            _ => !seeded!(VotesBeforeDurable),
        };
        if !waits {
            return self.send(to, message);
        }
        let envelope = self.envelope(to, message);
        self.promise_at_settle(Promise::Send(envelope));
    }

    /// Counts this node's vote for itself once it is durable.
    pub(crate) fn promise_own_vote(&mut self) {
        self.promise_at_settle(Promise::OwnVote(self.term));
    }

    /// Requests for votes that have not left yet never leave: the log that they describe may
    /// be gone before they are durable.
    pub(crate) fn withdraw_candidacy(&mut self) {
        assert_eq!(self.promised, 0, "nothing is promised before the candidacy ends");
        self.outbox.retain(|(_, promise)| match promise {
            Promise::Send(envelope) => !matches!(envelope.message, Message::Vote { .. }),
            Promise::OwnVote(_) => false,
        });
    }

    fn promise_at_settle(&mut self, promise: Promise) {
        const NEVER: Ticket = Ticket(u64::MAX);
        self.outbox.push_back((NEVER, promise));
        self.promised += 1;
    }

    fn envelope(&self, to: NodeId, message: Message) -> Envelope {
        Envelope { from: self.id(), to, term: self.term, message }
    }

    /// A leader appends to its log.
    pub(crate) fn append(&mut self, entries: Entries) {
        self.log.append(entries.clone());
        self.change(Change { truncate: None, entries });
    }

    /// Whether some entry is larger than the group allows.
    pub(crate) fn is_too_large(&self, entries: &Entries) -> bool {
        entries.iter().any(|entry| entry.payload.len() > self.config.entry_bytes_max)
    }

    /// Learns of a commit index, which never falls.
    pub(crate) fn commit_up_to(&mut self, commit: Index) {
        assert!(commit <= self.log.last_index(), "only what is here can be committed");
        self.commit = if seeded!(CommitFalls) { commit } else { self.commit.max(commit) };
    }

    pub(crate) fn refuse(&mut self, requests: Requests, reason: Refusal) {
        self.effects.push(Effect::Refuse { requests, reason });
    }

    /// `ticket` and all before it are durable. Returns whether the own vote is among them.
    pub(crate) fn on_persisted(&mut self, ticket: Ticket) -> bool {
        assert!(ticket <= self.newest, "only a write that was asked for can be done");
        self.durable = self.durable.max(ticket);
        self.log.on_persisted(ticket);
        self.log.evict(self.config.recent_bytes_max);
        // What was lost is here again, or was never committed: a later term says so.
        let held = self.log.position_at(self.log.durable());
        if self.claim.is_some_and(|claim| held.is_some_and(|held| held >= claim.last)) {
            self.claim = None;
        }
        self.release()
    }

    /// Lets go what rests on durable writes. Returns whether the own vote is among it.
    fn release(&mut self) -> bool {
        let durable = self.durable;
        let mut own_vote = false;
        while let Some((_, promise)) = self.outbox.pop_front_if(|(needs, _)| *needs <= durable) {
            match promise {
                Promise::Send(envelope) => self.effects.push(Effect::Send(envelope)),
                Promise::OwnVote(term) => own_vote |= term == self.term,
            }
        }
        own_vote
    }

    /// Ends a transfer of leadership away from here, if it is over: `leader` leads now.
    pub(crate) fn end_transfer(
        &mut self,
        is_over: impl FnOnce(&HandingOver) -> bool,
        leader: Option<NodeId>,
    ) {
        let Some(transfer) = self.handing_over.take_if(|transfer| is_over(transfer)) else {
            return;
        };
        let HandingOver { request, to, .. } = transfer;
        match leader {
            Some(leader) if leader == to => {
                self.effects.push(Effect::Transferred { request, leader });
            }
            Some(_) | None => {
                let reason = Refusal::Transfer(TransferError::Failed(to));
                self.refuse(Requests::one(request), reason);
            }
        }
    }

    /// Gives up every promise, for ever: nobody knows what the disk holds.
    pub(crate) fn on_storage_failed(&mut self) {
        self.failed = true;
        self.outbox.clear();
        self.promised = 0;
        self.proposals.doubt(self.now.0);
        self.end_transfer(|_| true, None);
    }

    /// Ends an event: writes what it changed, lets promises that need no write go, and hands
    /// out what may be applied. Nothing is applied before it is durable here.
    pub(crate) fn settle(&mut self) {
        if self.failed {
            (self.change, self.mark) = (None, None);
            self.outbox.clear();
            self.promised = 0;
            self.proposals.on_timer(Instant(u64::MAX), &mut self.effects);
            return;
        }
        self.write();
        if self.promised > 0 {
            for (needs, _) in self.outbox.iter_mut().rev().take(self.promised) {
                *needs = self.newest;
            }
            self.promised = 0;
            // Where nothing is being written, a promise need not wait. A candidacy writes.
            let own_vote = self.release();
            assert!(!own_vote, "a vote is given before it counts");
        }
        if self.applying < self.log.base().index {
            // What the state machine lacks is not in the log any more.
            if self.install_needs > self.durable {
                return;
            }
            self.effects.push(Effect::Install { last: self.snapshot });
            self.applying = self.snapshot.index;
        }
        let held = if seeded!(AppliesBeforeDurable) { self.commit } else { self.log.durable() };
        let target = self.commit.min(held);
        if target > self.applying {
            self.proposals.on_commit(target, &self.log, &mut self.effects);
            let first = self.applying.next();
            self.effects.push(Effect::Apply { first, last: target });
            self.applying = target;
        }
    }

    /// Emits at most one write. The commit index alone is no reason for one: it can be
    /// learned again.
    fn write(&mut self) {
        let vote = self.vote.filter(|_| !seeded!(VoteNotPersisted));
        let state = HardState { term: self.term, vote, commit: self.commit };
        let promise = (self.written.term, self.written.vote) != (state.term, state.vote);
        if !promise && self.change.is_none() && self.mark.is_none() {
            return;
        }
        let Change { truncate, entries } = self.change.take().unwrap_or_default();
        let hard_state = (self.written != state).then_some(state);
        self.written = state;
        self.newest = self.newest.next();
        let snapshot = self.mark.take();
        self.log.on_write(self.newest, self.now.0);
        let ticket = self.newest;
        self.effects.push(Effect::Persist(Write {
            ticket,
            truncate,
            entries,
            hard_state,
            snapshot,
        }));
    }

    /// Something can be applied that no event has handed out yet, as after a restart.
    pub(crate) fn has_unapplied(&self) -> bool {
        let installs = self.applying < self.log.base().index;
        let waits = installs && self.install_needs > self.durable;
        !self.failed && !waits && self.commit.min(self.log.durable()) > self.applying
    }

    pub(crate) fn on_applied(&mut self, index: Index) {
        assert!(index <= self.applying, "only what was handed out can be applied");
        self.applied = self.applied.max(index);
    }

    /// What must hold after every event.
    pub(crate) fn check(&self) {
        assert!(self.applied <= self.applying, "applied in order");
        let committed = self.commit.max(self.restored);
        assert!(self.applying <= committed, "only committed entries are applied");
        assert!(self.failed || self.commit <= self.log.last_index(), "what is committed is here");
        let durable = self.log.durable().max(self.restored);
        assert!(self.applying <= durable, "only durable entries are applied");
        assert!(self.written.term <= self.term, "storage never knows a later term");
        assert!(self.durable <= self.newest, "only a write that was asked for is done");
        assert!(self.promised == 0 && self.change.is_none(), "the event was settled");
        assert!(self.mark.is_none(), "the event was settled");
        assert!(self.log.base().index <= self.snapshot.index, "a snapshot covers what is gone");
        assert!(Arc::ptr_eq(&self.membership, self.configurations.newest().1), "the newest");
        let waits = |(needs, _): &(Ticket, Promise)| *needs > self.durable;
        assert!(self.outbox.iter().all(waits), "what is durable has left");
        self.log.check();
        self.proposals.check();
    }
}
