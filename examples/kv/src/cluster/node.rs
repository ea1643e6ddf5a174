//! One node under supervision: started, waited for, started again, stopped.

use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};

use super::process::{self, Program};

/// How long a node may take to hand over and to close its files.
const STOP_MAX: Duration = Duration::from_secs(10);
/// A node that lives longer than this was well: its next restart is quick again.
const WELL_AFTER: Duration = Duration::from_secs(30);
/// The longest pause before a restart.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// What happened to the node `at`.
#[derive(Debug)]
pub(super) enum NodeEvent {
    /// It runs.
    Started { at: usize, pid: u32, again: bool },
    /// It does not run any more, and starts again after `restart`, if at all.
    Exited { at: usize, how: String, restart: Option<Duration> },
    /// It cannot even be started.
    Failed { at: usize, reason: String },
}

/// Keeps a node running until `stopping`. `restart` is the pause after it was killed; a node that
/// ends by itself stays down.
pub(super) async fn supervise(
    at: usize,
    program: Program,
    restart: Option<Duration>,
    events: mpsc::Sender<NodeEvent>,
    mut stopping: watch::Receiver<bool>,
) {
    let mut pause = restart;
    let mut again = false;
    loop {
        let mut node = match program.spawn() {
            Ok(node) => node,
            Err(reason) => return tell(&events, NodeEvent::Failed { at, reason }).await,
        };
        let began = Instant::now();
        if let Some(pid) = node.pid() {
            tell(&events, NodeEvent::Started { at, pid, again }).await;
        }
        let status = tokio::select! {
            status = node.wait() => status,
            () = stop_asked(&mut stopping) => {
                let how = node.stop(STOP_MAX).await;
                return tell(&events, NodeEvent::Exited { at, how, restart: None }).await;
            }
        };
        let (how, killed) = match status {
            Ok(status) => (process::describe(status), process::signal(status).is_some()),
            Err(error) => (format!("cannot be waited for: {error}"), false),
        };
        if began.elapsed() > WELL_AFTER {
            pause = restart;
        }
        let restart = pause.filter(|_| killed);
        tell(&events, NodeEvent::Exited { at, how, restart }).await;
        let Some(length) = restart else { return };
        tokio::select! {
            () = tokio::time::sleep(length) => {}
            () = stop_asked(&mut stopping) => return,
        }
        pause = Some((2 * length).min(PAUSE_MAX.max(length)));
        again = true;
    }
}

/// Returns when the supervisor wants its nodes to end, or is gone itself.
async fn stop_asked(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|&stop| stop).await;
}

async fn tell(events: &mpsc::Sender<NodeEvent>, event: NodeEvent) {
    // The supervisor that does not listen any more is ending itself.
    let _ = events.send(event).await;
}
