//! Everything that a power cut may leave, one outcome after another.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::{Image, Inode, InodeId, SECTOR_BYTES, Sector, put_sector};

/// All outcomes of a power cut: each name that its directory does not hold durably is there or
/// not, each file has any of its lengths, each sector any of its contents, independently of all
/// others. Sectors that have one possible content only do not count.
#[derive(Debug)]
pub struct Outcomes {
    image: Image,
    worlds: Vec<World>,
}

/// One choice of the names, and what may stand behind them.
#[derive(Debug)]
struct World {
    names: BTreeMap<PathBuf, InodeId>,
    files: Vec<(InodeId, Vec<Shape>)>,
}

/// A file of one length.
#[derive(Debug)]
struct Shape {
    len: usize,
    sectors: Vec<(u64, Vec<Sector>)>,
}

/// With more names than this in doubt, the outcomes are beyond counting.
const NAMES_MAX: usize = 12;

impl Outcomes {
    pub(super) fn of(image: &Image) -> Self {
        let paths: BTreeSet<&PathBuf> = image.live.keys().chain(image.durable.keys()).collect();
        let state = |path| (image.live.get(path).copied(), image.durable.get(path).copied());
        let (mut sure, mut doubtful) = (BTreeMap::new(), Vec::new());
        for path in paths {
            match state(path) {
                (Some(live), Some(durable)) if live == durable => {
                    sure.insert(path.clone(), live);
                }
                (live, durable) => doubtful.push((path, [live, durable])),
            }
        }
        let choices = if doubtful.len() > NAMES_MAX { 0 } else { 1_usize << doubtful.len() };
        let worlds = (0..choices).map(|choice| {
            let mut names = sure.clone();
            for (bit, (path, states)) in doubtful.iter().enumerate() {
                if let Some(inode) = states[choice >> bit & 1] {
                    names.insert((*path).clone(), inode);
                }
            }
            World::of(image, names)
        });
        Self { worlds: worlds.collect(), image: image.clone() }
    }

    /// How many there are, or `None` where that is beyond counting.
    pub fn count(&self) -> Option<u64> {
        let count = self.worlds.iter().try_fold(0, |sum: u64, it| sum.checked_add(it.count()?));
        count.filter(|count| *count > 0)
    }

    /// One of them.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn nth(&self, nth: u64) -> Image {
        let mut rest = nth;
        for world in &self.worlds {
            let count = world.count().expect("an outcome is asked for only where they are counted");
            match rest.checked_sub(count) {
                Some(more) => rest = more,
                None => return world.nth(rest, &self.image),
            }
        }
        panic!("there are fewer outcomes than {nth}");
    }
}

impl World {
    fn of(image: &Image, names: BTreeMap<PathBuf, InodeId>) -> Self {
        let inodes: BTreeSet<InodeId> = names.values().copied().collect();
        let files = inodes.into_iter().map(|it| (it, image.inodes[&it].shapes())).collect();
        Self { names, files }
    }

    fn count(&self) -> Option<u64> {
        self.files.iter().try_fold(1, |product: u64, (_, shapes)| {
            let sum = shapes.iter().try_fold(0, |sum: u64, it| sum.checked_add(it.count()?))?;
            product.checked_mul(sum)
        })
    }

    fn nth(&self, mut rest: u64, image: &Image) -> Image {
        let mut left = Image { next_inode: image.next_inode, ..Image::default() };
        left.dirs.clone_from(&image.dirs);
        left.live.clone_from(&self.names);
        left.durable.clone_from(&self.names);
        for (inode, shapes) in &self.files {
            let counts = shapes.iter().map(|it| it.count().expect("the world is counted"));
            let count: u64 = counts.clone().sum();
            let mut digit = rest % count;
            rest /= count;
            for (shape, count) in shapes.iter().zip(counts) {
                if digit < count {
                    let file = shape.nth(digit, &image.inodes[inode]);
                    left.inodes.insert(*inode, Arc::new(file));
                    break;
                }
                digit -= count;
            }
        }
        left
    }
}

impl Shape {
    fn count(&self) -> Option<u64> {
        let radices = self.sectors.iter().map(|(_, contents)| contents.len() as u64);
        radices.into_iter().try_fold(1, u64::checked_mul)
    }

    fn nth(&self, mut rest: u64, inode: &Inode) -> Inode {
        let mut bytes = inode.durable.clone();
        bytes.resize(self.len, 0);
        for (sector, contents) in &self.sectors {
            let digit = rest % contents.len() as u64;
            rest /= contents.len() as u64;
            put_sector(&mut bytes, *sector, &contents[digit as usize]);
        }
        Inode { live: bytes.clone(), durable: bytes, unsynced: BTreeMap::new() }
    }
}

impl Inode {
    /// What the file may look like after a power cut.
    fn shapes(&self) -> Vec<Shape> {
        let lens = BTreeSet::from([self.live.len(), self.durable.len()]);
        let shape = |len| {
            let begun = self.unsynced.iter().filter(|(sector, _)| start_of(**sector) < len);
            let sectors =
                begun.map(|(&sector, contents)| (sector, self.contents(sector, contents)));
            Shape { len, sectors: sectors.filter(|(_, contents)| contents.len() > 1).collect() }
        };
        lens.into_iter().map(shape).collect()
    }

    /// The durable content and those that came after it, each once.
    fn contents(&self, sector: u64, unsynced: &[Sector]) -> Vec<Sector> {
        let mut durable = [0; SECTOR_BYTES];
        let have = self.durable.get(start_of(sector)..).unwrap_or_default();
        let have = &have[..have.len().min(SECTOR_BYTES)];
        durable[..have.len()].copy_from_slice(have);
        let mut contents = vec![durable];
        for content in unsynced {
            if !contents.contains(content) {
                contents.push(*content);
            }
        }
        contents
    }
}

fn start_of(sector: u64) -> usize {
    sector as usize * SECTOR_BYTES
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use raft_storage::Disk;

    use super::*;
    use crate::disk::SimDisk;

    fn seen(image: Image) -> Vec<(PathBuf, Vec<u8>)> {
        image.files()
    }

    #[test]
    fn they_are_all_different_and_every_seeded_outcome_is_among_them() {
        let disk = SimDisk::new();
        disk.put_file(Path::new("/d/old"), &[1; 1024]);
        let file = disk.create(Path::new("/d/new")).expect("a healthy disk");
        file.write_at(&[2; 1200], 0).expect("a healthy disk");
        file.write_at(&[3; 512], 0).expect("a healthy disk");
        disk.rename(Path::new("/d/old"), Path::new("/d/moved")).expect("a healthy disk");

        let image = disk.image();
        let outcomes = Outcomes::of(&image);
        let count = outcomes.count().expect("few enough");
        // Without the new file one; with it, empty, or 3 contents of one sector and 2 of two.
        assert_eq!(count, 4 * (1 + 1 + 3 * 2 * 2));
        let all: BTreeSet<_> = (0..count).map(|nth| seen(outcomes.nth(nth))).collect();
        assert_eq!(all.len() as u64, count);
        let seeded: BTreeSet<_> = (0..6000).map(|it| seen(image.after_power_cut(it))).collect();
        assert!(seeded.is_subset(&all), "a seed chooses one of them");
        assert_eq!(seeded.len(), all.len(), "and every one has its seeds");
    }

    #[test]
    fn what_is_synced_has_one_outcome() {
        let disk = SimDisk::new();
        disk.put_file(Path::new("/d/old"), &[1; 1024]);
        let outcomes = Outcomes::of(&disk.image());
        assert_eq!(outcomes.count(), Some(1));
        assert_eq!(seen(outcomes.nth(0)), disk.files());
    }
}
