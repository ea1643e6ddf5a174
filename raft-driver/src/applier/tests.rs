use std::error::Error;
use std::io::Cursor;

use bytes::Bytes;
use raft_core::{Membership, NodeId, Snapshot, SnapshotOffer, SnapshotSink, SnapshotSource, Term};

use super::*;

type StoreFailure = Box<dyn Error + Send + Sync>;

/// Sums bytes.
struct Sum(u64, Index);

impl StateMachine for Sum {
    type Response = u64;
    type Error = String;

    fn applied(&self) -> Index {
        self.1
    }

    fn apply(&mut self, entries: &[Entry], sums: &mut Vec<u64>) -> Result<(), String> {
        for entry in entries {
            assert_eq!(entry.index, self.1.next(), "each once, in order");
            self.1 = entry.index;
            if let Payload::Command(bytes) = &entry.payload {
                self.0 += u64::from(bytes[0]);
                sums.push(self.0);
            }
        }
        Ok(())
    }

    fn snapshot(&self) -> Result<Box<dyn Read + Send>, String> {
        Ok(Box::new(Cursor::new([self.0 as u8])))
    }

    fn restore(&mut self, applied: Index, state: &mut dyn Read) -> Result<(), String> {
        let mut bytes = Vec::new();
        state.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        *self = Self(bytes.iter().map(|byte| u64::from(*byte)).sum(), applied);
        Ok(())
    }
}

/// A log that begins after index 4, every entry of it the command 1.
#[derive(Clone)]
struct Ones;

impl LogReader for Ones {
    type Error = String;

    fn read(
        &self,
        first: Index,
        last: Index,
        _: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<(), String> {
        if first > Index(4) {
            entries.extend((first.0..=last.0).map(entry));
        }
        Ok(())
    }
}

fn entry(index: u64) -> Entry {
    let payload = Payload::Command(Bytes::from_static(&[1]));
    Entry { index: Index(index), term: Term(1), payload }
}

/// One snapshot, which ends where it says, of so many bytes with the value 1.
struct OneFile(u64, usize);

impl SnapshotStore for OneFile {
    fn newest(&self) -> Result<Option<Arc<dyn SnapshotSource>>, StoreFailure> {
        let id = NodeId::new(1).ok_or("zero")?;
        let membership = Arc::new(Membership::new([id]).ok_or("empty")?);
        let last = LogPosition { term: Term(1), index: Index(self.0) };
        let snapshot = Snapshot { last, membership, membership_index: Index::ZERO };
        Ok(Some(Arc::new(File(snapshot, self.1))))
    }

    fn build(&self, _: &Snapshot) -> Result<Box<dyn SnapshotSink>, StoreFailure> {
        Err("not here".into())
    }

    fn receive(&self, _: &SnapshotOffer) -> Result<Box<dyn SnapshotSink>, StoreFailure> {
        Err("not here".into())
    }

    fn retain(&self, _: LogPosition) -> Result<(), StoreFailure> {
        Ok(())
    }
}

struct File(Snapshot, usize);

impl SnapshotSource for File {
    fn snapshot(&self) -> &Snapshot {
        &self.0
    }

    fn len_bytes(&self) -> u64 {
        self.1 as u64
    }

    fn check(&self) -> u32 {
        0
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, StoreFailure> {
        let count = into.len().min(self.1 - offset as usize);
        into[..count].fill(1);
        Ok(count)
    }
}

fn applier(snapshot: OneFile) -> Applier<Sum, Ones> {
    Applier::new(Sum(0, Index::ZERO), Ones, Arc::new(snapshot))
}

fn install(last: u64) -> Task<u64> {
    Task::Install(LogPosition { term: Term(1), index: Index(last) })
}

fn batch(first: u64, last: u64) -> Task<u64> {
    let waiters = (first..=last).map(|index| (Index(index), index)).collect();
    Task::Apply(Batch { first: Index(first), last: Index(last), entries: None, waiters })
}

/// Who was answered what, and up to where it was applied.
fn answers(done: Result<Done<Answer<u64, Sum>>, Failure>) -> (Vec<(u64, Option<u64>)>, Index) {
    let Ok(Done::Applied { progress, answers }) = done else { panic!("not applied") };
    let answer = |(who, applied): Answer<u64, Sum>| (who, applied.map(|it| it.response));
    (answers.into_iter().map(answer).collect(), progress.applied)
}

#[test]
fn a_state_of_many_pieces_is_restored_whole() {
    let applier = applier(OneFile(9, 1_000_000));
    assert!(matches!(applier.perform(install(9)), Ok(Done::Installed(Index(9)))));
    let (answers, applied) = answers(applier.perform(batch(10, 11)));
    assert_eq!(answers, [(10, Some(1_000_001)), (11, Some(1_000_002))]);
    assert_eq!(applied, Index(11));
}

// scenario B52
#[test]
fn what_a_newer_snapshot_holds_is_not_applied_again() {
    let applier = applier(OneFile(12, 12));
    assert!(matches!(applier.perform(install(9)), Ok(Done::Installed(Index(9)))));
    let (answered, applied) = answers(applier.perform(batch(10, 13)));
    assert_eq!(answered, [(10, None), (11, None), (12, None), (13, Some(13))]);
    assert_eq!(applied, Index(13));
    // Nor does an older one take the state back.
    assert!(matches!(applier.perform(install(12)), Ok(Done::Installed(Index(12)))));
    assert_eq!(answers(applier.perform(batch(14, 14))).0, [(14, Some(14))]);
}

#[test]
fn entries_that_a_snapshot_has_replaced_are_waited_for_in_vain() {
    let applier = applier(OneFile(9, 9));
    let (answered, applied) = answers(applier.perform(batch(1, 3)));
    assert_eq!(answered, [(1, None), (2, None), (3, None)], "nobody knows");
    assert_eq!(applied, Index::ZERO, "and nothing was applied");
}

// scenario B52: two batches were handed out before the snapshot came that takes their place.
#[test]
fn what_follows_entries_that_a_snapshot_has_replaced_is_not_applied_without_them() {
    let applier = applier(OneFile(9, 9));
    let (_, applied) = answers(applier.perform(batch(1, 4)));
    assert_eq!(applied, Index::ZERO, "they are gone from the log");
    let (answered, applied) = answers(applier.perform(batch(5, 6)));
    assert_eq!(answered, [(5, None), (6, None)], "nobody knows");
    assert_eq!(applied, Index::ZERO, "and nothing was applied");
    assert!(matches!(applier.perform(install(9)), Ok(Done::Installed(Index(9)))));
    assert_eq!(answers(applier.perform(batch(10, 10))).0, [(10, Some(10))]);
}

#[test]
fn a_snapshot_that_is_too_old_says_what_to_do() {
    let Err(Failure::Storage(reason)) = applier(OneFile(5, 5)).perform(install(9)) else {
        panic!("not refused")
    };
    assert!(
        reason.starts_with("the snapshot at index 9 is missing, and the newest ends at index 5")
    );
}
