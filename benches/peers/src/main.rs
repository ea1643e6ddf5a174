//! Kontiki beside its rivals, in one process and in rounds that take turns.
//! `cargo run --release --manifest-path benches/peers/Cargo.toml`, with `-- --smoke` in a moment,
//! and with `-- pump` or `-- wal` for a part of it. Set `BENCH_DIR` to measure another disk than
//! that of the temporary directory.

mod raft_engine_log;
mod raft_rs;

use std::path::{Path, PathBuf};

use raft_benchkit::{
    BATCHES, Cores, Counting, Effort, Figures, Journal, Round, SHAPES, Table, interleave,
};
use raft_core::{Membership, NodeId};
use raft_engine_log::RaftEngineLog;
use raft_rs::{CommitNews, RaftRs};
use raft_storage::{Identity, Options, Wal};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let parts: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--smoke").collect();
    let is_wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    if is_wanted("pump") {
        pump(Effort::from_args());
    }
    if is_wanted("wal") {
        wal(Effort::from_args().on_disk());
    }
}

/// Three cores in one thread: see `raft_benchkit::Pump` for the rules.
fn pump(effort: Effort) {
    let mut table = Table::new([
        "entries a proposal",
        "bytes an entry",
        "ours ns/entry",
        "raft-rs",
        "ratio",
        "of fastest rounds",
        "ours allocations/entry",
        "raft-rs",
        "ours B allocated/entry",
        "raft-rs",
        "ours payload B copied/entry",
        "raft-rs",
    ]);
    for shape in SHAPES {
        let mut ours = Cores::new(shape);
        let mut appends = RaftRs::new(shape, CommitNews::Appends);
        let mut heartbeats = RaftRs::new(shape, CommitNews::Heartbeats);
        let warm_up = 2 * shape.kept_entries().div_ceil(shape.entries) as u64;
        let [ours, appends, heartbeats] = interleave(
            effort,
            warm_up,
            [
                &mut |count| Round::of(&mut ours, count),
                &mut |count| Round::of(&mut appends, count),
                &mut |count| Round::of(&mut heartbeats, count),
            ],
        );
        let theirs = faster(appends, heartbeats);
        table.row([
            shape.entries.to_string(),
            shape.bytes.to_string(),
            format!("{:.1}", ours.median_ns),
            format!("{:.1}", theirs.median_ns),
            format!("{:.2}", ours.median_ns / theirs.median_ns),
            format!("{:.2}", ours.min_ns / theirs.min_ns),
            format!("{:.4}", ours.allocations),
            format!("{:.4}", theirs.allocations),
            format!("{:.0}", ours.allocated_bytes),
            format!("{:.0}", theirs.allocated_bytes),
            format!("{:.0}", ours.copied_bytes),
            format!("{:.0}", theirs.copied_bytes),
        ]);
    }
    println!("three cores, one thread, until all three have applied:\n{table}");
}

fn faster(one: Figures, other: Figures) -> Figures {
    if one.median_ns <= other.median_ns { one } else { other }
}

/// Batches of entries, each written and synced: see `raft_benchkit::Journal` for the rules.
fn wal(effort: Effort) {
    let base = std::env::var_os("BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let mut table = Table::new([
        "entries a batch",
        "ours µs",
        "raft-engine",
        "ratio",
        "of fastest rounds",
        "ours allocations/batch",
        "raft-engine",
    ]);
    for batch in BATCHES {
        let dir = tempfile::tempdir_in(&base).expect("a directory for the logs");
        let mut ours = Journal::new(create(&dir.path().join("ours")), batch);
        let mut theirs = RaftEngineLog::new(&dir.path().join("theirs"), batch);
        let sides: [&mut dyn FnMut(u64) -> _; 2] =
            [&mut |count| ours.round(count), &mut |count| theirs.round(count)];
        let [ours, theirs] = interleave(effort, 16, sides);
        table.row([
            batch.to_string(),
            format!("{:.1}", ours.median_ns / 1e3),
            format!("{:.1}", theirs.median_ns / 1e3),
            format!("{:.2}", ours.median_ns / theirs.median_ns),
            format!("{:.2}", ours.min_ns / theirs.min_ns),
            format!("{:.2}", ours.allocations),
            format!("{:.2}", theirs.allocations),
        ]);
    }
    println!("one write and one sync a batch, 256 bytes an entry, in {}:\n{table}", base.display());
}

fn create(dir: &Path) -> Wal {
    let node_id = NodeId::new(1).expect("not zero");
    let identity = Identity { cluster_id: 1, node_id, incarnation: 1 };
    let membership = Membership::new([node_id]).expect("not empty");
    Wal::create(dir, identity, &membership, &Options::default()).expect("an empty directory").0
}
