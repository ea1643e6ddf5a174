//! Our log beside the disk itself: what is left of the speed of raw writes, at the same number of
//! bytes and one sync for each batch. `cargo bench --bench wal`, or with `-- --smoke` in a
//! moment. Set `BENCH_DIR` to measure another disk than that of the temporary directory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use raft_benchkit::{BATCHES, Counting, Effort, Journal, RawFile, Table, interleave};
use raft_core::{Membership, NodeId};
use raft_storage::{
    Access, Disk, DiskFile, DiskLock, Identity, Options, Preparation, RealDisk, Wal,
};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How many batches are counted: few enough that the log's first segment holds them.
const COUNTED: u64 = 4;

fn main() {
    let effort = Effort::from_args().on_disk();
    let base = std::env::var_os("BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let mut table = Table::new([
        "entries a batch",
        "B a batch",
        "ours µs",
        "raw µs",
        "raw/ours",
        "of fastest rounds",
        "allocations/batch",
    ]);
    for batch in BATCHES {
        let dir = tempfile::tempdir_in(&base).expect("a directory for the logs");
        let path = |name| dir.path().join(name);
        let bytes = batch_bytes(&path("counted"), batch);
        let mut ours = Journal::new(create(&path("ours"), &Options::default()), batch);
        let mut raw = RawFile::new(&path("raw"), bytes).expect("the disk works");
        let sides: [&mut dyn FnMut(u64) -> _; 2] =
            [&mut |count| ours.round(count), &mut |count| raw.round(count)];
        let [ours, raw] = interleave(effort, 16, sides);
        table.row([
            batch.to_string(),
            bytes.to_string(),
            format!("{:.1}", ours.median_ns / 1e3),
            format!("{:.1}", raw.median_ns / 1e3),
            format!("{:.3}", raw.median_ns / ours.median_ns),
            format!("{:.3}", raw.min_ns / ours.min_ns),
            format!("{:.3}", ours.allocations),
        ]);
    }
    println!("one write and one sync a batch, 256 bytes an entry, in {}:\n{table}", base.display());
}

fn create(dir: &Path, options: &Options) -> Wal {
    let node_id = NodeId::new(1).expect("not zero");
    let identity = Identity { cluster_id: 1, node_id, incarnation: 1 };
    let membership = Membership::new([node_id]).expect("not empty");
    Wal::create(dir, identity, &membership, options).expect("an empty directory").0
}

/// How many bytes our log writes for a batch, counted where they reach the disk.
fn batch_bytes(dir: &Path, batch: usize) -> usize {
    let written = Arc::new(AtomicU64::new(0));
    let disk = Arc::new(Metered { written: Arc::clone(&written) });
    let preparation = Preparation::Inline; // Nobody else writes meanwhile.
    let options = Options { preparation, ..Options::on(disk) };
    let mut journal = Journal::new(create(dir, &options), batch);
    let before = written.load(Ordering::Relaxed);
    journal.round(COUNTED);
    ((written.load(Ordering::Relaxed) - before) / COUNTED) as usize
}

/// The disk of the operating system, with a meter for what is written.
#[derive(Debug)]
struct Metered {
    written: Arc<AtomicU64>,
}

#[derive(Debug)]
struct MeteredFile {
    file: Arc<dyn DiskFile>,
    written: Arc<AtomicU64>,
}

impl Metered {
    fn meter(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(MeteredFile { file, written: Arc::clone(&self.written) })
    }
}

impl Disk for Metered {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        RealDisk.open(path, access).map(|file| self.meter(file))
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        RealDisk.create(path).map(|file| self.meter(file))
    }
    fn rename(&self, source: &Path, target: &Path) -> io::Result<()> {
        RealDisk.rename(source, target)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        RealDisk.list(dir)
    }
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.create_dir(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        RealDisk.lock(path)
    }
}

impl DiskFile for MeteredFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
    fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        let count = self.file.write_at(buffer, offset)?;
        self.written.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
}
