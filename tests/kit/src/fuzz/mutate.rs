//! Small changes of inputs, for runs without a fuzzer that knows better.

use rand::{Rng, RngExt};

/// The longest input that is made.
const BYTES_MAX: usize = 4096;

/// A copy with some small changes.
pub fn mutated(bytes: &[u8], random: &mut impl Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..random.random_range(1..5) {
        let at = random.random_range(0..=bytes.len());
        let end = bytes.len().min(at + random.random_range(1..9));
        match random.random_range(0..6) {
            0 => bytes.insert(at, random.random()),
            1 => drop(bytes.drain(at..end)),
            2 => bytes[at..end].iter_mut().for_each(|byte| *byte = random.random()),
            3 if at < end => bytes[at] ^= 1 << random.random_range(0..8),
            4 => {
                let copy = bytes[at..end].to_vec();
                let to = random.random_range(0..=bytes.len());
                bytes.splice(to..to, copy);
            }
            _ => bytes.extend((0..random.random_range(1..17)).map(|_| random.random::<u8>())),
        }
    }
    bytes.truncate(BYTES_MAX);
    bytes
}
