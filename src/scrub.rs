//! Reads the log and its snapshot again and again, slowly, so that damage is found while the
//! others still have what is lost.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use raft_storage::{Scrubbed, Scrubber, SnapshotError, WalError};
use tokio::sync::mpsc::WeakSender;

use crate::transport::Notice;

/// How much is read at once, and how long to rest after it: 4 MiB a second.
const STEP_BYTES: u64 = 256 << 10;
const STEP_PAUSE: Duration = Duration::from_millis(62);
/// How long to rest when everything was read.
const ROUND_PAUSE: Duration = Duration::from_secs(3600);

/// Dropped, it ends the thread.
#[derive(Debug)]
pub(crate) struct Scrubbing(
    #[expect(dead_code, reason = "its end is what counts")] mpsc::Sender<()>,
);

/// Starts the thread. It reports damage; that of the log once, and ends.
pub(crate) fn start(
    mut scrubber: Scrubber,
    notices: WeakSender<Notice>,
) -> std::io::Result<Scrubbing> {
    let (ending, ended) = mpsc::channel();
    thread::Builder::new().name("kontiki-scrub".into()).spawn(move || {
        let mut pause = STEP_PAUSE;
        while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            match scrubber.step(STEP_BYTES) {
                Ok(Scrubbed::Part) => pause = STEP_PAUSE,
                Ok(Scrubbed::All) => pause = ROUND_PAUSE,
                Err(WalError::Corrupt(damage)) => {
                    tracing::error!(%damage, "the log is damaged");
                    return tell(&notices, Notice::Damaged(damage.to_string()));
                }
                Err(WalError::Snapshot(SnapshotError::Damaged(damage))) => {
                    tracing::error!(%damage, "a snapshot is damaged; another one takes its place");
                    tell(&notices, Notice::SnapshotDamaged);
                }
                Err(error) => tracing::warn!(%error, "part of the log could not be looked at"),
            }
        }
    })?;
    Ok(Scrubbing(ending))
}

/// A node that has gone does not want to know.
fn tell(notices: &WeakSender<Notice>, notice: Notice) {
    if let Some(notices) = notices.upgrade() {
        let _ = notices.blocking_send(notice);
    }
}
