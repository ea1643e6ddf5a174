//! The storage thread: whatever arrived during one sync goes into the next.

use std::sync::mpsc;
use std::thread;

use raft_core::{LogStore, Ticket, Write};

use crate::completion::{Completion, Reports};

/// Writes to be made durable, in order.
pub(crate) type Writes = mpsc::Sender<Vec<Write>>;

/// Starts the thread. It ends when the sender is dropped, or with the first error.
pub(crate) fn start<S: LogStore, A: Send + 'static>(
    mut store: S,
    reports: Reports<A>,
) -> std::io::Result<(Writes, thread::JoinHandle<()>)> {
    let (sender, receiver) = mpsc::channel::<Vec<Write>>();
    let thread = thread::Builder::new().name("kontiki-log".into()).spawn(move || {
        let mut writes: Vec<Write> = Vec::new();
        while let Ok(more) = receiver.recv() {
            writes.extend(more);
            while let Ok(more) = receiver.try_recv() {
                writes.extend(more);
            }
            let newest: Option<Ticket> = writes.last().map(|write| write.ticket);
            if let Err(error) = store.persist(&writes) {
                let _ = reports.send(Completion::StorageFailed(error.to_string()));
                return;
            }
            writes.clear();
            if let Some(ticket) = newest {
                // Without a driver there is nobody to tell.
                let _ = reports.send(Completion::Persisted(ticket));
            }
        }
        if let Err(error) = store.close() {
            tracing::error!(%error, "the log was not closed cleanly");
        }
    })?;
    Ok((sender, thread))
}
