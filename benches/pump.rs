//! Three cores in one thread, in memory: what the state machine itself costs an entry.
//! `cargo bench --bench pump`, or with `-- --smoke` in a moment. The rules are those of
//! `raft_benchkit::Pump`.

use raft_benchkit::{Cores, Counting, Effort, Round, SHAPES, Table, interleave};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let effort = Effort::from_args();
    let mut table = Table::new([
        "entries a proposal",
        "bytes an entry",
        "ns/entry",
        "fastest",
        "allocations/entry",
        "B allocated/entry",
        "payload B copied/entry",
    ]);
    for shape in SHAPES {
        let mut cores = Cores::new(shape);
        let warm_up = 2 * shape.kept_entries().div_ceil(shape.entries) as u64;
        let [ours] = interleave(effort, warm_up, [&mut |count| Round::of(&mut cores, count)]);
        table.row([
            shape.entries.to_string(),
            shape.bytes.to_string(),
            format!("{:.1}", ours.median_ns),
            format!("{:.1}", ours.min_ns),
            format!("{:.4}", ours.allocations),
            format!("{:.1}", ours.allocated_bytes),
            format!("{:.1}", ours.copied_bytes),
        ]);
    }
    println!("three cores, one thread, until all three have applied:\n{table}");
}
