//! More than a transport can hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use raft_core::{Envelope, Lane, Transport};

use super::bench::Bench;
use super::messages::{append, numbered};
use super::{Harness, Rule, Violation};

const ENTRY_BYTES: usize = 32 << 10;
const ENTRIES: u64 = 4;
/// How many messages on the other lane go with each append.
const SMALL: u64 = 40;
/// What is held beside entries, in numbers: a message may be under way, another be encoded.
const SLACK_BYTES: usize = 2 * ENTRIES as usize * ENTRY_BYTES;

/// A payload that says when nobody holds it any more.
struct Held {
    bytes: Vec<u8>,
    all: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes.len(), Ordering::SeqCst);
    }
}

fn payload(all: &Arc<AtomicUsize>) -> Bytes {
    all.fetch_add(ENTRY_BYTES, Ordering::SeqCst);
    Bytes::from_owner(Held { bytes: vec![7; ENTRY_BYTES], all: Arc::clone(all) })
}

/// What a flood came to.
#[derive(Default)]
struct Flood {
    ended: AtomicBool,
    left: AtomicUsize,
    sent: AtomicUsize,
    held: Arc<AtomicUsize>,
}

/// Sends on a thread of its own: a transport that blocks must not block the suite.
fn flood(transport: Arc<dyn Transport>, bytes: usize) -> Arc<Flood> {
    let flood = Arc::new(Flood::default());
    let mine = Arc::clone(&flood);
    std::thread::spawn(move || {
        let appends = (bytes / ENTRY_BYTES) as u64 / ENTRIES;
        for number in 0..appends.max(100) {
            let payloads: Vec<_> = (0..ENTRIES).map(|_| payload(&mine.held)).collect();
            let mut messages: Vec<Envelope> =
                (0..SMALL).map(|it| numbered(1, 2, Lane::Control, number * SMALL + it)).collect();
            messages.push(append(1, 2, number * ENTRIES + 1, &payloads));
            drop(payloads);
            mine.sent.fetch_add(messages.len(), Ordering::SeqCst);
            transport.send(&mut messages);
            mine.left.fetch_add(messages.len(), Ordering::SeqCst);
        }
        mine.ended.store(true, Ordering::SeqCst);
    });
    flood
}

/// Floods node 2, which is not there, or does not take what arrives.
pub(super) fn check<H: Harness>(bench: &mut Bench<'_, H>, is_there: bool) -> Result<(), Violation> {
    let (first, second) = match is_there {
        true => bench.pair()?,
        false => (bench.start(1)?, bench.start(3)?),
    };
    let bytes_max = bench.harness.bytes_max();
    let flood = flood(bench.harness.transport(&first), 4 * bytes_max);
    if !bench.harness.until(&mut || flood.ended.load(Ordering::SeqCst)) {
        return Err(bench.broken(Rule::NeverBlocks, "send has not come back"));
    }
    bench.figures.sent += flood.sent.load(Ordering::SeqCst) as u64;
    let left = flood.left.load(Ordering::SeqCst);
    if left > 0 {
        return Err(bench.broken(Rule::TakesAll, format!("{left} messages were left")));
    }
    let is_bounded = || flood.held.load(Ordering::SeqCst) <= bytes_max + SLACK_BYTES;
    // What was taken off may need a moment to be let go of.
    if !is_there && !bench.harness.until(&mut || is_bounded()) {
        let held = flood.held.load(Ordering::SeqCst);
        let text = format!("{held} bytes are held for a node that is not there, not {bytes_max}");
        return Err(bench.broken(Rule::Bounded, text));
    }
    let (mut second, other) = match is_there {
        true => (second, None),
        false => (bench.start(2)?, Some(second)),
    };
    // Whatever is left of it comes in order, and there is room again.
    let late = bench.arrived(&mut second, usize::MAX);
    let numbers = late.iter().filter(|it| it.message.lane() == Lane::Bulk);
    let numbers: Vec<_> = numbers.filter_map(super::messages::number).collect();
    if !numbers.is_sorted() {
        return Err(bench.broken(Rule::Order, format!("appends arrive in the order {numbers:?}")));
    }
    bench.meet(Rule::ComesBack, (1, &first), (2, &mut second))?;
    bench.talk(Rule::ComesBack, (1, &first), (2, &mut second), 1 << 40)?;
    bench.stop([first, second]);
    bench.stop(other);
    Ok(())
}
