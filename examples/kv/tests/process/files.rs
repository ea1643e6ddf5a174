//! Files that are not as a node left them. It says which and where, and changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tokio::time::sleep;

use crate::kit::{Client, Node, command, rounds, run_to_end, seed, until};
use crate::refusals::{alone, assert_kept, assert_refused, started};

/// What is in the log's directory, but for what is not part of the log.
fn image(raft: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(raft).expect("a directory").map(|entry| entry.expect("read").path());
    entries
        .filter(|path| !path.ends_with("next.tmp"))
        .map(|path| (path.clone(), fs::read(&path).expect("read")))
        .collect()
}

pub(crate) fn segment(raft: &Path) -> PathBuf {
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "wal");
    image(raft).into_keys().find(is_segment).expect("a segment")
}

pub(crate) fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).expect("read");
    change(&mut bytes);
    fs::write(path, bytes).expect("written");
}

/// Says format 999 in the first bytes of a file, as a version to come will.
pub(crate) fn make_newer(bytes: &mut [u8]) {
    bytes[8..12].copy_from_slice(&999_u32.to_le_bytes());
    let check = crc32c::crc32c(&bytes[..12]).to_le_bytes();
    bytes[12..16].copy_from_slice(&check);
}

/// Puts back what was there.
fn restore(raft: &Path, whole: &BTreeMap<PathBuf, Vec<u8>>) {
    for path in image(raft).keys().filter(|path| !whole.contains_key(*path)) {
        fs::remove_file(path).expect("removed");
    }
    for (path, bytes) in whole {
        fs::write(path, bytes).expect("written");
    }
}

/// Refused are files of a version to come, a directory that does not say whose it is, and a log
/// that may have lost a vote.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn files_that_cannot_be_understood_are_refused_and_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut node = started(alone(&dir, "node")).await;
    node.kill();
    let raft = node.serve.data_dir.join("raft");
    let whole = image(&raft);
    let metas = ["meta.0", "meta.1", "meta.2"].map(|name| raft.join(name));

    let refuse = |what: &str, expected: &[&str]| {
        println!("{what}");
        let changed = image(&raft);
        assert_ne!(changed, whole, "{what}");
        assert_refused(&node.serve, 1, expected);
        assert_eq!(image(&raft), changed, "{what}: the refusal changed something");
        restore(&raft, &whole);
    };
    change(&segment(&raft), |bytes| make_newer(bytes));
    refuse("a newer segment", &["has format 999", "newer version"]);
    metas.iter().for_each(|meta| change(meta, |bytes| make_newer(bytes)));
    refuse("a newer meta file", &["has format 999", "newer version"]);
    metas.iter().for_each(|meta| change(meta, |bytes| bytes[40] ^= 1));
    refuse("no identity", &["no copy of its identity", "meta.0", "anew"]);

    let lost = ["is damaged at byte 0", "corruption", "newest vote", "member replace"];
    let wal = segment(&raft);
    change(&wal, |bytes| bytes.fill(0xa5));
    refuse("garbage", &lost);
    change(&wal, |bytes| bytes.truncate(4096));
    refuse("a short file", &lost);
    fs::remove_file(&wal).expect("removed");
    refuse("no segment", &lost);

    // Two copies of three may go: that is what they are for.
    metas[1..].iter().for_each(|meta| fs::remove_file(meta).expect("removed"));
    node.start();
    assert_kept(&node).await;
}

/// A node that is alone has nobody to repair its log. It says what it lacks, and serves nothing,
/// until somebody puts the files back.
// scenario B64
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_damaged_log_that_nobody_can_repair_serves_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut node = started(alone(&dir, "node")).await;
    node.kill();
    let raft = node.serve.data_dir.join("raft");
    let whole = image(&raft);
    change(&segment(&raft), |bytes| bytes[512 + 100] ^= 1);
    // Twice: it does not forget what it lacks.
    for _ in 0..2 {
        node.start();
        assert_serves_nothing(&node).await;
        node.kill();
    }
    let data_dir = format!("--data-dir={}", node.serve.data_dir.display());
    let forced = ["recover", "--force-new-cluster", &data_dir, "--accept-that-data-may-be-lost"];
    let output = run_to_end(command().args(forced));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("is damaged") && said.contains("another member"), "{said}");

    restore(&raft, &whole);
    node.start();
    assert_kept(&node).await;
}

async fn assert_serves_nothing(node: &Node) {
    let mut client = Client::new(node.serve.client_port).within(Duration::from_secs(1));
    let status = until("it answers for itself", async || client.status().await.ok()).await;
    let says = |part: &str| status.errors.iter().any(|error| error.contains(part));
    assert!(says("the log was damaged") && says("no leader"), "{status:?}");
    let read = client.get("kept").await;
    assert!(read.is_err(), "served as if nothing had happened: {read:?}");
    let said = node.log();
    assert!(said.contains("is damaged at byte 512") && said.contains("does not stand"), "{said}");
}

/// There is no room for what a node says of itself, as on a disk that is full. It goes on, and
/// ends with the code that it should.
// scenario B67
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_that_nobody_can_hear_serves_all_the_same() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        println!("skipped: there is no {}", full.display());
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let serve = alone(&dir, "node");
    std::os::unix::fs::symlink(full, serve.data_dir.with_extension("log")).expect("a link");
    let mut node = started(serve).await;
    assert_eq!(node.stop(), Some(0));
    node.start();
    assert_kept(&node).await;
    assert_eq!(node.stop(), Some(0));

    let stderr = || fs::File::options().write(true).open(full).expect("opened");
    change(&segment(&node.serve.data_dir.join("raft")), |bytes| make_newer(bytes));
    let ended = command().args(node.serve.args()).stderr(stderr()).status().expect("it runs");
    assert_eq!(ended.code(), Some(1));
}

/// A node that dies before it was ever ready leaves nothing that a later start could not use.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_first_start_may_be_cut_short_anywhere() {
    const LONGEST_MS: u64 = 200;
    let mut random = Pcg64Mcg::seed_from_u64(seed());
    let dir = tempfile::tempdir().expect("a directory");
    let mut node = Node::new(alone(&dir, "node"));
    for round in 0..rounds(12) {
        for _ in 0..random.random_range(1..3) {
            node.start();
            sleep(Duration::from_millis(random.random_range(0..LONGEST_MS))).await;
            node.kill();
        }
        node.start();
        println!("round {round}");
        Client::new(node.serve.client_port).put_surely("kept", "value").await;
        node.kill();
        fs::remove_dir_all(&node.serve.data_dir).expect("removed");
    }
}

/// Without the log the promises of the node are forgotten, whatever its store says.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_store_without_its_log_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut node = started(alone(&dir, "node")).await;
    assert_eq!(node.stop(), Some(0));
    let raft = node.serve.data_dir.join("raft");
    let away = dir.path().join("away");
    fs::rename(&raft, &away).expect("moved");
    assert_refused(&node.serve, 1, &["but no log in", "put its log back"]);
    assert!(!raft.exists(), "a new log was made");
    fs::rename(&away, &raft).expect("moved back");
    node.start();
    assert_kept(&node).await;
}

/// A store that cannot be read is refused too, and comes back from the log when it is moved away.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_store_that_is_damaged_is_refused_and_can_be_built_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut node = started(alone(&dir, "node")).await;
    assert_eq!(node.stop(), Some(0));
    let store = node.serve.data_dir.join("store");
    change(&store.join("version"), |bytes| *bytes = b"garbage".to_vec());
    assert_refused(&node.serve, 1, &["cannot open the store in", "moved away"]);
    fs::rename(&store, dir.path().join("away")).expect("moved");
    node.start();
    assert_kept(&node).await;
}

/// A log from an older copy than the store: the store has seen what the log does not hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_log_older_than_its_store_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut node = started(alone(&dir, "node")).await;
    assert_eq!(node.stop(), Some(0));
    let raft = node.serve.data_dir.join("raft");
    let old = image(&raft);
    node.start();
    write_until_flushed(&node).await;
    node.kill();
    fs::remove_dir_all(&raft).expect("removed");
    fs::create_dir(&raft).expect("made");
    for (path, bytes) in &old {
        fs::write(path, bytes).expect("written");
    }
    assert_refused(&node.serve, 1, &["the log ends at index", "put back the missing files"]);
}

/// Writes until some of it is in the store's own files for good: more than one flush is there,
/// and the last one may not be complete.
pub(crate) async fn write_until_flushed(node: &Node) {
    const VALUE_BYTES: usize = 1 << 20;
    const FLUSH_BYTES: u64 = 12 << 20;
    let mut client = Client::new(node.serve.client_port);
    let tables = node.serve.data_dir.join("store/keyspaces");
    for number in 0.. {
        if bytes_below(&tables) > 2 * FLUSH_BYTES {
            break;
        }
        // Nothing that could be packed.
        let mut value = vec![0; VALUE_BYTES];
        Pcg64Mcg::seed_from_u64(number).fill_bytes(&mut value);
        client.put_surely("more", value).await;
    }
}

fn bytes_below(path: &Path) -> u64 {
    // A file may go while it is looked at.
    let Ok(entries) = fs::read_dir(path) else {
        return fs::metadata(path).map_or(0, |metadata| metadata.len());
    };
    entries.filter_map(|entry| Some(bytes_below(&entry.ok()?.path()))).sum()
}
