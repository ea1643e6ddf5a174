use std::sync::Arc;

use raft_core::{
    Append, Config, Entry, Envelope, LogPosition, Membership, Message, NodeId, Payload, Saved,
    SnapshotMark, Term, Ticket,
};

use super::*;

fn id(number: u64) -> NodeId {
    NodeId::new(number).expect("not zero")
}

fn position(index: u64) -> LogPosition {
    LogPosition { term: Term(1), index: Index(index) }
}

/// Node 1 of three, which follows node 2 from term 1 on.
struct Scene {
    driver: Driver<&'static str>,
    work: Work<&'static str>,
    now: Instant,
}

impl Scene {
    fn new() -> Self {
        let membership = Membership::new((1..=3).map(id)).expect("not empty");
        let saved = Saved::first_start(membership);
        let raft = Raft::restore(Config::new(id(1)), saved, 7, Instant(0)).expect("sound");
        let settings = Settings {
            election_timeout: Duration::from_secs(1),
            policy: Policy { entries: 1000, bytes: 1 << 20 },
            found: Found::default(),
        };
        let driver = Driver::new(raft, settings);
        let mut scene = Self { driver, work: Work::default(), now: Instant(1) };
        scene.append(0, &[(1, Payload::Empty)], 1);
        scene.work.tasks.clear();
        scene.applied(1);
        scene
    }

    fn hear(&mut self, from: u64, term: u64, message: Message) {
        let envelope = Envelope { from: id(from), to: id(1), term: Term(term), message };
        self.driver.handle(self.now, Input::Receive(envelope), &mut self.work);
        self.persist();
    }

    /// The disk is quick.
    fn persist(&mut self) {
        let newest: Option<Ticket> = self.work.writes.last().map(|write| write.ticket);
        self.work.writes.clear();
        if let Some(ticket) = newest {
            self.driver.handle(self.now, Input::Persisted(ticket), &mut self.work);
        }
    }

    fn append(&mut self, after: u64, entries: &[(u64, Payload)], commit: u64) {
        let previous = if after == 0 { LogPosition::ZERO } else { position(after) };
        let entry = |(index, payload): &(u64, Payload)| Entry {
            index: Index(*index),
            term: Term(1),
            payload: payload.clone(),
        };
        let entries = entries.iter().map(entry).collect();
        let commit = Index(commit);
        self.hear(2, 1, Message::Append(Append { previous, entries, commit }));
    }

    fn applied(&mut self, index: u64) {
        let (applied, durable) = (Index(index), None);
        let progress = Progress { applied, last: applied, bytes: 9, durable };
        self.driver.handle(self.now, Input::Applied(progress), &mut self.work);
    }

    fn propose(&mut self, text: &'static str) {
        let mut proposals = vec![(Bytes::from_static(text.as_bytes()), text)];
        self.driver.propose(self.now, &mut proposals, &mut self.work);
    }

    /// What was handed on since the last time.
    fn forwarded(&mut self) -> Vec<(Requests, Vec<Bytes>)> {
        let forwarded = self.work.sends.drain(..).filter_map(|envelope| match envelope.message {
            Message::Propose { requests, entries, .. } => Some((requests, commands(&entries))),
            _ => None,
        });
        forwarded.collect()
    }

    fn refuse(&mut self, requests: Requests, reason: Refusal) {
        self.hear(2, 1, Message::ProposeReply { requests, outcome: Err(reason) });
    }

    fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        self.driver.handle(self.now, Input::Timer, &mut self.work);
        self.persist();
    }

    fn ended(&mut self) -> Vec<(&'static str, Ending)> {
        mem::take(&mut self.work.ended)
    }
}

fn commands(entries: &Entries) -> Vec<Bytes> {
    let command = |entry: &Entry| match &entry.payload {
        Payload::Command(bytes) => bytes.clone(),
        Payload::Empty | Payload::Membership(_) => Bytes::new(),
    };
    entries.iter().map(command).collect()
}

fn one(text: &'static str) -> Vec<Bytes> {
    vec![Bytes::from_static(text.as_bytes())]
}

#[test]
fn what_a_leader_refuses_because_it_hands_over_is_asked_again() {
    let mut scene = Scene::new();
    scene.propose("a");
    let [(requests, _)] = scene.forwarded()[..] else { panic!("handed on") };
    scene.refuse(requests, Refusal::Transferring);
    assert_eq!(scene.ended(), [], "it is kept");
    assert_eq!(scene.forwarded(), [], "the leader is left alone for a moment");
    assert_eq!(scene.driver.deadline(scene.now), Some(scene.now + PARKING_PAUSE));
    scene.wait(PARKING_PAUSE);
    let [(requests, again)] = &scene.forwarded()[..] else { panic!("asked again") };
    assert_eq!(*again, one("a"));
    assert_ne!(*requests, Requests { first: raft_core::RequestId(1), count: 1 }, "a new request");

    // The next leader is asked as soon as it is known.
    scene.refuse(*requests, Refusal::Transferring);
    let heartbeat =
        Message::Heartbeat { commit: Index::ZERO, round: raft_core::Round(1), sent_at: Instant(0) };
    scene.hear(3, 2, heartbeat);
    assert_eq!(scene.forwarded().into_iter().map(|(_, it)| it).collect::<Vec<_>>(), [one("a")]);
}

#[test]
fn what_waits_for_a_hand_over_waits_no_longer_than_that_may_take() {
    let mut scene = Scene::new();
    scene.propose("a");
    for _ in 0..1000 {
        for (requests, _) in scene.forwarded() {
            scene.refuse(requests, Refusal::Transferring);
        }
        let ended = scene.ended();
        if !ended.is_empty() {
            assert_eq!(ended, [("a", Ending::Refused(Refusal::Transferring))]);
            assert!(scene.now >= Instant(1) + Duration::from_secs(2), "{:?}", scene.now);
            return;
        }
        // The leader lives, and hands over for ever.
        scene.append(1, &[], 0);
        scene.wait(PARKING_PAUSE);
    }
    panic!("it waits for ever");
}

#[test]
fn between_two_leaders_proposals_and_reads_wait() {
    let mut scene = Scene::new();
    let vote = Message::Vote { last: position(1), transfer: true };
    scene.hear(3, 2, vote);
    assert_eq!(scene.driver.raft().leader(), None);
    scene.propose("a");
    let mut readers = vec!["r"];
    scene.driver.read(scene.now, ReadKind::Confirmed, &mut readers, &mut scene.work);
    assert_eq!(scene.ended(), []);
    scene.hear(
        3,
        2,
        Message::Append(Append {
            previous: position(1),
            entries: Entries::EMPTY,
            commit: Index::ZERO,
        }),
    );
    let asked: Vec<_> = scene.work.sends.drain(..).map(|envelope| envelope.message).collect();
    assert!(asked.iter().any(|it| matches!(it, Message::Propose { .. })), "{asked:?}");
    assert!(asked.iter().any(|it| matches!(it, Message::Read { .. })), "{asked:?}");

    // Without a hand-over in sight nobody waits.
    let mut scene = Scene::new();
    scene.hear(3, 2, Message::Vote { last: position(1), transfer: false });
    scene.now = scene.now + Duration::from_secs(10);
    scene.hear(3, 3, Message::Vote { last: position(1), transfer: false });
    scene.propose("a");
    assert_eq!(scene.ended(), [("a", Ending::Refused(Refusal::NotLeader { leader: None }))]);
}

// scenario B78
#[test]
fn whoever_is_covered_by_a_snapshot_is_told_that_nobody_knows() {
    let mut scene = Scene::new();
    for text in ["applied", "known", "placed"] {
        scene.propose(text);
    }
    let requests: Vec<Requests> = scene.forwarded().into_iter().map(|(it, _)| it).collect();
    for (requests, index) in requests.iter().zip([2, 4, 5]) {
        let outcome = Ok(Index(index));
        scene.hear(2, 1, Message::ProposeReply { requests: *requests, outcome });
    }
    // Two batches are as many as go to the state machine at once: the last one has to wait.
    scene.append(1, &[(2, Payload::Command("applied".into()))], 2);
    scene.append(2, &[(3, Payload::Empty)], 3);
    scene.append(3, &[(4, Payload::Command("known".into()))], 4);
    let [Task::Apply(batch), Task::Apply(_)] = &scene.work.tasks[..] else {
        panic!("{:?}", scene.work.tasks)
    };
    assert_eq!(batch.waiters, [(Index(2), "applied")]);

    // Before that, a snapshot takes the place of it all.
    let membership = Arc::new(Membership::new((1..=3).map(id)).expect("not empty"));
    let last = position(50);
    let snapshot = Snapshot { last, membership, membership_index: Index::ZERO };
    let received = Input::SnapshotReceived { from: id(2), term: Term(1), snapshot };
    scene.driver.handle(scene.now, received, &mut scene.work);
    let marks: Vec<&SnapshotMark> =
        scene.work.writes.iter().filter_map(|write| write.snapshot.as_deref()).collect();
    assert_eq!(marks.iter().map(|mark| mark.base).collect::<Vec<_>>(), [last]);
    scene.persist();
    let mut ended = scene.ended();
    ended.sort_by_key(|(who, _)| *who);
    assert_eq!(ended, [("known", Ending::Unknown), ("placed", Ending::Unknown)]);
    let [Task::Apply(_), Task::Apply(_), Task::Install(found)] = scene.work.tasks[..] else {
        panic!("{:?}", scene.work.tasks)
    };
    assert_eq!(found, last);
    let short = Progress { applied: Index(1), last: Index(2), bytes: 0, durable: None };
    assert_eq!(scene.driver.misses(short), None, "the snapshot brings it");

    // The state is exchanged behind the batch, and what comes next goes on from there.
    scene.applied(2);
    scene.applied(3);
    scene.driver.handle(scene.now, Input::Installed(Index(50)), &mut scene.work);
    assert_eq!(scene.driver.raft().applied_index(), Index(50));
    assert_eq!(scene.driver.misses(short), Some(Index(2)));
    scene.work.tasks.clear();
    scene.append(50, &[(51, Payload::Empty)], 51);
    let [Task::Apply(batch)] = &scene.work.tasks[..] else { panic!("{:?}", scene.work.tasks) };
    assert_eq!((batch.first, batch.last), (Index(51), Index(51)));
}

#[test]
fn an_old_snapshot_changes_nothing() {
    let mut scene = Scene::new();
    scene.append(1, &[(2, Payload::Empty), (3, Payload::Empty)], 3);
    scene.work.tasks.clear();
    let membership = Arc::new(Membership::new((1..=3).map(id)).expect("not empty"));
    let snapshot = Snapshot { last: position(2), membership, membership_index: Index::ZERO };
    let received = Input::SnapshotReceived { from: id(2), term: Term(1), snapshot };
    scene.driver.handle(scene.now, received, &mut scene.work);
    assert!(scene.work.tasks.is_empty() && scene.work.writes.is_empty());
}
