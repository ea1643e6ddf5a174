//! A log in memory that can be careless in one way at a time: the suite must say in which.

use std::sync::{Arc, Mutex, MutexGuard};

use raft_core::{Entry, Index, LogReader, LogStore, Payload, Saved, Write};
use raft_testkit::conformance::Model;
use raft_testkit::conformance::log_store::{self, Failure, Rule, Stranger};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    VotesBeforeItIsAsked,
    LosesTheLastWriteOfACall,
    AnswersBeforeTheSync,
    TearsAWrite,
    IgnoresTruncation,
    WritesBackwards,
    ForgetsHardStatesWithEntries,
    ForgetsMembersInTheLog,
    KeepsMembersThatWereCut,
    CutsLargeEntries,
    TakesEmptyForNothing,
    ReadsOneTooMany,
    ReadsPastTheBytes,
    ReadsNoneWhereOneIsTooLarge,
    ClearsTheList,
    FailsBeforeTheBase,
    ForgetsMarks,
    KeepsATailThatDisagrees,
    LosesOneEntryAtEachStart,
    LosesMuchAtClose,
    GoesOnAfterAnError,
    SwallowsErrors,
    OpensForAnybody,
}

/// The medium: what is seen, what is durable, and what was durable before each step.
#[derive(Clone, Debug, Default)]
pub struct Medium(Arc<Mutex<Disk>>);

#[derive(Clone, Debug, Default)]
struct Disk {
    live: Model,
    durable: Model,
    past: Vec<Model>,
    fails: bool,
    starts: u64,
}

impl Medium {
    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().expect("nobody panics")
    }
}

impl Disk {
    fn sync(&mut self, durable: Model) {
        let before = std::mem::replace(&mut self.durable, durable);
        self.past.push(before);
    }
}

#[derive(Clone, Debug)]
pub struct Store {
    medium: Medium,
    fault: Fault,
    poisoned: bool,
}

impl Store {
    /// What it makes of a write.
    fn take(&self, log: &mut Model, write: &Write) {
        let (mut write, before) = (write.clone(), log.clone());
        if self.fault == Fault::IgnoresTruncation && write.truncate.is_some() {
            write.truncate = None;
            let last = Index(log.last());
            write.entries = write.entries.iter().filter(|it| it.index > last).cloned().collect();
        }
        if self.fault == Fault::ForgetsHardStatesWithEntries && !write.entries.is_empty() {
            write.hard_state = None;
        }
        if self.fault == Fault::ForgetsMarks {
            write.snapshot = None;
        }
        write.entries = write.entries.iter().map(|entry| self.keep(entry)).collect();
        log.apply(&write);
        match (self.fault, &write.snapshot) {
            (Fault::ForgetsMembersInTheLog, _) => log.memberships.truncate(1),
            (Fault::KeepsMembersThatWereCut, None) if write.truncate.is_some() => {
                log.memberships = before.memberships;
            }
            (Fault::KeepsATailThatDisagrees, Some(mark)) => {
                let held = before.between(mark.base.index, mark.base.index, 0);
                if held.first().is_some_and(|entry| entry.term != mark.base.term) {
                    (log.base, log.entries) = (before.base, before.entries);
                }
            }
            _ => {}
        }
    }

    fn keep(&self, entry: &Entry) -> Entry {
        let mut entry = entry.clone();
        match (&mut entry.payload, self.fault) {
            (Payload::Command(bytes), Fault::CutsLargeEntries) => bytes.truncate(1 << 20),
            (Payload::Command(bytes), Fault::TakesEmptyForNothing) if bytes.is_empty() => {
                entry.payload = Payload::Empty;
            }
            _ => {}
        }
        entry
    }

    fn sync(&self, disk: &mut Disk, writes: &[Write]) {
        let (mut durable, mut stages) = (disk.durable.clone(), Vec::new());
        for write in writes {
            if self.fault == Fault::TearsAWrite && !write.entries.is_empty() {
                let half = Write { hard_state: None, snapshot: None, ..write.clone() };
                let mut torn = durable.clone();
                self.take(&mut torn, &Write { entries: half.entries.slice(0..1), ..half });
                stages.push(torn);
            }
            self.take(&mut durable, write);
            stages.push(durable.clone());
        }
        if self.fault == Fault::LosesTheLastWriteOfACall {
            stages.pop();
        }
        match self.fault {
            // The next call makes durable what this one has written.
            Fault::AnswersBeforeTheSync => {
                let live = disk.live.clone();
                disk.sync(live);
            }
            _ => stages.into_iter().for_each(|stage| disk.sync(stage)),
        }
    }
}

impl LogStore for Store {
    type Error = String;
    type Reader = Self;

    fn persist(&mut self, writes: &[Write]) -> Result<(), String> {
        let medium = self.medium.clone();
        let mut disk = medium.lock();
        let fails = std::mem::take(&mut disk.fails) || self.poisoned;
        if fails && self.fault != Fault::SwallowsErrors {
            self.poisoned = self.fault != Fault::GoesOnAfterAnError;
            return Err("the disk failed".to_owned());
        }
        let mut writes = writes.to_vec();
        if self.fault == Fault::WritesBackwards && writes.iter().all(|it| it.entries.is_empty()) {
            writes.reverse();
        } else if self.fault == Fault::WritesBackwards {
            // As one that keeps the first hard state of a call would have it.
            let first = writes.iter().find_map(|write| write.hard_state);
            writes.iter_mut().for_each(|it| it.hard_state = it.hard_state.and(first));
        }
        self.sync(&mut disk, &writes);
        let mut live = disk.live.clone();
        writes.iter().for_each(|write| self.take(&mut live, write));
        disk.live = live;
        Ok(())
    }

    fn reader(&self) -> Self {
        self.clone()
    }

    fn close(self) -> Result<(), String> {
        if self.fault == Fault::LosesMuchAtClose {
            let mut disk = self.medium.lock();
            disk.live = Model::default();
        }
        Ok(())
    }
}

impl LogReader for Store {
    type Error = String;

    fn read(
        &self,
        first: Index,
        last: Index,
        bytes_max: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<(), String> {
        let log = self.medium.lock().live.clone();
        let (last, bytes_max) = match self.fault {
            Fault::ReadsOneTooMany => (last.next(), bytes_max),
            Fault::ReadsPastTheBytes => (last, bytes_max.saturating_add(1)),
            _ => (last, bytes_max),
        };
        let found = log.between(first, last, bytes_max);
        match self.fault {
            Fault::ClearsTheList => entries.clear(),
            Fault::FailsBeforeTheBase if found.is_empty() => return Err("it is gone".to_owned()),
            Fault::ReadsNoneWhereOneIsTooLarge
                if found.first().is_some_and(|it| it.size_bytes() > bytes_max.max(100)) =>
            {
                return Ok(());
            }
            _ => {}
        }
        entries.extend_from_slice(found);
        Ok(())
    }
}

pub struct Careless(pub Fault);

impl log_store::Harness for Careless {
    type Store = Store;
    type Medium = Medium;

    fn medium(&self) -> Medium {
        Medium::default()
    }

    fn open(&self, medium: &Medium) -> Result<(Store, Saved), String> {
        let mut disk = medium.lock();
        disk.starts += 1;
        match self.0 {
            Fault::VotesBeforeItIsAsked => disk.live.hard_state.term = raft_core::Term(1),
            Fault::LosesOneEntryAtEachStart => drop(disk.live.entries.pop()),
            _ => {}
        }
        let saved = disk.live.saved();
        drop(disk);
        Ok((Store { medium: medium.clone(), fault: self.0, poisoned: false }, saved))
    }

    fn moments(&self, medium: &Medium) -> usize {
        medium.lock().past.len()
    }

    fn power_cut(&self, medium: &Medium, moment: usize, _: u64) -> Option<Medium> {
        let disk = medium.lock();
        let durable = disk.past.get(moment).unwrap_or(&disk.durable).clone();
        let left = Disk { live: durable.clone(), durable, ..Disk::default() };
        Some(Medium(Arc::new(Mutex::new(left))))
    }

    fn fail_next(&self, medium: &Medium, _: Failure) -> bool {
        medium.lock().fails = true;
        true
    }

    fn open_as(&self, _: &Medium, _: Stranger) -> Option<Result<(), String>> {
        match self.0 {
            Fault::OpensForAnybody => Some(Ok(())),
            _ => Some(Err("another's".to_owned())),
        }
    }
}

/// Every way to be careless, and the rule that it breaks.
pub const BROKEN: [(Fault, Rule); 23] = [
    (Fault::VotesBeforeItIsAsked, Rule::FirstStart),
    (Fault::LosesTheLastWriteOfACall, Rule::Durable),
    (Fault::AnswersBeforeTheSync, Rule::Durable),
    (Fault::TearsAWrite, Rule::Atomic),
    (Fault::IgnoresTruncation, Rule::Truncation),
    (Fault::WritesBackwards, Rule::Order),
    (Fault::ForgetsHardStatesWithEntries, Rule::HardState),
    (Fault::ForgetsMembersInTheLog, Rule::Members),
    (Fault::KeepsMembersThatWereCut, Rule::Members),
    (Fault::CutsLargeEntries, Rule::AsWritten),
    (Fault::TakesEmptyForNothing, Rule::AsWritten),
    (Fault::ReadsOneTooMany, Rule::Reading),
    (Fault::ReadsPastTheBytes, Rule::Reading),
    (Fault::ReadsNoneWhereOneIsTooLarge, Rule::Reading),
    (Fault::ClearsTheList, Rule::Reading),
    (Fault::FailsBeforeTheBase, Rule::BeforeBase),
    (Fault::ForgetsMarks, Rule::Marks),
    (Fault::KeepsATailThatDisagrees, Rule::Marks),
    (Fault::LosesOneEntryAtEachStart, Rule::RecoveredTwice),
    (Fault::LosesMuchAtClose, Rule::Closed),
    (Fault::GoesOnAfterAnError, Rule::Poisoned),
    (Fault::SwallowsErrors, Rule::Poisoned),
    (Fault::OpensForAnybody, Rule::Identity),
];
