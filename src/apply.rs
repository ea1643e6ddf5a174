//! Feeds committed entries to the state machine, in order: on a thread of its own, or at once
//! where that takes no time to speak of.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use raft_core::{Entry, Index, LogReader, Payload};

use crate::completion::{Completion, Reports};
use crate::driver::Batch;
use crate::machine::{Applied, StateMachine};

/// How many bytes are read from storage at a time (a single larger entry goes alone).
const READ_BYTES_MAX: usize = 1 << 20;

/// Batches to be applied, in order.
pub(crate) type Batches<P> = mpsc::Sender<Batch<P>>;

/// A response on its way to the one who waits.
pub(crate) type Answer<P, S> = (P, Applied<<S as StateMachine>::Response>);

/// Starts the thread. It ends when the sender is dropped, or with the first error.
pub(crate) fn start<S, L, P>(
    machine: Arc<Mutex<S>>,
    reader: L,
    reports: Reports<Answer<P, S>>,
) -> std::io::Result<(Batches<P>, thread::JoinHandle<()>)>
where
    S: StateMachine,
    L: LogReader,
    P: Send + 'static,
{
    let (sender, receiver) = mpsc::channel::<Batch<P>>();
    let thread = thread::Builder::new().name("kontiki-apply".into()).spawn(move || {
        while let Ok(batch) = receiver.recv() {
            let report = complete(&machine, &reader, batch);
            let failed = !matches!(report, Completion::Applied { .. });
            if reports.send(report).is_err() || failed {
                return;
            }
        }
    })?;
    Ok((sender, thread))
}

/// Applies a batch here and now, if the state machine says that it takes no time to speak of:
/// on small batches the way to a thread and back costs more than the work. Gives the batch
/// back otherwise. Only while no batch is with the thread.
pub(crate) fn apply_now<S: StateMachine, L: LogReader, P>(
    machine: &Mutex<S>,
    reader: &L,
    batch: Batch<P>,
) -> Result<Completion<Answer<P, S>>, Batch<P>> {
    let Some(entries) = &batch.entries else { return Err(batch) };
    if machine.try_lock().is_ok_and(|machine| machine.is_quick(entries)) {
        Ok(complete(machine, reader, batch))
    } else {
        Err(batch)
    }
}

fn complete<S: StateMachine, L: LogReader, P>(
    machine: &Mutex<S>,
    reader: &L,
    batch: Batch<P>,
) -> Completion<Answer<P, S>> {
    let last = batch.last;
    let applied = panic::catch_unwind(AssertUnwindSafe(|| {
        // One that has panicked is not asked again: the node stops.
        let mut machine = machine.lock().unwrap_or_else(PoisonError::into_inner);
        apply(&mut *machine, reader, batch)
    }));
    match applied {
        Ok(Ok(answers)) => Completion::Applied { last, answers },
        Ok(Err(Failure::Storage(reason))) => Completion::StorageFailed(reason),
        Ok(Err(Failure::Machine(reason))) => Completion::MachineFailed(reason),
        Err(panic) => Completion::MachineFailed(describe(&*panic)),
    }
}

enum Failure {
    Storage(String),
    Machine(String),
}

fn apply<S: StateMachine, L: LogReader, P>(
    machine: &mut S,
    reader: &L,
    batch: Batch<P>,
) -> Result<Vec<Answer<P, S>>, Failure> {
    let mut answers = Vec::with_capacity(batch.waiters.len());
    let mut waiters = batch.waiters.into_iter().peekable();
    let mut responses = Vec::new();
    let mut feed = |entries: &[Entry]| -> Result<(), Failure> {
        machine
            .apply(entries, &mut responses)
            .map_err(|error| Failure::Machine(error.to_string()))?;
        let commands = entries.iter().filter(|entry| matches!(entry.payload, Payload::Command(_)));
        if commands.clone().count() != responses.len() {
            let reason = format!("{} responses to other commands", responses.len());
            return Err(Failure::Machine(reason));
        }
        for (entry, response) in commands.zip(responses.drain(..)) {
            if let Some((index, waiter)) = waiters.next_if(|(index, _)| *index == entry.index) {
                answers.push((waiter, Applied { index, response }));
            }
        }
        Ok(())
    };
    if let Some(entries) = batch.entries {
        feed(&entries)?;
        return Ok(answers);
    }
    let (mut next, mut entries) = (batch.first, Vec::new());
    while next <= batch.last {
        entries.clear();
        reader
            .read(next, batch.last, READ_BYTES_MAX, &mut entries)
            .map_err(|error| Failure::Storage(error.to_string()))?;
        feed(&entries)?;
        next = entries.last().map_or(Index::ZERO, |entry| entry.index).next();
    }
    Ok(answers)
}

fn describe(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("it panicked: {}", text.unwrap_or("without a message"))
}
