//! What a disk holds: live, durable, and everything in between.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

mod outcomes;

pub use outcomes::Outcomes;

const SECTOR_BYTES: usize = 512;
/// Some disks write so many sectors together.
const PAGE_SECTORS: u64 = 8;

pub(super) type InodeId = u64;
type Sector = [u8; SECTOR_BYTES];

/// A copy of a disk. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Image {
    inodes: BTreeMap<InodeId, Arc<Inode>>,
    next_inode: InodeId,
    dirs: BTreeSet<PathBuf>,
    live: BTreeMap<PathBuf, InodeId>,
    durable: BTreeMap<PathBuf, InodeId>,
}

/// A file.
#[derive(Clone, Debug, Default)]
struct Inode {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// The contents that a sector has had since it was synced, oldest first.
    unsynced: BTreeMap<u64, Vec<Sector>>,
}

/// How a power cut treats the sectors that were not synced.
#[derive(Clone, Copy, Debug)]
enum Mode {
    None,
    All,
    Sectors,
    Pages,
    /// Those before a certain one.
    Before(u64),
    /// Those from a certain one on.
    From(u64),
    /// All but one.
    Except(u64),
}

impl Image {
    /// What is left after a power cut. The seed decides what.
    #[must_use]
    pub fn after_power_cut(&self, seed: u64) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut left = Self { next_inode: self.next_inode, ..Self::default() };
        left.dirs.clone_from(&self.dirs);
        let paths: BTreeSet<&PathBuf> = self.live.keys().chain(self.durable.keys()).collect();
        for path in paths {
            let (live, durable) = (self.live.get(path), self.durable.get(path));
            let inode = if live == durable || random.random() { live } else { durable };
            if let Some(&inode) = inode {
                left.live.insert(path.clone(), inode);
            }
        }
        left.durable.clone_from(&left.live);
        for inode in left.live.values() {
            let file = self.inodes[inode].after_power_cut(seed, &mut random);
            left.inodes.insert(*inode, Arc::new(file));
        }
        left
    }

    /// Everything that may be left after a power cut.
    pub fn outcomes(&self) -> Outcomes {
        Outcomes::of(self)
    }

    pub(super) fn inode(&self, path: &Path) -> io::Result<InodeId> {
        self.live.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn create(&mut self, path: &Path) -> io::Result<InodeId> {
        let parent = path.parent().unwrap_or(Path::new(""));
        if !self.dirs.contains(parent) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if let Ok(inode) = self.inode(path) {
            self.set_len(inode, 0);
            return Ok(inode);
        }
        let inode = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(inode, Arc::default());
        self.live.insert(path.to_owned(), inode);
        Ok(inode)
    }

    pub(super) fn rename(&mut self, source: &Path, target: &Path) -> io::Result<()> {
        let inode = self.live.remove(source).ok_or(io::ErrorKind::NotFound)?;
        self.live.insert(target.to_owned(), inode);
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.live.remove(path).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        if !self.dirs.contains(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let here = self.live.keys().filter(|path| path.parent() == Some(dir));
        let names = here.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
        Ok(names.collect())
    }

    pub(super) fn create_dir(&mut self, dir: &Path) {
        self.dirs.extend(dir.ancestors().map(Path::to_owned));
    }

    pub(super) fn sync_dir(&mut self, dir: &Path) {
        self.durable.retain(|path, _| path.parent() != Some(dir));
        let here = self.live.iter().filter(|(path, _)| path.parent() == Some(dir));
        self.durable.extend(here.map(|(path, inode)| (path.clone(), *inode)));
    }

    pub(super) fn len(&self, inode: InodeId) -> u64 {
        self.inodes[&inode].live.len() as u64
    }

    /// The bytes of all files that have a name.
    pub(super) fn bytes(&self) -> u64 {
        self.live.values().map(|inode| self.len(*inode)).sum()
    }

    pub(super) fn read(&self, inode: InodeId, buffer: &mut [u8], offset: u64) -> usize {
        let live = &self.inodes[&inode].live;
        let rest = live.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        count
    }

    pub(super) fn write(&mut self, inode: InodeId, buffer: &[u8], offset: u64) {
        self.inode_mut(inode).write(buffer, offset);
    }

    pub(super) fn set_len(&mut self, inode: InodeId, len: u64) {
        let inode = self.inode_mut(inode);
        inode.live.resize(len as usize, 0);
        inode.unsynced.retain(|sector, _| sector * (SECTOR_BYTES as u64) < len);
    }

    pub(super) fn sync(&mut self, inode: InodeId) {
        self.inode_mut(inode).sync();
    }

    pub(super) fn forget_unsynced(&mut self, inode: InodeId) {
        self.inode_mut(inode).unsynced.clear();
    }

    pub(super) fn corrupt(&mut self, path: &Path, offset: u64, change: impl Fn(u8) -> u8) {
        let inode = self.inode(path).expect("the file that is to be damaged exists");
        let inode = self.inode_mut(inode);
        for bytes in [&mut inode.live, &mut inode.durable] {
            if let Some(byte) = bytes.get_mut(offset as usize) {
                *byte = change(*byte);
            }
        }
    }

    pub(super) fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let files = self.live.iter();
        files.map(|(path, inode)| (path.clone(), self.inodes[inode].live.clone())).collect()
    }

    pub(super) fn put(&mut self, path: &Path, bytes: &[u8]) {
        let dir = path.parent().unwrap_or(Path::new(""));
        self.create_dir(dir);
        let inode = self.create(path).expect("its directory was made");
        self.write(inode, bytes, 0);
        self.sync(inode);
        self.sync_dir(dir);
    }

    fn inode_mut(&mut self, inode: InodeId) -> &mut Inode {
        let inode = self.inodes.get_mut(&inode).expect("an open file has an inode");
        Arc::make_mut(inode)
    }
}

impl Inode {
    fn write(&mut self, buffer: &[u8], offset: u64) {
        let (start, end) = (offset as usize, offset as usize + buffer.len());
        if self.live.len() < end {
            self.live.resize(end, 0);
        }
        self.live[start..end].copy_from_slice(buffer);
        for sector in start / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES) {
            let content = sector_of(&self.live, sector as u64);
            self.unsynced.entry(sector as u64).or_default().push(content);
        }
    }

    fn sync(&mut self) {
        self.durable.resize(self.live.len(), 0);
        for (sector, contents) in std::mem::take(&mut self.unsynced) {
            if let Some(content) = contents.last() {
                put_sector(&mut self.durable, sector, content);
            }
        }
    }

    fn after_power_cut(&self, seed: u64, random: &mut Pcg64Mcg) -> Self {
        let len = if random.random() { self.live.len() } else { self.durable.len() };
        let mode = self.mode(seed, random);
        let mut left = self.durable.clone();
        left.resize(len, 0);
        let mut page = (u64::MAX, false);
        for (number, (&sector, contents)) in (0..).zip(&self.unsynced) {
            if page.0 != sector / PAGE_SECTORS {
                page = (sector / PAGE_SECTORS, random.random());
            }
            let kept = match mode {
                Mode::None => false,
                Mode::All => true,
                Mode::Sectors => random.random(),
                Mode::Pages => page.1,
                Mode::Before(limit) => number < limit,
                Mode::From(limit) => number >= limit,
                Mode::Except(lost) => number != lost,
            };
            if kept {
                // Mostly the newest content; but an older one may be what reached the disk.
                let newest = contents.len() - 1;
                let chosen = if random.random() { newest } else { random.random_range(0..=newest) };
                put_sector(&mut left, sector, &contents[chosen]);
            }
        }
        Self { live: left.clone(), durable: left, unsynced: BTreeMap::new() }
    }

    fn mode(&self, seed: u64, random: &mut impl Rng) -> Mode {
        let one = random.random_range(0..=self.unsynced.len() as u64);
        match seed % 7 {
            0 => Mode::Sectors,
            1 => Mode::None,
            2 => Mode::All,
            3 => Mode::Pages,
            4 => Mode::Before(one),
            5 => Mode::From(one),
            _ => Mode::Except(one),
        }
    }
}

fn sector_of(bytes: &[u8], sector: u64) -> Sector {
    let start = sector as usize * SECTOR_BYTES;
    let mut content = [0; SECTOR_BYTES];
    let have = &bytes[start..bytes.len().min(start + SECTOR_BYTES)];
    content[..have.len()].copy_from_slice(have);
    content
}

/// Writes a sector, as far as the file reaches.
fn put_sector(bytes: &mut [u8], sector: u64, content: &Sector) {
    let start = (sector as usize * SECTOR_BYTES).min(bytes.len());
    let end = bytes.len().min(start + SECTOR_BYTES);
    bytes[start..end].copy_from_slice(&content[..end - start]);
}
