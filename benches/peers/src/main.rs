//! Kontiki beside its rivals, in one process and in rounds that take turns.
//! `cargo run --release --manifest-path benches/peers/Cargo.toml`, with `-- --smoke` in a moment.

mod raft_rs;

use raft_benchkit::{Cores, Counting, Effort, Figures, Round, SHAPES, Table, interleave};
use raft_rs::{CommitNews, RaftRs};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    pump(Effort::from_args());
}

/// Three cores in one thread: see `raft_benchkit::Pump` for the rules.
fn pump(effort: Effort) {
    let mut table = Table::new([
        "entries a proposal",
        "bytes an entry",
        "ours ns/entry",
        "raft-rs",
        "ratio",
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
