//! The rules one by one.

use super::bench::{Bench, Sample, UNREADABLE};
use super::{Figures, Harness, Rule, Violation};

type Verdict = Result<(), Violation>;
type Show<H> = fn(&mut Bench<'_, H>) -> Verdict;

pub(super) fn check<H: Harness>(harness: &H, figures: &mut Figures) -> Verdict {
    let rules: [(Rule, Show<H>); 10] = [
        (Rule::Empty, empty),
        (Rule::Whole, whole),
        (Rule::Newest, newest),
        (Rule::Unpublished, unpublished),
        (Rule::Durable, durable),
        (Rule::GivesWay, gives_way),
        (Rule::NotOffered, not_offered),
        (Rule::Resumed, resumed),
        (Rule::Retain, retain),
        (Rule::Damaged, damaged),
    ];
    rules.into_iter().try_for_each(|(rule, show)| {
        let mut bench = Bench::new(harness, figures, rule)?;
        show(&mut bench)
    })
}

fn empty<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    bench.serves_none()?;
    bench.restart()?;
    bench.serves_none()
}

fn whole<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    for (index, size) in (1..).zip([0, 1, 511, 512, 65_528, 65_536, 65_537, 200_000]) {
        bench.begin_anew()?;
        let sample = Sample::new(index, size);
        bench.build(&sample)?;
        bench.serves(&sample)?;
        let source = bench.newest()?.ok_or_else(|| bench.broken("it was there just now"))?;
        for piece in [1 << 20, 65_528, 4096, 997] {
            sample.compare(&*source, piece).map_err(|error| bench.broken(error))?;
        }
        let beyond = source.read_at(size as u64 + 5, &mut [0; 9]);
        if !matches!(beyond, Ok(0)) {
            return Err(bench.broken(format!("behind its end a read gives {beyond:?}")));
        }
        bench.mark(&sample.snapshot);
        bench.restart()?;
        bench.serves(&sample)?;
    }
    Ok(())
}

fn newest<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    for index in [3, 5, 40, 300] {
        let sample = Sample::new(index, 1000);
        bench.build_marked(&sample)?;
        bench.serves(&sample)?;
    }
    bench.restart()?;
    bench.serves(&Sample::new(300, 1000))
}

fn unpublished<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    let (old, new) = (Sample::new(3, 1000), Sample::new(5, 100_000));
    let given_up = |bench: &mut Bench<'_, H>| {
        let built = bench.store().build(&new.snapshot);
        let mut sink = built.map_err(|error| bench.broken(error.to_string()))?;
        bench.write(&mut *sink, &new.bytes)?;
        Ok(sink)
    };
    drop(given_up(bench)?);
    bench.serves_none()?;
    bench.build_marked(&old)?;
    let sink = given_up(bench)?;
    bench.serves(&old)?;
    drop(sink);
    let mut sink = bench.receive(&new.offer(1))?;
    bench.write(&mut *sink, &new.bytes)?;
    bench.serves(&old)?;
    drop(sink);
    bench.serves(&old)?;
    bench.restart()?;
    bench.serves(&old)
}

/// Cuts the power at every moment from the first write to the mark.
fn durable<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    let (old, new) = (Sample::new(3, 3000), Sample::new(5, 100_000));
    bench.build_marked(&old)?;
    let begun = bench.harness.moments(&bench.medium);
    bench.build_marked(&new)?;
    let marked = bench.harness.moments(&bench.medium);
    for moment in begun..=marked {
        for outcome in 0..14 {
            let Some(left) = bench.harness.power_cut(&bench.medium, moment, outcome) else {
                bench.figures.left_out.insert(Rule::Durable);
                bench.restart()?;
                return bench.serves(&new);
            };
            bench.figures.power_cuts += 1;
            let place = |error| format!("moment {moment}, outcome {outcome}: {error}");
            let opened = bench.harness.open(&left);
            let home = opened.map_err(|error| bench.broken(place(error)))?;
            let found = bench.harness.snapshots(&home).newest();
            let found = found.map_err(|error| bench.broken(place(error.to_string())))?;
            let found = found.ok_or_else(|| bench.broken(place("there is none".to_owned())))?;
            let sample = match found.snapshot().last == old.snapshot.last && moment < marked {
                true => &old,
                false => &new,
            };
            sample.compare(&*found, 5000).map_err(|error| bench.broken(place(error)))?;
        }
    }
    Ok(())
}

fn resumed<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    let sizes = [0, 1000, 65_528, 131_056, 199_999, 200_000];
    for (index, cut) in (10..).zip(sizes) {
        let sample = Sample::new(index, 200_000);
        let offer = sample.offer(index);
        for seed in 0..4 {
            let mut sink = bench.receive(&offer)?;
            let offset = sink.offset() as usize;
            bench.write(&mut *sink, &sample.bytes[offset..cut.max(offset)])?;
            drop(sink);
            // First a connection breaks, then the power fails.
            if seed > 0 {
                bench.crash(seed)?;
            }
        }
        let mut sink = bench.receive(&offer)?;
        let offset = sink.offset() as usize;
        if offset > cut {
            return Err(bench.broken(format!("{cut} bytes came, and it goes on at {offset}")));
        }
        for piece in sample.bytes[offset..].chunks(9000) {
            bench.write(&mut *sink, piece)?;
        }
        bench.publish(sink)?;
        bench.serves(&sample)?;
        bench.mark(&sample.snapshot);
    }
    Ok(())
}

fn gives_way<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    let (first, second) = (Sample::new(9, 150_000), Sample::new(10, 150_000));
    let offers =
        [(first.offer(1), first.offer(2), &first), (first.offer(2), second.offer(3), &second)];
    for (old, new, sample) in offers {
        let mut replaced = bench.receive(&old)?;
        bench.write(&mut *replaced, &first.bytes[..100_000])?;
        let mut sink = bench.receive(&new)?;
        if sink.offset() != 0 {
            return Err(bench.broken(format!("another's {} bytes are taken over", sink.offset())));
        }
        bench.write(&mut *sink, &sample.bytes[..70_000])?;
        // Whether it is refused now or at its end: it must not spoil the other, nor count.
        let rest = replaced.write(&first.bytes[100_000..]);
        if rest.is_ok() && replaced.publish().is_ok() {
            return Err(bench.broken("the transfer that was replaced is published"));
        }
        bench.write(&mut *sink, &sample.bytes[70_000..])?;
        bench.publish(sink)?;
        bench.serves(sample)?;
    }
    Ok(())
}

fn not_offered<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    let sample = Sample::new(9, 100_000);
    let mut changed = sample.bytes.clone();
    changed[70_000] ^= 1;
    let longer = [&sample.bytes[..], b"x"].concat();
    let spoiled = [&changed[..], &sample.bytes[..99_999], &longer[..], &[]];
    for (transfer, spoiled) in (1..).zip(spoiled) {
        let offer = sample.offer(transfer);
        let mut sink = bench.receive(&offer)?;
        let written = sink.write(spoiled);
        if written.is_ok() && sink.publish().is_ok() {
            let len = spoiled.len();
            return Err(bench.broken(format!("{len} bytes, other ones, are published")));
        }
        bench.serves_none()?;
        // The last attempt is what was offered: it must not stand on what was spoiled.
        if transfer == 1 {
            let mut sink = bench.receive(&offer)?;
            let offset = sink.offset() as usize;
            bench.write(&mut *sink, &sample.bytes[offset..])?;
            bench.publish(sink)?;
            bench.serves(&sample)?;
            bench.begin_anew()?;
        }
    }
    Ok(())
}

fn retain<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    let retain = |bench: &Bench<'_, H>, sample: &Sample| {
        let retained = bench.store().retain(sample.snapshot.last);
        retained.map_err(|error| bench.broken(error.to_string()))
    };
    let unfinished = Sample::new(6, 200_000);
    let mut sink = bench.receive(&unfinished.offer(1))?;
    bench.write(&mut *sink, &unfinished.bytes)?;
    drop(sink);
    for index in [3, 5] {
        bench.build(&Sample::new(index, 1000))?;
    }
    let newest = Sample::new(7, 1000);
    bench.build_marked(&newest)?;
    retain(bench, &newest)?;
    bench.serves(&newest)?;
    let offset = bench.receive(&unfinished.offer(1))?.offset();
    if offset > 0 {
        let text = format!("{offset} bytes of a transfer are kept that is of no use any more");
        return Err(bench.broken(text));
    }
    // What is being received at that moment is newer, and goes on.
    let newer = Sample::new(9, 100_000);
    let mut sink = bench.receive(&newer.offer(2))?;
    bench.write(&mut *sink, &newer.bytes[..70_000])?;
    let newest = Sample::new(8, 1000);
    bench.build_marked(&newest)?;
    retain(bench, &newest)?;
    bench.write(&mut *sink, &newer.bytes[70_000..])?;
    bench.publish(sink)?;
    bench.mark(&newer.snapshot);
    retain(bench, &newer)?;
    bench.restart()?;
    bench.serves(&newer)
}

fn damaged<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    for seed in 0..40 {
        bench.begin_anew()?;
        let sample = Sample::new(9, 100_000);
        bench.build_marked(&sample)?;
        if !bench.harness.damage(&bench.medium, seed) {
            bench.figures.left_out.insert(Rule::Damaged);
            return Ok(());
        }
        let Ok(found) = bench.store().newest() else { continue };
        let found = found.ok_or_else(|| bench.broken("it is damaged, and said not to exist"))?;
        match sample.compare(&*found, 5000) {
            Err(error) if !error.starts_with(UNREADABLE) => {
                return Err(Violation { seed: Some(seed), ..bench.broken(error) });
            }
            // What was changed may be of no meaning.
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}
