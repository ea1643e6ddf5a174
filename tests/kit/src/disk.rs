//! A disk in memory that forgets what was not synced, as unkindly as a real one may.
//!
//! It keeps two images: what a reader sees now, and what is surely durable. At a power cut every
//! 512-byte sector that was written and not synced takes any one of the contents that it had
//! since, each file any of its two lengths, and each name in a directory either of its two states.
//! One seed gives one outcome.
//!
//! Before each operation that changes something it can keep a copy of itself, so that a test can
//! cut the power at every boundary of a run that it made once.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use raft_storage::{Access, Disk, DiskFile, DiskLock};

mod fault;
mod image;

pub use fault::{Fault, Operation};
pub use image::{Image, Outcomes};

use fault::Faults;
use image::InodeId;

/// The simulated disk. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    image: Image,
    locks: BTreeSet<PathBuf>,
    faults: Faults,
    /// How many bytes all files together may have.
    capacity: Option<u64>,
    operations: usize,
    /// The image before each operation, where that is kept.
    history: Option<Vec<Image>>,
    /// The power is off: nothing works any more.
    off: bool,
    /// So many operations later it goes off.
    off_after: Option<u64>,
    /// Syncs do nothing, and say that all is well.
    lies: bool,
}

impl SimDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// A disk that holds this.
    pub fn from_image(image: Image) -> Self {
        let disk = Self::new();
        disk.lock().image = image;
        disk
    }

    /// A copy of what the disk holds, durable or not.
    pub fn image(&self) -> Image {
        self.lock().image.clone()
    }

    /// Cuts the power: this disk is dead, and the one that is returned is what is left of it.
    #[must_use]
    pub fn power_cut(&self, seed: u64) -> Self {
        let mut state = self.lock();
        state.off = true;
        state.successor(state.image.after_power_cut(seed))
    }

    /// The power goes off once so many more operations have changed something: those that follow
    /// fail, and [`power_cut`](Self::power_cut) says what is left then.
    pub fn cut_after(&self, operations: u64) {
        self.lock().off_after = Some(operations);
    }

    /// The process that uses this disk is killed: no handle of it works any more, and the disk
    /// that is returned has all that it wrote, though what it did not sync may be lost yet.
    #[must_use]
    pub fn kill(&self) -> Self {
        let mut state = self.lock();
        state.off = true;
        state.successor(state.image.clone())
    }

    /// Starts to keep a copy before each operation that changes something.
    pub fn keep_history(&self) {
        self.lock().history = Some(Vec::new());
    }

    /// The images before each operation since then, and the one now.
    pub fn history(&self) -> Vec<Image> {
        let state = self.lock();
        let mut history = state.history.clone().unwrap_or_default();
        history.push(state.image.clone());
        history
    }

    /// The image before this operation, or the one now where it has not come yet; `None` where no
    /// history was kept from the start.
    pub fn image_before(&self, operation: usize) -> Option<Image> {
        let state = self.lock();
        let history = state.history.as_ref().filter(|it| it.len() == state.operations)?;
        Some(history.get(operation).unwrap_or(&state.image).clone())
    }

    /// How many operations have changed something: an index into the history, if it was kept
    /// from the start.
    pub fn operations(&self) -> usize {
        self.lock().operations
    }

    /// Lets the `nth` operation of this kind from now on, counted from 1, go wrong like this.
    pub fn inject(&self, operation: Operation, nth: u64, fault: Fault) {
        self.lock().faults.add(operation, nth, fault);
    }

    /// From now on syncs do nothing, and say that all is well.
    pub fn lie_about_syncs(&self) {
        self.lock().lies = true;
    }

    /// No fault that was to come comes.
    pub fn forget_faults(&self) {
        self.lock().faults.forget();
    }

    /// From now on the files may grow by no more than this; `None` lifts the limit.
    pub fn limit_growth(&self, bytes: Option<u64>) {
        let mut state = self.lock();
        state.capacity = bytes.map(|bytes| state.image.bytes() + bytes);
    }

    /// Changes a byte behind the back of everybody, in all images.
    pub fn corrupt(&self, path: &Path, offset: u64, change: impl Fn(u8) -> u8) {
        self.lock().image.corrupt(path, offset, change);
    }

    /// All files, with what a reader sees in them.
    pub fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        self.lock().image.files()
    }

    /// Puts a file there, durably.
    pub fn put_file(&self, path: &Path, bytes: &[u8]) {
        self.lock().image.put(path, bytes);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an operation: notes it, and gives the fault that it is to meet.
    fn begin(&self, operation: Operation) -> io::Result<(MutexGuard<'_, State>, Option<Fault>)> {
        let fault = self.lock().faults.next(operation);
        if let Some(Fault::Stall(stall)) = &fault {
            stall();
        }
        let mut state = self.lock();
        if state.off {
            return Err(io::Error::other("the power is off"));
        }
        if operation != Operation::Read {
            match &mut state.off_after {
                Some(0) => {
                    state.off = true;
                    return Err(io::Error::other("the power is off"));
                }
                Some(left) => *left -= 1,
                None => {}
            }
            state.operations += 1;
            let State { image, history, .. } = &mut *state;
            if let Some(history) = history {
                history.push(image.clone());
            }
        }
        match fault {
            Some(Fault::Error(code)) => {
                if operation == Operation::Sync {
                    return Ok((state, Some(Fault::Error(code))));
                }
                Err(io::Error::from_raw_os_error(code))
            }
            Some(Fault::Stall(_)) | None => Ok((state, None)),
            Some(short @ Fault::Short(_)) => Ok((state, Some(short))),
        }
    }

    fn file(&self, inode: InodeId) -> Arc<dyn DiskFile> {
        Arc::new(SimFile { disk: self.clone(), inode })
    }
}

impl State {
    /// The disk that is left of this one.
    fn successor(&self, image: Image) -> SimDisk {
        let disk = SimDisk::from_image(image);
        disk.lock().lies = self.lies;
        disk
    }

    fn make_room(&self, growth: u64) -> io::Result<()> {
        match self.capacity {
            Some(capacity) if self.image.bytes() + growth > capacity => {
                Err(io::Error::from_raw_os_error(Fault::NO_SPACE))
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, _access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let (state, _) = self.begin(Operation::Read)?;
        let inode = state.image.inode(path)?;
        Ok(self.file(inode))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let (mut state, _) = self.begin(Operation::Create)?;
        let inode = state.image.create(path)?;
        Ok(self.file(inode))
    }

    fn rename(&self, source: &Path, target: &Path) -> io::Result<()> {
        self.begin(Operation::Rename)?.0.image.rename(source, target)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.begin(Operation::Remove)?.0.image.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.begin(Operation::Read)?.0.image.list(dir)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.begin(Operation::CreateDir)?.0.image.create_dir(dir);
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.begin(Operation::SyncDir)?.0.image.sync_dir(dir);
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        let mut state = self.lock();
        if !state.locks.insert(path.to_owned()) {
            return Ok(None);
        }
        if state.image.inode(path).is_err() {
            state.image.create(path)?;
        }
        Ok(Some(Box::new(SimLock { disk: self.clone(), path: path.to_owned() })))
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    inode: InodeId,
}

impl DiskFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let (state, fault) = self.disk.begin(Operation::Read)?;
        let most = fault.map_or(buffer.len(), |fault| fault.shortened(buffer.len()));
        Ok(state.image.read(self.inode, &mut buffer[..most], offset))
    }

    fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        let (mut state, fault) = self.disk.begin(Operation::Write)?;
        let most = fault.map_or(buffer.len(), |fault| fault.shortened(buffer.len()));
        let end = offset + most as u64;
        state.make_room(end.saturating_sub(state.image.len(self.inode)))?;
        state.image.write(self.inode, &buffer[..most], offset);
        Ok(most)
    }

    fn sync_data(&self) -> io::Result<()> {
        match self.disk.begin(Operation::Sync)? {
            // As Linux does it: the dirty pages count as clean from now on, their new contents
            // stay visible, and the next sync has nothing to do and says that all is well.
            (mut state, Some(Fault::Error(code))) => {
                state.image.forget_unsynced(self.inode);
                Err(io::Error::from_raw_os_error(code))
            }
            (state, _) if state.lies => Ok(()),
            (mut state, _) => {
                state.image.sync(self.inode);
                Ok(())
            }
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.begin(Operation::Read)?.0.image.len(self.inode))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let (mut state, _) = self.disk.begin(Operation::SetLen)?;
        state.make_room(len.saturating_sub(state.image.len(self.inode)))?;
        state.image.set_len(self.inode, len);
        Ok(())
    }
}

#[derive(Debug)]
struct SimLock {
    disk: SimDisk,
    path: PathBuf,
}

impl DiskLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.lock().locks.remove(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(disk: &SimDisk, path: &str) -> Option<Vec<u8>> {
        let found = disk.files().into_iter().find(|(name, _)| name == Path::new(path));
        found.map(|(_, bytes)| bytes)
    }

    /// A disk with `/d/file`, durable, which holds two sectors of ones.
    fn disk() -> (SimDisk, Arc<dyn DiskFile>) {
        let disk = SimDisk::new();
        disk.put_file(Path::new("/d/file"), &[1; 1024]);
        let file = disk.open(Path::new("/d/file"), Access::ReadWrite).expect("it is there");
        (disk, file)
    }

    #[test]
    fn a_cut_keeps_any_subset_of_the_sectors_and_every_subset_happens() {
        let mut outcomes = BTreeSet::new();
        for seed in 0..200 {
            let (disk, file) = disk();
            file.write_at(&[2; 1024], 0).expect("a healthy disk");
            let left = read(&disk.power_cut(seed), "/d/file").expect("its name was durable");
            assert!(file.read_at(&mut [0], 0).is_err(), "the old disk is dead");
            assert!(left.chunks(512).all(|sector| sector == [1; 512] || sector == [2; 512]));
            outcomes.insert((left[0], left[512]));
        }
        assert_eq!(outcomes.len(), 4);
    }

    #[test]
    fn what_was_synced_stays_and_what_was_not_may_have_been_any_of_its_contents() {
        let mut outcomes = BTreeSet::new();
        for seed in 0..200 {
            let (disk, file) = disk();
            file.write_at(&[2; 512], 0).expect("a healthy disk");
            file.sync_data().expect("a healthy disk");
            file.write_at(&[3; 512], 0).expect("a healthy disk");
            file.write_at(&[4; 512], 0).expect("a healthy disk");
            outcomes.insert(read(&disk.power_cut(seed), "/d/file").expect("a file")[0]);
        }
        assert_eq!(outcomes, BTreeSet::from([2, 3, 4]));
    }

    #[test]
    fn names_are_durable_only_when_their_directory_was_synced() {
        let rename = |synced: bool| {
            let (disk, _) = disk();
            disk.rename(Path::new("/d/file"), Path::new("/d/new")).expect("it is there");
            if synced {
                disk.sync_dir(Path::new("/d")).expect("a healthy disk");
            }
            let outcomes = (0..200).map(|seed| {
                let left = SimDisk::from_image(disk.image().after_power_cut(seed));
                (read(&left, "/d/file").is_some(), read(&left, "/d/new").is_some())
            });
            outcomes.collect::<BTreeSet<_>>()
        };
        assert_eq!(rename(false).len(), 4, "either name, both, or none");
        assert_eq!(rename(true), BTreeSet::from([(false, true)]));
    }

    #[test]
    fn a_failed_sync_loses_for_good_what_it_was_to_make_durable() {
        let (disk, file) = disk();
        file.write_at(&[2; 512], 0).expect("a healthy disk");
        disk.inject(Operation::Sync, 1, Fault::Error(Fault::IO));
        assert_eq!(file.sync_data().map_err(|error| error.raw_os_error()), Err(Some(Fault::IO)));
        file.sync_data().expect("the second sync claims that all is well");
        assert_eq!(read(&disk, "/d/file").expect("a file")[0], 2, "visible");
        assert_eq!(read(&disk.power_cut(2), "/d/file").expect("a file")[0], 1, "and gone");
    }

    #[test]
    fn one_seed_gives_one_outcome() {
        let (disk, file) = disk();
        file.write_at(&[2; 4000], 100).expect("a healthy disk");
        for seed in 0..50 {
            let cut = || SimDisk::from_image(disk.image().after_power_cut(seed)).files();
            assert_eq!(cut(), cut());
        }
    }
}
