//! Takes the space of the next segment and fills it with zeros, synced, before anybody needs it:
//! an append then never allocates, so its sync never commits the file system's journal, and a full
//! disk is met here, where it can tear nothing.
//!
//! The thread keeps pace with the writer: as long as its share of the next segment is larger than
//! the writer's share of this one, it rests after each chunk as long as the chunk took. When the
//! writer needs the space all the same, it gets what is filled already, and never waits for more
//! than one chunk beyond what its batch takes.
//!
//! It also removes segments that nobody needs any more, which takes a file system a while.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::disk::{Disk, write_full};
use crate::error::DiskError;
use crate::options::Preparation;
use crate::sector::SECTOR_BYTES;
use crate::segment::{NEXT_NAME, Space};

const CHUNK_BYTES: u64 = 1 << 20;
const REST_MAX: Duration = Duration::from_millis(20);
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Gives out zero-filled space.
#[derive(Debug)]
pub(crate) struct Preparer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    work: Mutex<Work>,
    changed: Condvar,
    /// Files to be removed, oldest first.
    unused: Mutex<VecDeque<PathBuf>>,
    /// How much of the current segment is used, in thousandths. Only a hint.
    used: AtomicU64,
}

/// What the writer and the thread tell each other.
#[derive(Debug, Default)]
enum Work {
    /// Nothing to do.
    #[default]
    Idle,
    /// Fill a file of this size, at leisure.
    Wanted { bytes: u64 },
    /// The thread is filling. It stops early once `urgent` bytes are there.
    Filling { urgent: Option<u64> },
    /// Here is the space, or why there is none.
    Done(Result<Space, DiskError>),
    /// The log is being closed.
    Stop,
}

impl Preparer {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        dir: &Path,
        preparation: Preparation,
    ) -> io::Result<Self> {
        let mut preparer = Self::inline(disk, dir);
        if preparation == Preparation::Background {
            let shared = Arc::clone(&preparer.shared);
            let builder = std::thread::Builder::new().name("kontiki-wal-zeros".into());
            preparer.thread = Some(builder.spawn(move || shared.run())?);
        }
        Ok(preparer)
    }

    /// One that has no thread and fills when it is asked.
    pub(crate) fn inline(disk: Arc<dyn Disk>, dir: &Path) -> Self {
        let (path, work) = (dir.join(NEXT_NAME), Mutex::new(Work::Idle));
        let (changed, unused, used) = (Condvar::new(), Mutex::default(), AtomicU64::new(0));
        let shared = Shared { disk, path, work, changed, unused, used };
        Self { shared: Arc::new(shared), thread: None }
    }

    /// Says how much of the current segment is used.
    pub(crate) fn note_used(&self, used: u64, whole: u64) {
        self.shared.used.store(used * 1000 / whole, Ordering::Relaxed);
    }

    /// Asks for space ahead of need.
    pub(crate) fn request(&self, bytes: u64) {
        if self.thread.is_some() {
            *self.shared.lock() = Work::Wanted { bytes: whole_sectors(bytes) };
            self.shared.changed.notify_all();
        }
    }

    /// Takes the space that was requested, as soon as it has `bytes_min`; where none was, or
    /// where it failed, fills `bytes` here and now.
    pub(crate) fn take(&self, bytes_min: u64, bytes: u64) -> Result<Space, DiskError> {
        let prepared = if self.thread.is_some() { self.wait(bytes_min) } else { None };
        let mut space = match prepared {
            Some(Ok(space)) => space,
            // What failed in the background may work by now: one more try, with what is needed.
            Some(Err(_)) => return self.shared.fill_new(whole_sectors(bytes_min)),
            None => return self.shared.fill_new(whole_sectors(bytes.max(bytes_min))),
        };
        while space.bytes < bytes_min {
            self.shared.fill_chunk(&mut space, whole_sectors(bytes_min))?;
        }
        Ok(space)
    }

    /// Removes these files, in this order. What is left when the process ends, the next one that
    /// opens the log removes.
    pub(crate) fn remove(&self, paths: impl IntoIterator<Item = PathBuf>) {
        self.shared.unused().extend(paths);
        if self.thread.is_some() {
            // Taken so that the thread either sees the files or is waiting already.
            drop(self.shared.lock());
            self.shared.changed.notify_all();
        } else {
            while self.shared.remove_one() {}
        }
    }

    fn wait(&self, bytes_min: u64) -> Option<Result<Space, DiskError>> {
        let mut work = self.shared.lock();
        loop {
            match &mut *work {
                Work::Idle | Work::Stop => return None,
                // The thread has not begun: it would only do what can be done here.
                Work::Wanted { .. } => {
                    *work = Work::Idle;
                    return None;
                }
                Work::Filling { urgent } => *urgent = Some(bytes_min),
                Work::Done(_) => {}
            }
            match std::mem::take(&mut *work) {
                Work::Done(result) => return Some(result),
                other => *work = other,
            }
            self.shared.changed.notify_all();
            work = self.shared.wait(work);
        }
    }
}

impl Drop for Preparer {
    fn drop(&mut self) {
        *self.shared.lock() = Work::Stop;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic over there was printed there, and cannot hurt the log any more.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut work = self.lock();
        loop {
            match *work {
                Work::Stop => return,
                Work::Wanted { bytes } => {
                    *work = Work::Filling { urgent: None };
                    drop(work);
                    let result = self.fill_at_leisure(bytes);
                    if let Err(error) = &result {
                        // A full disk gets back what was taken of it.
                        let _ = self.disk.remove(&self.path);
                        tracing::warn!(%error, "cannot prepare the next segment of the log");
                    }
                    work = self.lock();
                    if matches!(*work, Work::Filling { .. }) {
                        *work = Work::Done(result);
                        self.changed.notify_all();
                    }
                }
                Work::Idle | Work::Filling { .. } | Work::Done(_) => {
                    if self.unused().is_empty() {
                        work = self.wait(work);
                    } else {
                        drop(work);
                        self.remove_one();
                        work = self.lock();
                    }
                }
            }
        }
    }

    fn fill_at_leisure(&self, bytes: u64) -> Result<Space, DiskError> {
        let mut space = self.new_space()?;
        while space.bytes < bytes {
            let started = Instant::now();
            self.fill_chunk(&mut space, bytes)?;
            let ahead = space.bytes * 1000 / bytes > self.used.load(Ordering::Relaxed);
            let rest = if ahead { started.elapsed().min(REST_MAX) } else { Duration::ZERO };
            match *self.rest(rest) {
                Work::Filling { urgent: Some(enough) } if space.bytes >= enough => break,
                Work::Stop => break,
                Work::Filling { .. } | Work::Idle | Work::Wanted { .. } | Work::Done(_) => {}
            }
        }
        Ok(space)
    }

    fn fill_new(&self, bytes: u64) -> Result<Space, DiskError> {
        let mut space = self.new_space()?;
        while space.bytes < bytes {
            self.fill_chunk(&mut space, bytes)?;
        }
        Ok(space)
    }

    fn new_space(&self) -> Result<Space, DiskError> {
        let file = self.disk.create(&self.path).map_err(|error| self.error("create", 0, error))?;
        Ok(Space { file, bytes: 0 })
    }

    fn fill_chunk(&self, space: &mut Space, bytes: u64) -> Result<(), DiskError> {
        let end = bytes.min(space.bytes + CHUNK_BYTES);
        let mut offset = space.bytes;
        while offset < end {
            let count = (end - offset).min(ZEROS.len() as u64);
            write_full(&*space.file, &ZEROS[..count as usize], offset)
                .map_err(|error| self.error("fill", offset, error))?;
            offset += count;
        }
        space.file.sync_data().map_err(|error| self.error("sync", offset, error))?;
        space.bytes = end;
        Ok(())
    }

    /// Removes one file, and says whether there was one. The directory is synced after the last.
    fn remove_one(&self) -> bool {
        let Some(path) = self.unused().pop_front() else { return false };
        let is_last = self.unused().is_empty();
        let removed = self.disk.remove(&path).and_then(|()| match path.parent() {
            Some(dir) if is_last => self.disk.sync_dir(dir),
            Some(_) | None => Ok(()),
        });
        if let Err(error) = removed {
            tracing::warn!(file = %path.display(), %error, "cannot remove an old file of the log");
        }
        true
    }

    fn unused(&self) -> MutexGuard<'_, VecDeque<PathBuf>> {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, verb: &'static str, offset: u64, error: io::Error) -> DiskError {
        DiskError::new(verb, &self.path, offset, error)
    }

    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, work: MutexGuard<'a, Work>) -> MutexGuard<'a, Work> {
        self.changed.wait(work).unwrap_or_else(PoisonError::into_inner)
    }

    /// Rests, unless somebody is waiting.
    fn rest(&self, rest: Duration) -> MutexGuard<'_, Work> {
        let work = self.lock();
        if !matches!(*work, Work::Filling { urgent: None }) {
            return work;
        }
        let rested = self.changed.wait_timeout(work, rest);
        rested.unwrap_or_else(PoisonError::into_inner).0
    }
}

fn whole_sectors(bytes: u64) -> u64 {
    bytes.next_multiple_of(SECTOR_BYTES as u64)
}
