//! Feeds committed entries to the state machine, in order. In the same line, so that nothing
//! overtakes: restores it from a snapshot, and captures it for one. Knows no thread: whoever
//! drives it says where that happens.

use std::any::Any;
use std::fmt;
use std::io::Read;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError};

use raft_core::{Entry, Index, LogPosition, LogReader, Payload, SnapshotStore, seeded};

use crate::driver::{Batch, Progress, Task};
use crate::machine::{Applied, StateMachine};
use crate::source_reader::SourceReader;

/// How many bytes are read from storage at a time (a single larger entry goes alone).
const READ_BYTES_MAX: usize = 1 << 20;

/// What is told to one who waits: the response, or nothing where it is gone.
pub type Answer<W, S> = (W, Option<Applied<<S as StateMachine>::Response>>);

/// How a task ended.
pub type Performed<W, S> = Result<Done<Answer<W, S>>, Failure>;

/// What became of a task.
#[derive(Debug)]
pub enum Done<A> {
    /// A [`Task::Apply`].
    Applied {
        /// For the driver.
        progress: Progress,
        /// For those who wait.
        answers: Vec<A>,
    },
    /// A [`Task::Install`]; the state machine holds everything up to here.
    Installed(Index),
    /// A [`Task::Capture`], or why the state machine gives nothing.
    Captured(Result<Captured, String>),
}

/// The state as it was at `index`.
pub struct Captured {
    /// It holds the effects of everything up to here.
    pub index: Index,
    /// The bytes of it.
    pub state: Box<dyn Read + Send>,
}

impl fmt::Debug for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Captured({})", self.index)
    }
}

/// Why a task could not be done. The node stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The log or the snapshots.
    Storage(String),
    /// The state machine.
    Machine(String),
}

/// The state machine, and what feeds it. May be shared by an apply thread and the driver's, which
/// use it in turn: whoever finds it in use leaves the work to the other.
pub struct Applier<S, L> {
    machine: Mutex<Holding<S>>,
    reader: L,
    snapshots: Arc<dyn SnapshotStore>,
}

struct Holding<S> {
    machine: S,
    /// It holds the effects of everything up to here.
    index: Index,
}

impl<S: StateMachine, L: LogReader> Applier<S, L> {
    /// Around this state machine, which reads the rest of the log and its snapshots there.
    pub fn new(machine: S, reader: L, snapshots: Arc<dyn SnapshotStore>) -> Self {
        let index = machine.applied();
        Self { machine: Mutex::new(Holding { machine, index }), reader, snapshots }
    }

    /// Looks at the state machine, between two tasks.
    pub fn look<T>(&self, look: impl FnOnce(&S) -> T) -> T {
        look(&self.machine.lock().unwrap_or_else(PoisonError::into_inner).machine)
    }

    /// Applies a batch here and now, if the state machine says that it takes no time to speak
    /// of: on small batches the way to a thread and back costs more than the work. Gives the
    /// task back otherwise. Only while none is with the thread.
    pub fn perform_quick<W>(&self, task: Task<W>) -> Result<Performed<W, S>, Task<W>> {
        let Task::Apply(Batch { entries: Some(entries), .. }) = &task else { return Err(task) };
        if self.machine.try_lock().is_ok_and(|holding| holding.machine.is_quick(entries)) {
            Ok(self.perform(task))
        } else {
            Err(task)
        }
    }

    /// Does what is to be done. A state machine that panics has failed.
    pub fn perform<W>(&self, task: Task<W>) -> Performed<W, S> {
        let done = panic::catch_unwind(AssertUnwindSafe(|| {
            // One that has panicked is not asked again: the node stops.
            let mut holding = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
            match task {
                Task::Apply(batch) => self.apply(&mut holding, batch),
                Task::Install(last) => self.install(&mut holding, last),
                Task::Capture => Ok(Done::Captured(capture(&holding))),
            }
        }));
        done.unwrap_or_else(|panic| Err(Failure::Machine(describe(&*panic))))
    }

    fn apply<W>(&self, holding: &mut Holding<S>, batch: Batch<W>) -> Performed<W, S> {
        let Batch { first, last, entries, waiters } = batch;
        let mut feed = Feed { holding, waiters: waiters.into_iter().peekable(), answers: vec![] };
        feed.answers.reserve(feed.waiters.len());
        let (mut bytes, mut responses) = (0, Vec::new());
        let held = feed.holding.index;
        let applied = if held.next() < first {
            held // A snapshot has replaced what lies between; without it these make no sense.
        } else if let Some(entries) = entries {
            bytes += feed.feed(&entries, &mut responses)?;
            last
        } else {
            let (mut next, mut entries) = (first, Vec::new());
            while next <= last {
                entries.clear();
                self.reader
                    .read(next, last, READ_BYTES_MAX, &mut entries)
                    .map_err(|error| Failure::Storage(error.to_string()))?;
                let Some(newest) = entries.last() else { break }; // A snapshot replaces them.
                next = newest.index.next();
                bytes += feed.feed(&entries, &mut responses)?;
            }
            next.prev()
        };
        let Feed { waiters, mut answers, holding } = feed;
        // What a snapshot covers has no response any more.
        answers.extend(waiters.map(|(_, waiter)| (waiter, None)));
        let durable = holding.machine.durable();
        let progress = Progress { applied, last, bytes, durable };
        Ok(Done::Applied { progress, answers })
    }

    /// Replaces the state by that of the newest snapshot. It may be a newer one than was asked
    /// for, if one has arrived just now; what it covers already is passed over later.
    fn install<W>(&self, holding: &mut Holding<S>, last: LogPosition) -> Performed<W, S> {
        if holding.index < last.index {
            let advice = "the entries that it covers are gone from this node's log; replace the \
                          node by a new member, which gets its state from the others";
            let wrong = |reason: String| {
                Failure::Storage(format!("the snapshot at index {} {reason}: {advice}", last.index))
            };
            let newest = self.snapshots.newest();
            let newest = newest.map_err(|error| wrong(format!("cannot be read ({error})")))?;
            let source = newest.ok_or_else(|| wrong("is missing".into()))?;
            let found = source.snapshot().last.index;
            if found < last.index {
                return Err(wrong(format!("is missing, and the newest ends at index {found}")));
            }
            tracing::info!(index = %found, bytes = source.len_bytes(), "restoring a snapshot");
            let mut state = SourceReader::new(source);
            let restored = holding.machine.restore(found, &mut state);
            if let Some(error) = state.error() {
                return Err(wrong(format!("cannot be read ({error})")));
            }
            restored.map_err(|error| Failure::Machine(error.to_string()))?;
            holding.index = found;
        }
        Ok(Done::Installed(last.index))
    }
}

fn capture<S: StateMachine>(holding: &Holding<S>) -> Result<Captured, String> {
    let index = holding.index;
    let state = holding.machine.snapshot().map_err(|error| error.to_string())?;
    Ok(Captured { index, state })
}

/// One batch on its way into the state machine.
struct Feed<'a, W, S: StateMachine> {
    holding: &'a mut Holding<S>,
    waiters: std::iter::Peekable<std::vec::IntoIter<(Index, W)>>,
    answers: Vec<Answer<W, S>>,
}

impl<W, S: StateMachine> Feed<'_, W, S> {
    /// Feeds consecutive entries, but for those that it holds already. Returns their bytes.
    fn feed(
        &mut self,
        entries: &[Entry],
        responses: &mut Vec<S::Response>,
    ) -> Result<u64, Failure> {
        let Some(newest) = entries.last() else { return Ok(0) };
        let held = entries.partition_point(|entry| entry.index <= self.holding.index);
        let held = if seeded!(AppliedAgain) { 0 } else { held };
        let entries = &entries[held..];
        let Holding { machine, index } = &mut *self.holding;
        if entries.is_empty() {
            return Ok(0);
        }
        machine.apply(entries, responses).map_err(|error| Failure::Machine(error.to_string()))?;
        *index = newest.index;
        let commands = entries.iter().filter(|entry| matches!(entry.payload, Payload::Command(_)));
        if commands.clone().count() != responses.len() {
            let reason = format!("{} responses to other commands", responses.len());
            return Err(Failure::Machine(reason));
        }
        for (entry, response) in commands.zip(responses.drain(..)) {
            while let Some((_, gone)) = self.waiters.next_if(|(index, _)| *index < entry.index) {
                self.answers.push((gone, None));
            }
            if let Some((index, waiter)) = self.waiters.next_if(|(index, _)| *index == entry.index)
            {
                self.answers.push((waiter, Some(Applied { index, response })));
            }
        }
        Ok(entries.iter().map(|entry| entry.size_bytes() as u64).sum())
    }
}

/// What a panic says.
pub fn describe(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("it panicked: {}", text.unwrap_or("without a message"))
}

#[cfg(test)]
mod tests;
