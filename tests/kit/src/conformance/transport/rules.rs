//! The rules one by one.

use bytes::Bytes;
use raft_core::{Envelope, Lane, LogPosition, Message};

use super::bench::{Bench, CLUSTER};
use super::messages::{append, every_kind, numbered};
use super::{Figures, Harness, Rule, Violation, Who, flood};
use crate::conformance::writes::{at, node};

type Verdict = Result<(), Violation>;
type Show<H> = fn(&mut Bench<'_, H>) -> Verdict;

pub(super) fn check<H: Harness>(harness: &H, figures: &mut Figures) -> Verdict {
    let rules: [(Rule, Show<H>); 10] = [
        (Rule::Arrives, arrives),
        (Rule::AsSent, as_sent),
        // Before anything else that might block the suite.
        (Rule::NeverBlocks, |bench| flood::check(bench, true)),
        (Rule::Order, order),
        (Rule::Receiver, receiver),
        (Rule::Large, large),
        (Rule::Bounded, |bench| flood::check(bench, false)),
        (Rule::ComesBack, comes_back),
        (Rule::Cluster, cluster),
        (Rule::Impostor, impostor),
    ];
    rules.into_iter().try_for_each(|(rule, show)| {
        let mut bench = Bench { harness, figures, rule };
        show(&mut bench)
    })
}

fn arrives<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    let (mut first, mut second) = bench.pair()?;
    for round in 0..30 {
        bench.talk(Rule::Arrives, (1, &first), (2, &mut second), round * 10 + 1)?;
        bench.talk(Rule::Arrives, (2, &second), (1, &mut first), round * 10 + 1)?;
    }
    bench.send(&first, &[])?;
    bench.stop([first, second]);
    Ok(())
}

fn as_sent<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    let (first, mut second) = bench.pair()?;
    for sent in every_kind(1, 2) {
        bench.send(&first, std::slice::from_ref(&sent))?;
        let found = bench.expected(&mut second, 1);
        if found != [sent.clone()] {
            return Err(bench.broken(Rule::AsSent, format!("{sent:?} arrives as {found:?}")));
        }
    }
    bench.stop([first, second]);
    Ok(())
}

/// In one go, more than may find room.
fn order<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    let (first, mut second) = bench.pair()?;
    let lanes = |it| [Lane::Control, Lane::Bulk].map(|lane| numbered(1, 2, lane, it));
    let sent: Vec<Envelope> = (1..=1000).flat_map(lanes).collect();
    for batch in sent.chunks(7) {
        bench.send(&first, batch)?;
    }
    let found = bench.arrived(&mut second, sent.len());
    bench.in_order(&found, &sent)?;
    bench.stop([first, second]);
    Ok(())
}

fn receiver<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    let (mut first, mut second) = bench.pair()?;
    let mut third = bench.start(3)?;
    bench.meet(Rule::Arrives, (1, &first), (3, &mut third))?;
    let to = |number: u64| [2, 3, 9][number as usize % 3];
    let sent: Vec<_> = (1..=60).map(|it| numbered(1, to(it), Lane::Bulk, it)).collect();
    bench.send(&first, &sent)?;
    for (id, end) in [(2, &mut second), (3, &mut third)] {
        let mine: Vec<_> = sent.iter().filter(|it| it.to == node(id)).cloned().collect();
        let found = bench.expected(end, mine.len());
        if let Some(other) = found.iter().find(|it| it.to != node(id) || it.from != node(1)) {
            return Err(bench.broken(Rule::Receiver, format!("node {id} is handed {other:?}")));
        }
        if found != mine {
            return Err(bench.broken(Rule::Receiver, format!("node {id} is handed {found:?}")));
        }
    }
    for (id, end) in [(1, &mut first), (2, &mut second), (3, &mut third)] {
        if let Some(more) = bench.arrived(end, 1).first() {
            return Err(bench.broken(Rule::Receiver, format!("node {id} is handed {more:?}")));
        }
    }
    bench.stop([first, second, third]);
    Ok(())
}

fn large<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    let (first, mut second) = bench.pair()?;
    let count = (bench.harness.append_bytes() / 100_000).max(1);
    let payloads: Vec<_> = (0..count).map(|it| Bytes::from(vec![it as u8; 100_000])).collect();
    let sent = append(1, 2, 1, &payloads);
    let small = append(1, 2, count as u64 + 1, &[Bytes::from_static(b"small")]);
    let (mut end, mut entries) = (at(0, 5), Vec::new());
    // The second finds room once the first has left.
    for message in [&sent, &small] {
        bench.send(&first, std::slice::from_ref(message))?;
        let Message::Append(append) = &message.message else { continue };
        while end.index < append.last_covered() {
            let parts = bench.expected(&mut second, 1);
            if parts.is_empty() {
                return Err(bench.broken(Rule::Large, format!("nothing arrives behind {end:?}")));
            }
            for part in parts {
                end = take_part(bench, &part, end, &mut entries)?;
            }
        }
        if !entries.ends_with(&append.entries) {
            return Err(bench.broken(Rule::Large, "its parts hold other entries"));
        }
    }
    bench.stop([first, second]);
    Ok(())
}

/// A part begins where the one before it ended.
fn take_part<H: Harness>(
    bench: &Bench<'_, H>,
    part: &Envelope,
    end: LogPosition,
    entries: &mut Vec<raft_core::Entry>,
) -> Result<LogPosition, Violation> {
    match &part.message {
        Message::Append(append) if append.previous == end && !append.entries.is_empty() => {
            entries.extend_from_slice(&append.entries);
            Ok(LogPosition { term: end.term, index: append.last_covered() })
        }
        Message::Append(append) => {
            let (previous, count) = (append.previous, append.entries.len());
            let text =
                format!("{count} entries behind {previous:?} arrive, and not behind {end:?}");
            Err(bench.broken(Rule::Large, text))
        }
        other => Err(bench.broken(Rule::Large, format!("an append arrives as {other:?}"))),
    }
}

fn comes_back<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    let rule = Rule::ComesBack;
    let (mut first, mut second) = bench.pair()?;
    for life in 1..=3 {
        bench.stop([second]);
        // Nobody is there: this is lost, or it comes later.
        let lost: Vec<_> = (1..=20).map(|it| numbered(1, 2, Lane::Control, it)).collect();
        bench.send(&first, &lost)?;
        second = bench.start(2)?;
        bench.meet(rule, (1, &first), (2, &mut second))?;
        bench.meet(rule, (2, &second), (1, &mut first))?;
        bench.talk(rule, (1, &first), (2, &mut second), life * 1000)?;
        bench.talk(rule, (2, &second), (1, &mut first), life * 1000)?;
    }
    bench.stop([first, second]);
    Ok(())
}

/// Sends to and fro between node 1 and whoever stands where node 2 should.
fn meets_nobody<H: Harness>(bench: &mut Bench<'_, H>, stranger: Who) -> Verdict {
    let rule = bench.rule;
    let mut first = bench.start(1)?;
    let Some(mut second) = bench.harness.start(node(2), stranger) else {
        bench.figures.left_out.insert(rule);
        bench.stop([first]);
        return Ok(());
    };
    for number in 1..=3 {
        let to_second = [Lane::Control, Lane::Bulk].map(|lane| numbered(1, 2, lane, number));
        bench.send(&first, &to_second)?;
        if let Some(found) = bench.arrived(&mut second, 1).first() {
            return Err(bench.broken(rule, format!("{stranger:?} is handed {found:?}")));
        }
        // A node of the same cluster may call under its own name.
        if stranger.cluster != CLUSTER {
            let to_first = [Lane::Control, Lane::Bulk].map(|lane| numbered(2, 1, lane, number));
            bench.send(&second, &to_first)?;
            if let Some(found) = bench.arrived(&mut first, 1).first() {
                return Err(bench.broken(rule, format!("{stranger:?} hands over {found:?}")));
            }
        }
    }
    bench.stop([first, second]);
    Ok(())
}

fn cluster<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    meets_nobody(bench, Who { cluster: CLUSTER + 1, node: node(2) })
}

fn impostor<H: Harness>(bench: &mut Bench<'_, H>) -> Verdict {
    meets_nobody(bench, Who { cluster: CLUSTER, node: node(3) })
}
