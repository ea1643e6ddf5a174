//! The apply thread: what the state machine does takes as long as it takes, and the driver does
//! not wait for it.

use std::sync::{Arc, mpsc};
use std::thread;

use raft_core::LogReader;
use raft_driver::{Answer, Applier, StateMachine, Task};

use crate::completion::{Completion, Reports};

/// Tasks, in order.
pub(crate) type Tasks<W> = mpsc::Sender<Task<W>>;

/// Starts the thread. It ends when the sender is dropped, or with the first error.
pub(crate) fn start<W, S, L>(
    applier: Arc<Applier<S, L>>,
    reports: Reports<Answer<W, S>>,
) -> std::io::Result<(Tasks<W>, thread::JoinHandle<()>)>
where
    W: Send + 'static,
    S: StateMachine,
    L: LogReader,
{
    let (sender, receiver) = mpsc::channel::<Task<W>>();
    let thread = thread::Builder::new().name("kontiki-apply".into()).spawn(move || {
        while let Ok(task) = receiver.recv() {
            let done = applier.perform(task);
            let failed = done.is_err();
            if reports.send(Completion::Task(done)).is_err() || failed {
                return;
            }
        }
    })?;
    Ok((sender, thread))
}
