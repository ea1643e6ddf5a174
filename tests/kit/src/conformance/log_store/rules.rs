//! The rules one by one, each shown by as little as it takes.

use std::sync::Arc;

use raft_core::{Entry, Index, LogReader, LogStore, Membership, Payload, Term};

use super::bench::Bench;
use super::{Failure, Figures, Harness, Rule, Stranger, Violation};
use crate::conformance::writes::{at, command, cut, entries, founders, hard, mark, node};

type Verdict = Result<(), Violation>;
type Show<H> = fn(&mut Bench<'_, H>) -> Verdict;

pub(super) fn check<H: Harness>(harness: &H, figures: &mut Figures) -> Verdict {
    let rules: [(Rule, Show<H>); 15] = [
        (Rule::FirstStart, first_start),
        // The others stand on these.
        (Rule::RecoveredTwice, recovered_twice),
        (Rule::Durable, durable),
        (Rule::Reading, reading),
        (Rule::AsWritten, as_written),
        (Rule::Truncation, truncation),
        (Rule::Order, order),
        (Rule::HardState, hard_state),
        (Rule::Members, members),
        (Rule::Marks, marks),
        (Rule::BeforeBase, before_base),
        (Rule::Closed, closed),
        (Rule::Poisoned, |bench| poisoned(bench, Failure::Write)),
        (Rule::Poisoned, |bench| poisoned(bench, Failure::Sync)),
        (Rule::Identity, identity),
    ];
    rules.into_iter().try_for_each(|(rule, show)| {
        let mut bench = Bench::new(harness, figures, rule, None)?;
        show(&mut bench)
    })
}

fn some(first: u64, last: u64, term: u64) -> Vec<Entry> {
    (first..=last).map(|at| command(at, term, format!("{at} of {term}").as_bytes())).collect()
}

/// That it is empty was found when it was made.
fn first_start<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    bench.restart()
}

fn as_written<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    let sizes = [0, 1, 7, 8, 504, 511, 512, 513, 4095, 4096, 100_000, 3 << 20];
    for (index, size) in (1..).zip(sizes) {
        bench.write(&[entries([command(index, 1, &vec![index as u8; size])])])?;
    }
    let empty = Entry { index: Index(13), term: Term(1), payload: Payload::Empty };
    let zeros = command(14, 1, &[0; 5000]);
    bench.write(&[entries([empty, zeros])])?;
    bench.write(&[entries(some(15, 1014, 2))])?;
    for index in 1015..=1064 {
        bench.write(&[entries(some(index, index, 2))])?;
    }
    bench.write(&[])?;
    bench.write(&[entries([]), entries([])])?;
    bench.holds()?;
    bench.restart()
}

fn order<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    bench.write(&[
        entries(some(1, 4, 1)),
        hard(2, Some(1), 1),
        cut(2, some(3, 3, 2)),
        entries(some(4, 5, 2)),
        hard(3, None, 2),
        cut(4, []),
        entries(some(5, 5, 3)),
    ])?;
    bench.holds()?;
    bench.restart()
}

fn truncation<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    bench.write(&[entries(some(1, 6, 1))])?;
    for write in [cut(4, some(5, 5, 2)), cut(5, []), cut(3, []), entries(some(4, 4, 3)), cut(0, [])]
    {
        bench.write(&[write])?;
        let model = bench.model.clone();
        for first in 1..=model.last() {
            read(bench, Rule::Truncation, first, 9, usize::MAX)?;
        }
        bench.cut_now(Rule::Truncation, 4)?;
        bench.restart()?;
    }
    bench.write(&[entries(some(1, 2, 4))])?;
    bench.restart()
}

fn hard_state<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    let with_entries =
        raft_core::Write { hard_state: hard(3, None, 0).hard_state, ..entries(some(1, 3, 3)) };
    let writes = [
        hard(1, None, 0),
        hard(1, Some(2), 0),
        hard(2, Some(3), 0),
        with_entries,
        entries(some(4, 4, 3)),
        hard(3, None, 2),
        hard(3, Some(1), 4),
        cut(4, []),
    ];
    for write in writes {
        bench.write(&[write])?;
        bench.cut_now(Rule::HardState, 3)?;
        bench.restart()?;
    }
    Ok(())
}

fn group(voters: u64) -> Arc<Membership> {
    Arc::new(Membership::new((1..=voters).map(node)).expect("it has voters"))
}

fn membership(index: u64, term: u64, voters: u64) -> Entry {
    let payload = Payload::Membership(group(voters));
    Entry { index: Index(index), term: Term(term), payload }
}

fn members<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    let more = [command(3, 1, b"three"), membership(4, 1, 5)];
    let writes = [
        entries([command(1, 1, b"one"), membership(2, 1, 4)]),
        entries(more),
        cut(3, [command(4, 2, b"four")]),
        entries([membership(5, 2, 6)]),
        cut(1, []),
    ];
    for write in writes {
        bench.write(&[write])?;
        bench.restart()?;
    }
    Ok(())
}

/// Reads, and compares with what a reader should give.
fn read<H: Harness>(
    bench: &mut Bench<'_, H>,
    rule: Rule,
    first: u64,
    last: u64,
    bytes_max: usize,
) -> Verdict {
    let already = command(99, 9, b"already there");
    let mut found = vec![already.clone()];
    let expected = bench.model.between(Index(first), Index(last), bytes_max).to_vec();
    let read = bench.store().reader().read(Index(first), Index(last), bytes_max, &mut found);
    let what = format!("a read of {first} to {last} in {bytes_max} bytes");
    read.map_err(|error| bench.broken(rule, format!("{what} failed: {error}")))?;
    if found.first() != Some(&already) {
        return Err(bench.broken(rule, format!("{what} has changed what was in the list")));
    }
    if found[1..] != expected {
        let told = |all: &[Entry]| all.iter().map(Entry::position).collect::<Vec<_>>();
        let (found, expected) = (told(&found[1..]), told(&expected));
        let text = format!("{what} gives {found:?} instead of {expected:?}");
        return Err(bench.broken(rule, text));
    }
    Ok(())
}

fn reading<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    let all: Vec<_> = (1..=200).map(|index| command(index, 1, &[index as u8; 100])).collect();
    for batch in all.chunks(7) {
        bench.write(&[entries(batch.iter().cloned())])?;
    }
    let size = all[0].size_bytes();
    let big = usize::MAX;
    for _ in 0..2 {
        for (first, last, bytes_max) in [
            (1, 200, big),
            (5, 9, big),
            (200, 200, big),
            (190, 900, big),
            (100, 200, size * 50),
            (100, 200, size * 50 - 1),
            (100, 200, size * 50 + 1),
            (100, 200, 1),
            (100, 200, 0),
            (7, 8, 0),
        ] {
            read(bench, Rule::Reading, first, last, bytes_max)?;
        }
        bench.restart()?;
    }
    Ok(())
}

fn before_base<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    bench.write(&[hard(1, None, 9), entries(some(1, 9, 1))])?;
    let founders = (Index::ZERO, Arc::new(founders()));
    bench.write(&[mark(at(6, 1), at(4, 1), founders.clone())])?;
    for _ in 0..2 {
        for (first, last) in [(0, 0), (0, 9), (1, 9), (4, 4), (4, 9), (5, 9), (6, 6)] {
            read(bench, Rule::BeforeBase, first, last, usize::MAX)?;
        }
        bench.restart()?;
    }
    bench.write(&[mark(at(9, 1), at(9, 1), founders)])?;
    read(bench, Rule::BeforeBase, 9, 20, usize::MAX)
}

fn marks<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    let first = (Index::ZERO, Arc::new(founders()));
    let joined = (Index(7), group(4));
    bench.write(&[hard(1, None, 9), entries(some(1, 6, 1))])?;
    bench.write(&[entries([membership(7, 1, 4), command(8, 1, b""), command(9, 1, b"nine")])])?;
    let writes = [
        mark(at(5, 1), at(3, 1), first.clone()), // A tail is kept before its end.
        mark(at(6, 1), at(6, 1), first),         // None is.
        mark(at(8, 1), at(6, 1), joined.clone()), // A newer snapshot, the same base.
        entries(some(10, 11, 2)),
        mark(at(20, 2), at(20, 2), (Index(15), group(5))), // Beyond the end of the log.
        entries(some(21, 24, 3)),
        mark(at(22, 4), at(22, 4), (Index(21), group(6))), // Against what the log holds.
        entries(some(23, 23, 5)),
    ];
    for write in writes {
        bench.write(&[write])?;
        bench.holds()?;
        bench.cut_now(Rule::Marks, 4)?;
        bench.restart()?;
    }
    Ok(())
}

/// The last thing that was acknowledged is what a careless store loses.
fn durable<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    for index in 1..=12 {
        bench.write(&[entries(some(index, index, 1))])?;
        bench.write(&[hard(index + 1, Some(1), 0)])?;
        if !bench.cut_now(Rule::Durable, 14)? {
            bench.figures.left_out.insert(Rule::Durable);
        }
    }
    Ok(())
}

fn recovered_twice<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    bench.write(&[hard(1, Some(1), 0), entries(some(1, 5, 1))])?;
    for _ in 0..4 {
        bench.restart()?;
    }
    Ok(())
}

fn closed<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    for index in 1..=3 {
        bench.write(&[entries(some(index, index, 1)), hard(index, Some(2), 0)])?;
        let closed = bench.take_store().close();
        closed.map_err(|error| bench.broken(Rule::Closed, format!("closing failed: {error}")))?;
        bench.open(Rule::Closed)?;
    }
    Ok(())
}

fn poisoned<H: Harness>(bench: &mut Bench<'_, H>, failure: Failure) -> Verdict {
    bench.write(&[hard(1, Some(1), 0), entries(some(1, 2, 1))])?;
    if !bench.harness.fail_next(&bench.medium, failure) {
        bench.figures.left_out.insert(Rule::Poisoned);
        return Ok(());
    }
    let failed = [entries(some(3, 3, 1))];
    let allowed = bench.model.stages(&failed);
    for attempt in 0..4 {
        if bench.store().persist(&failed).is_ok() {
            let text =
                format!("{failure:?} failed, and call {attempt} from there on says all is well");
            return Err(bench.broken(Rule::Poisoned, text));
        }
    }
    bench.kill();
    let (store, found) = bench.recover(Rule::Poisoned, &bench.medium)?;
    bench.harness.kill(store);
    if !allowed.contains(&found) {
        let text = format!("after a failed {failure:?} it holds {found:?}");
        return Err(bench.broken(Rule::Poisoned, text));
    }
    // What was recovered is durable from then on, as the next start will take it for granted.
    bench.model = found;
    bench.open(Rule::Poisoned)?;
    bench.cut_now(Rule::Poisoned, 14).map(drop)
}

fn identity<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    bench.write(&[hard(1, Some(1), 0), entries(some(1, 2, 1))])?;
    bench.kill();
    for stranger in [Stranger::OtherCluster, Stranger::OtherNode, Stranger::OtherDisk] {
        match bench.harness.open_as(&bench.medium, stranger) {
            Some(Ok(())) => {
                let text = format!("it opens for {stranger:?}");
                return Err(bench.broken(Rule::Identity, text));
            }
            Some(Err(_)) => {}
            None => drop(bench.figures.left_out.insert(Rule::Identity)),
        }
    }
    bench.open(Rule::Identity)
}
