//! The trace of a node, on its way into a file: a thread of its own writes it, and the node never
//! waits for it. What comes faster than it can be written is left out, and a record says so.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kontiki::trace::{Record, Sink, What};

use super::ServeError;

/// How many records may wait.
const WAITING_MAX: usize = 1 << 16;
/// How old what is not written may become: a killed process loses no more.
const FLUSH_AFTER: Duration = Duration::from_millis(100);

/// A trace that is being written. Dropped, it is whole.
pub(super) struct TraceFile {
    /// `None` is the end.
    lines: SyncSender<Option<Record>>,
    lost: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl TraceFile {
    /// Goes on with the file at `path`, or makes it.
    pub(super) fn open(path: Option<&Path>) -> Result<Option<Self>, ServeError> {
        let Some(path) = path else { return Ok(None) };
        let failed = |error| ServeError::Trace { path: path.display().to_string(), error };
        let file = append(path).map_err(failed)?;
        let (lines, received) = sync_channel(WAITING_MAX);
        let name = path.display().to_string();
        let thread = std::thread::Builder::new().name("trace".into()).spawn(move || {
            if let Err(error) = write(BufWriter::new(file), &received) {
                tracing::warn!("the trace {name} ends here: {error}");
            }
        });
        let thread = Some(thread.map_err(failed)?);
        Ok(Some(Self { lines, lost: Arc::default(), thread }))
    }

    /// Where the node puts its records.
    pub(super) fn sink(&self) -> Sink {
        let (lines, lost) = (self.lines.clone(), Arc::clone(&self.lost));
        Sink::new(move |record| {
            // One thread steps the node, so nothing comes between the two.
            let records = lost.load(Ordering::Relaxed);
            if records > 0 {
                let gap = Record { what: What::Gap { records }, ..record };
                if lines.try_send(Some(gap)).is_err() {
                    lost.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                lost.store(0, Ordering::Relaxed);
            }
            if lines.try_send(Some(record)).is_err() {
                lost.fetch_add(1, Ordering::Relaxed);
            }
        })
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        // A thread that has ended before has said why.
        let _ = self.lines.send(None);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// A line that a killed process left unfinished must not swallow the next one.
fn append(path: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    if file.seek(SeekFrom::End(0))? > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
    }
    Ok(file)
}

fn write(mut file: BufWriter<File>, lines: &Receiver<Option<Record>>) -> io::Result<()> {
    let mut flushed_at = Instant::now();
    loop {
        let waited = match lines.recv_timeout(FLUSH_AFTER) {
            Ok(Some(record)) => {
                serde_json::to_writer(&mut file, &record)?;
                file.write_all(b"\n")?;
                false
            }
            Err(RecvTimeoutError::Timeout) => true,
            Ok(None) | Err(RecvTimeoutError::Disconnected) => return file.flush(),
        };
        if waited || flushed_at.elapsed() >= FLUSH_AFTER {
            file.flush()?;
            flushed_at = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(at: u64) -> Record {
        Record { node: 1, run: 2, at, what: What::Timer }
    }

    #[test]
    fn a_trace_goes_on_where_a_killed_process_left_it() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("trace.ndjson");
        let first = TraceFile::open(Some(&path))?.expect("a path was given");
        first.sink().take(record(1));
        drop(first);
        let mut text = std::fs::read_to_string(&path)?;
        assert_eq!(text, "{\"node\":1,\"run\":2,\"at\":1,\"what\":\"timer\"}\n");
        text.push_str("{\"node\":1,");
        std::fs::write(&path, &text)?;
        let second = TraceFile::open(Some(&path))?.expect("a path was given");
        second.sink().take(record(2));
        drop(second);
        let whole = std::fs::read_to_string(&path)?;
        assert_eq!(
            whole,
            format!("{text}\n{{\"node\":1,\"run\":2,\"at\":2,\"what\":\"timer\"}}\n")
        );
        Ok(())
    }

    #[test]
    fn a_sink_never_waits_and_says_what_it_left_out() {
        let (lines, received) = sync_channel(2);
        let file = TraceFile { lines, lost: Arc::default(), thread: None };
        let sink = file.sink();
        (1..=5).for_each(|at| sink.take(record(at)));
        let mut seen = Vec::new();
        let mut take = || match received.try_recv() {
            Ok(Some(record)) => seen.push((record.at, record.what)),
            Ok(None) | Err(_) => panic!("two are there"),
        };
        take();
        take();
        sink.take(record(6));
        take();
        take();
        let lost = What::Gap { records: 3 };
        assert_eq!(
            seen,
            [1, 2]
                .map(|at| (at, What::Timer))
                .into_iter()
                .chain([(6, lost), (6, What::Timer)])
                .collect::<Vec<_>>()
        );
    }
}
