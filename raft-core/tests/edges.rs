//! One node by hand, for what no story can say: events and messages that nobody of ours would
//! send, completions and timers that come too early, and what a node tells of itself.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use raft_core::{
    Append, AppendReply, Change, ChangeSet, Config, Effect, Entries, Entry, Envelope, Event,
    HardState, Index, Instant, Lease, LogPosition, Membership, Message, NewMember, NodeId, Payload,
    Raft, Refusal, RequestId, Requests, RoleKind, Round, Saved, Term, TermRuns, Ticket,
};

/// Nothing is done for it: its writes become durable when the test says so.
struct Hand {
    raft: Raft,
    now: Instant,
    newest: Ticket,
}

fn node(id: u64) -> NodeId {
    NodeId::new(id).expect("not zero")
}

fn group(voters: u64) -> Membership {
    Membership::new((1..=voters).map(node)).expect("there are voters")
}

fn requests(first: u64, count: u64) -> Requests {
    Requests { first: RequestId(first), count }
}

fn command() -> Entries {
    Entries::proposal([Bytes::from_static(b"x")])
}

impl Hand {
    fn start(config: Config, saved: Saved, seed: u64, now: Instant) -> Self {
        let raft = Raft::restore(config, saved, seed, now).expect("it is sound");
        Self { raft, now, newest: Ticket::ZERO }
    }

    fn restore(saved: Saved, seed: u64, now: Instant) -> Self {
        Self::start(Config::new(node(1)), saved, seed, now)
    }

    fn founder(voters: u64) -> Self {
        Self::restore(Saved::first_start(group(voters)), 7, Instant(0))
    }

    /// The first of three, which leads term 1 and has committed its first entry.
    fn leader() -> Self {
        Self::leader_of(group(3), |_| {})
    }

    fn leader_of(group: Membership, set: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::new(node(1));
        set(&mut config);
        let mut hand = Self::start(config, Saved::first_start(group), 7, Instant(0));
        hand.time_out();
        hand.receive(2, 0, Message::PreVoteReply { asked: Term(0), granted: true });
        hand.persist();
        hand.receive(2, 1, Message::VoteReply { granted: true });
        hand.persist();
        hand.receive(2, 1, Message::AppendReply(AppendReply::Accept { matched: Index(1) }));
        assert_eq!((hand.raft.role(), hand.raft.commit_index()), (RoleKind::Leader, Index(1)));
        hand.step(Event::Applied(Index(1)));
        hand
    }

    fn step(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.raft.handle(self.now, event, &mut effects);
        let tickets = effects.iter().filter_map(|effect| match effect {
            Effect::Persist(write) => Some(write.ticket),
            _ => None,
        });
        self.newest = tickets.last().unwrap_or(self.newest);
        effects
    }

    fn persist(&mut self) -> Vec<Effect> {
        self.step(Event::Persisted(self.newest))
    }

    fn receive(&mut self, from: u64, term: u64, message: Message) -> Vec<Effect> {
        let (from, to) = (node(from), self.raft.id());
        self.step(Event::Receive(Envelope { from, to, term: Term(term), message }))
    }

    /// Both others answer the heartbeats among these effects.
    fn echo(&mut self, effects: &[Effect]) {
        for effect in effects {
            if let Effect::Send(Envelope { to, term, message, .. }) = effect
                && let Message::Heartbeat { round, sent_at, .. } = *message
            {
                self.receive(to.get(), term.0, Message::HeartbeatReply { round, sent_at });
            }
        }
    }

    /// Its timer fires, in time.
    fn time_out(&mut self) -> Vec<Effect> {
        self.now = self.raft.deadline().expect("it has one");
        self.step(Event::Timer)
    }
}

fn heartbeat() -> Message {
    Message::Heartbeat { commit: Index::ZERO, round: Round::ZERO, sent_at: Instant(0) }
}

#[test]
fn its_own_vote_counts_when_it_is_durable_and_not_with_an_earlier_write() {
    let mut hand = Hand::founder(1);
    // A stranger's term is being written while the node stands already for the next one.
    hand.receive(9, 5, heartbeat());
    let earlier = hand.newest;
    hand.time_out();
    assert!(hand.newest > earlier);
    assert_eq!((hand.raft.role(), hand.raft.term()), (RoleKind::Candidate, Term(6)));
    hand.step(Event::Persisted(earlier));
    assert_eq!(hand.raft.role(), RoleKind::Candidate);
    hand.persist();
    assert_eq!(hand.raft.role(), RoleKind::Leader);
}

#[test]
fn a_timer_that_fires_early_is_ignored_and_one_that_fires_late_is_not() {
    let late = Duration::from_nanos(1);
    for role in [RoleKind::PreCandidate, RoleKind::Candidate] {
        let mut hand = Hand::founder(3);
        hand.time_out();
        if role == RoleKind::Candidate {
            hand.receive(2, 0, Message::PreVoteReply { asked: Term(0), granted: true });
            hand.persist();
        }
        assert_eq!(hand.raft.role(), role);
        let deadline = hand.raft.deadline().expect("it has one");
        hand.now = Instant(deadline.0 - 1);
        assert_eq!(hand.step(Event::Timer), []);
        assert_eq!(hand.raft.deadline(), Some(deadline));
        hand.now = deadline + late;
        let asked = hand.step(Event::Timer).into_iter();
        let asked = asked.filter(|it| {
            matches!(it, Effect::Send(Envelope { message, .. })
            if matches!(message, Message::PreVote { .. }))
        });
        assert_eq!(asked.count(), 2, "it asks anew, as {role:?}");
    }
}

#[test]
fn what_is_meant_for_another_node_or_comes_from_this_one_is_ignored() {
    for (from, to) in [(2, 3), (1, 1)] {
        let mut hand = Hand::founder(3);
        let (from, to) = (node(from), node(to));
        let envelope = Envelope { from, to, term: Term(5), message: heartbeat() };
        assert_eq!(hand.step(Event::Receive(envelope)), []);
        assert_eq!((hand.raft.term(), hand.raft.leader()), (Term(0), None));
    }
}

#[test]
fn nothing_comes_of_a_proposal_or_a_read_of_nothing() {
    let mut hand = Hand::leader();
    let nothing = requests(7, 0);
    assert_eq!(hand.step(Event::Propose { requests: nothing, entries: Entries::EMPTY }), []);
    assert_eq!(hand.step(Event::Read { requests: nothing, lease: false }), []);
}

#[test]
fn a_leader_takes_from_others_only_commands_each_with_its_number() {
    let mut hand = Hand::leader();
    let empty = Entry { index: Index::ZERO, term: Term::ZERO, payload: Payload::Empty };
    let mixed: Entries = command().iter().cloned().chain([empty.clone()]).collect();
    for (requests, entries) in [
        (requests(7, 0), Entries::EMPTY),
        (requests(7, 1), Entries::EMPTY),
        (requests(7, 0), command()),
        (requests(7, 2), command()),
        (requests(7, 1), vec![empty].into()),
        (requests(7, 2), mixed),
    ] {
        let propose = Message::Propose { session: 4, requests, entries };
        assert_eq!(hand.receive(2, 1, propose.clone()), [], "{propose:?}");
    }
    let propose = Message::Propose { session: 4, requests: requests(7, 1), entries: command() };
    assert!(!hand.receive(2, 1, propose).is_empty());
    assert_eq!(hand.raft.last().index, Index(2));
}

#[test]
fn nobody_holds_more_than_its_leader_whatever_it_says() {
    let mut hand = Hand::leader();
    hand.receive(3, 1, Message::AppendReply(AppendReply::Accept { matched: Index(9) }));
    let matched: Vec<_> = hand.raft.matched().collect();
    assert_eq!(matched, [(node(2), Index(1)), (node(3), Index::ZERO)]);
}

#[test]
fn whoever_asks_a_node_whose_disk_has_failed_is_told_so() {
    let mut hand = Hand::leader();
    hand.step(Event::StorageFailed);
    let one = requests(7, 1);
    let set = ChangeSet { changes: vec![Change::Remove(node(3))], ..ChangeSet::default() };
    for event in [
        Event::Propose { requests: one, entries: command() },
        Event::Read { requests: one, lease: false },
        Event::ChangeMembership { request: one.first, set },
        Event::TransferLeadership { request: one.first, to: None },
    ] {
        let refused = Effect::Refuse { requests: one, reason: Refusal::StorageFailed };
        assert_eq!(hand.step(event.clone()), [refused], "{event:?}");
    }
}

#[test]
fn a_leader_tells_what_it_holds_and_to_whom_it_hands_over() {
    let mut hand = Hand::leader();
    assert_eq!((hand.raft.vote(), hand.raft.is_stalled()), (Some(node(1)), false));
    hand.step(Event::Propose { requests: requests(1, 1), entries: command() });
    assert_eq!((hand.raft.durable_index(), hand.raft.last().index), (Index(1), Index(2)));
    let both = hand.raft.recent_entries(Index(1), Index(2), usize::MAX).expect("they are new");
    assert_eq!(both.iter().map(|entry| entry.index).collect::<Vec<_>>(), [Index(1), Index(2)]);
    hand.persist();
    assert_eq!(hand.raft.durable_index(), Index(2));

    assert_eq!(hand.raft.transferring_to(), None);
    let to = Some(node(2));
    hand.step(Event::TransferLeadership { request: RequestId(2), to });
    assert_eq!(hand.raft.transferring_to(), to);
}

#[test]
fn a_node_whose_disk_does_not_answer_says_so() {
    let mut hand = Hand::founder(3);
    hand.receive(2, 1, heartbeat());
    assert!(!hand.raft.is_stalled());
    hand.now = hand.now + Config::new(node(1)).disk_stall_timeout + Duration::from_nanos(1);
    hand.step(Event::Timer);
    assert!(hand.raft.is_stalled());
    hand.persist();
    assert!(!hand.raft.is_stalled());
}

/// A node that finds these two entries, and a second configuration with the second.
fn saved(commit: u64, second: Membership) -> Saved {
    let mut log = TermRuns::default();
    log.push(Index(1), Index(2), Term(1));
    Saved {
        hard_state: HardState { term: Term(1), vote: None, commit: Index(commit) },
        log,
        memberships: vec![(Index::ZERO, Arc::new(group(3))), (Index(2), Arc::new(second))],
        ..Saved::first_start(group(3))
    }
}

#[test]
fn a_node_is_removed_when_its_removal_is_committed() {
    let others = Membership::new((2..=4).map(node)).expect("there are voters");
    // A learner is removed in one step.
    let without = |id| {
        let change = |group: &Membership, change| group.changed(&[change], |_| true);
        let new = NewMember { id: node(id), address: String::new() };
        let added = change(&others, Change::AddLearner(new)).expect("it is new");
        change(&added, Change::Remove(node(id))).expect("it can be removed")
    };
    for (commit, id, removed) in [(1, 1, false), (2, 1, true), (2, 9, false)] {
        let hand = Hand::restore(saved(commit, without(id)), 7, Instant(0));
        assert_eq!(hand.raft.is_removed(), removed, "of N{id}, at commit {commit}");
    }
}

#[test]
fn a_state_machine_that_lacks_what_its_snapshot_holds_is_restored_at_once() {
    let last = LogPosition { term: Term(3), index: Index(40) };
    let saved = Saved {
        hard_state: HardState { term: Term(3), vote: None, commit: Index(40) },
        log: TermRuns::starting_after(last),
        snapshot: last,
        ..Saved::first_start(group(3))
    };
    let now = Instant(5_000);
    let mut hand = Hand::restore(saved, 7, now);
    assert_eq!(hand.raft.deadline(), Some(now));
    assert_eq!(hand.step(Event::Timer), [Effect::Install { last }]);
    assert!(hand.raft.deadline() > Some(now));
}

#[test]
fn nodes_that_differ_only_in_time_and_chance_are_equal() {
    let start = |seed, now| Hand::restore(Saved::first_start(group(3)), seed, Instant(now)).raft;
    assert_eq!(start(1, 0), start(2, 5_000));
    let mut other = Hand::founder(3);
    let append =
        Append { previous: LogPosition::ZERO, entries: Entries::EMPTY, commit: Index::ZERO };
    other.receive(2, 0, Message::Append(append));
    assert_ne!(other.raft, start(7, 0));
}

#[test]
fn what_is_not_committed_is_bounded_in_bytes_but_one_proposal_alone_may_be_larger() {
    let size = command().size_bytes();
    let mut hand = Hand::leader_of(group(3), |config| config.uncommitted_bytes_max = 2 * size);
    let propose = |hand: &mut Hand, id, entries| {
        let requests = requests(id, 1);
        let refused = Effect::Refuse { requests, reason: Refusal::Overloaded };
        !hand.step(Event::Propose { requests, entries }).contains(&refused)
    };
    assert!(propose(&mut hand, 1, command()) && propose(&mut hand, 2, command()));
    assert!(!propose(&mut hand, 3, command()));
    hand.persist();
    hand.receive(2, 1, Message::AppendReply(AppendReply::Accept { matched: Index(3) }));
    let large = Entries::proposal([Bytes::from(vec![0; 3 * size])]);
    assert!(propose(&mut hand, 4, large), "nothing else waits");
    assert!(!propose(&mut hand, 5, command()));
}

#[test]
fn a_lease_is_over_at_its_end() {
    let lease = Lease { clock_error_ppm: 500, margin: Duration::from_millis(100) };
    let mut hand = Hand::leader_of(group(3), |config| config.lease = Some(lease));
    let heartbeats = hand.time_out();
    hand.echo(&heartbeats);
    let read = |hand: &mut Hand| {
        let read = hand.step(Event::Read { requests: requests(1, 1), lease: true });
        read.into_iter().find_map(|effect| match effect {
            Effect::ReadReady { until, .. } => until,
            _ => None,
        })
    };
    let until = read(&mut hand).expect("there is a lease");
    hand.now = Instant(until.0 - 1);
    assert_eq!(read(&mut hand), Some(until));
    hand.now = until;
    assert_eq!(read(&mut hand), None);
}

#[test]
fn a_higher_priority_is_tried_again_after_ten_election_timeouts() {
    let prefer = [Change::SetPriority(node(2), 5)];
    let group = group(3).changed(&prefer, |_| true).expect("it is a member");
    let mut hand = Hand::leader_of(group, |_| {});
    let mut told = Vec::new();
    while told.len() < 3 {
        let effects = hand.time_out();
        let stands = |it: &Effect| matches!(it, Effect::Send(envelope) if envelope.message == Message::TimeoutNow);
        told.extend(effects.iter().any(stands).then_some(hand.now));
        hand.echo(&effects); // But N2 never stands.
        assert_eq!(hand.raft.role(), RoleKind::Leader);
    }
    let pause = Config::new(node(1)).election_timeout * 10;
    assert_eq!([told[1].since(told[0]), told[2].since(told[1])], [pause; 2]);
}

#[test]
fn who_knows_the_commit_index_is_not_told_again() {
    let delay = Duration::from_millis(2);
    let mut hand = Hand::leader_of(group(3), |config| config.commit_notice_delay = delay);
    let notice = Some(hand.now + delay);
    assert_eq!(hand.raft.deadline(), notice);
    let told = hand.time_out();
    assert!(!told.is_empty());
    let deadline = hand.raft.deadline();
    let again = AppendReply::Accept { matched: Index(1) };
    assert_eq!(hand.receive(2, 1, Message::AppendReply(again)), []);
    assert_eq!(hand.raft.deadline(), deadline, "nothing is due before");
}

#[test]
fn an_append_that_no_leader_would_send_changes_nothing() {
    let mut hand = Hand::founder(3);
    hand.receive(2, 1, heartbeat());
    hand.persist();
    let gap = Entry { index: Index(2), term: Term(1), payload: Payload::Empty };
    let append = |entries: Entries| {
        let (previous, commit) = (LogPosition::ZERO, Index::ZERO);
        Message::Append(Append { previous, entries, commit })
    };
    assert_eq!(hand.receive(2, 1, append(vec![gap.clone()].into())), []);
    let first = Entry { index: Index(1), ..gap };
    assert!(!hand.receive(2, 1, append(vec![first].into())).is_empty());
    assert_eq!(hand.raft.last().index, Index(1));
}

#[test]
fn more_readers_than_a_leader_can_remember_are_refused() {
    let mut hand = Hand::leader();
    let read = |hand: &mut Hand, id| {
        let requests = requests(id, 1);
        let refused = Effect::Refuse { requests, reason: Refusal::Overloaded };
        !hand.step(Event::Read { requests, lease: false }).contains(&refused)
    };
    // The first one begins a round; only neighbours are remembered together.
    let taken = (1..=4097).filter(|at| read(&mut hand, 2 * at)).count();
    assert_eq!(taken, 4097);
    assert!(!read(&mut hand, 1));
    assert!(read(&mut hand, 2 * 4097 + 1), "a neighbour takes no room");
}
