use bytes::Bytes;
use raft_core::Term;

use super::*;

/// Adds numbers up, and counts what it was handed.
#[derive(Debug, Default)]
struct Sum {
    sum: u64,
    applied: Index,
}

impl StateMachine for Sum {
    type Response = u64;
    type Error = std::io::Error;

    fn applied(&self) -> Index {
        self.applied
    }

    fn apply(&mut self, entries: &[Entry], responses: &mut Vec<u64>) -> Result<(), Self::Error> {
        for entry in entries {
            assert_eq!(entry.index, self.applied.next(), "every entry, once");
            self.applied = entry.index;
            if let Payload::Command(bytes) = &entry.payload {
                self.sum += u64::from(bytes[0]);
                responses.push(self.sum);
            }
        }
        Ok(())
    }

    fn snapshot(&self) -> Result<Box<dyn Read + Send>, Self::Error> {
        Ok(Box::new(Cursor::new(self.sum.to_le_bytes())))
    }

    fn restore(&mut self, applied: Index, state: &mut dyn Read) -> Result<(), Self::Error> {
        let mut sum = [0; 8];
        state.read_exact(&mut sum)?;
        *self = Self { sum: u64::from_le_bytes(sum), applied };
        Ok(())
    }
}

struct Story(SessionMachine<Sum>);

impl Story {
    fn new() -> Self {
        Self(SessionMachine::new(Sum::default()))
    }

    fn apply_bytes(&mut self, bytes: Bytes) -> Answer<u64> {
        let index = self.0.applied().next();
        let entry = Entry { index, term: Term(1), payload: Payload::Command(bytes) };
        let mut answers = Vec::new();
        self.0.apply(&[entry], &mut answers).expect("it is applied");
        assert_eq!(answers.len(), 1, "one answer for each command");
        answers.remove(0)
    }

    fn apply(&mut self, frame: Frame) -> Answer<u64> {
        self.apply_bytes(frame.encode())
    }

    fn register(&mut self, lifetime_ms: u64) -> u64 {
        match self.apply(Frame::Register { lifetime_ms }) {
            Answer::Registered(session) => session,
            other => panic!("no session: {other:?}"),
        }
    }

    fn add(&mut self, session: u64, number: u64, answered: u64, amount: u8) -> Answer<u64> {
        let command = Bytes::copy_from_slice(&[amount]);
        self.apply(Frame::Execute { session, number, answered, command })
    }

    /// Another node, which gets this one's snapshot.
    fn other(&self) -> Self {
        let mut other = Self::new();
        let mut snapshot = self.0.snapshot().expect("it is taken");
        other.0.restore(self.0.applied(), &mut snapshot).expect("it is restored");
        other
    }
}

// scenario B77
#[test]
fn a_retry_gets_the_first_answer_also_from_a_node_that_has_only_the_snapshot() {
    let mut story = Story::new();
    let session = story.register(1000);
    assert_eq!(story.add(session, 1, 1, 5), Answer::Done(5));
    assert_eq!(story.add(session, 2, 1, 7), Answer::Done(12));
    for mut story in [story.other(), story] {
        assert_eq!(story.add(session, 1, 1, 5), Answer::Done(5));
        assert_eq!(story.add(session, 2, 1, 7), Answer::Done(12));
        assert_eq!(story.0.machine().sum, 12, "nothing was executed twice");
        assert_eq!(story.add(session, 3, 1, 1), Answer::Done(13));
    }
}

#[test]
fn sessions_do_not_share_numbers() {
    let mut story = Story::new();
    let (one, two) = (story.register(1000), story.register(1000));
    assert_ne!(one, two);
    assert_eq!(story.add(one, 1, 1, 5), Answer::Done(5));
    assert_eq!(story.add(two, 1, 1, 6), Answer::Done(11));
}

#[test]
fn what_the_caller_has_is_forgotten_and_never_executed_again() {
    let mut story = Story::new();
    let session = story.register(1000);
    story.add(session, 1, 1, 5);
    assert_eq!(story.add(session, 2, 2, 5), Answer::Done(10));
    assert_eq!(story.add(session, 1, 1, 5), Answer::Forgotten, "a copy that came late");
    assert_eq!(story.0.machine().sum, 10);
}

#[test]
fn an_expired_session_is_an_error_and_time_is_what_the_log_says() {
    let mut story = Story::new();
    let (idle, used) = (story.register(1000), story.register(1000));
    assert_eq!(story.apply(Frame::Time { from_ms: 0, to_ms: 800 }), Answer::Time(800));
    story.add(used, 1, 1, 1);
    let again = Frame::Time { from_ms: 0, to_ms: 5000 };
    assert_eq!(story.apply(again), Answer::Time(800), "the same time is not counted twice");
    assert_eq!(story.apply(Frame::Touch { session: idle }), Answer::Noted);
    assert_eq!(story.apply(Frame::Time { from_ms: 800, to_ms: 1800 }), Answer::Time(1800));
    assert_eq!(story.apply(Frame::Time { from_ms: 1800, to_ms: 1801 }), Answer::Time(1801));
    for mut story in [story.other(), story] {
        assert_eq!(story.add(used, 1, 1, 1), Answer::Expired);
        assert_eq!(story.apply(Frame::Touch { session: idle }), Answer::Expired);
        assert_eq!(story.0.machine().sum, 1);
    }
}

#[test]
fn a_closed_session_has_ended() {
    let mut story = Story::new();
    let session = story.register(1000);
    assert_eq!(story.apply(Frame::Close { session }), Answer::Noted);
    assert_eq!(story.add(session, 1, 1, 1), Answer::Expired);
}

#[test]
fn answers_that_wait_are_bounded() {
    let mut story = Story::new();
    let session = story.register(1000);
    let answers = (1..=2000).map(|number| story.add(session, number, 1, 1));
    let crowded = answers.filter(|answer| *answer == Answer::Crowded).count();
    assert_eq!(crowded, 2000 - 1024);
    assert_eq!(story.add(session, 2001, 1000, 1), Answer::Done(1025), "room is made");
}

#[test]
fn entries_of_others_pass_without_harm() {
    let mut story = Story::new();
    for bytes in [&b""[..], b"\x01", b"\x01123456789", b"\x05short", b"\x09"] {
        assert_eq!(story.apply_bytes(Bytes::copy_from_slice(bytes)), Answer::Foreign);
    }
    let index = story.0.applied().next();
    let entry = Entry { index, term: Term(2), payload: Payload::Empty };
    story.0.apply(&[entry], &mut Vec::new()).expect("it is applied");
    assert_eq!(story.0.applied(), index);
}

#[test]
fn a_snapshot_cut_short_is_refused() {
    let mut story = Story::new();
    story.register(1000);
    let mut bytes = Vec::new();
    story.0.snapshot().expect("it is taken").read_to_end(&mut bytes).expect("it is read");
    for length in 0..bytes.len() {
        let restored = Story::new().0.restore(Index(1), &mut &bytes[..length]);
        assert!(restored.is_err(), "{length} of {} bytes", bytes.len());
    }
}
