//! Everything that states are made of is kept once and named by a number. So a state is a handful
//! of numbers, and what one node does with one packet is worked out once, by the shipped core.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{BuildHasherDefault, Hasher};

use super::text::{Renaming, SAME, Text, mix};

/// A hasher without a key: the same in every process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plain(u64);

impl Hasher for Plain {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = scramble(self.0.rotate_left(23) ^ word);
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

pub(super) type Map<K, V> = HashMap<K, V, BuildHasherDefault<Plain>>;

/// A mixture in which every bit depends on every bit.
pub(super) fn scramble(word: u64) -> u64 {
    let word = (word ^ (word >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word ^ (word >> 32)
}

/// Things by number, each with its fingerprint under every renaming.
#[derive(Debug)]
pub(super) struct Pool<T> {
    numbers: Map<u128, u32>,
    items: Vec<T>,
    prints: Vec<u64>,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { numbers: Map::default(), items: Vec::new(), prints: Vec::new() }
    }
}

impl<T> Pool<T> {
    pub(super) fn get(&self, number: u32) -> &T {
        &self.items[number as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Its fingerprints, one for each renaming.
    pub(super) fn prints(&self, number: u32, names: usize) -> &[u64] {
        &self.prints[number as usize * names..][..names]
    }

    /// The number of what is known by this `key`.
    pub(super) fn known(&self, key: u128) -> Option<u32> {
        self.numbers.get(&key).copied()
    }

    pub(super) fn add(&mut self, key: u128, item: T, prints: impl Iterator<Item = u64>) -> u32 {
        let number = self.items.len() as u32;
        self.items.push(item);
        self.prints.extend(prints);
        self.numbers.insert(key, number);
        number
    }
}

impl<T: Debug> Pool<T> {
    /// The number of something that shows all it is.
    pub(super) fn number(&mut self, item: T, names: &[Renaming], text: &mut Text) -> u32 {
        text.show(&item);
        self.number_as(item, 0, names, text)
    }

    /// The number of something that `text` describes; `salt` tells it from others.
    pub(super) fn number_as(
        &mut self,
        item: T,
        salt: u128,
        names: &[Renaming],
        text: &Text,
    ) -> u32 {
        let key = mix(text.fingerprint(&SAME), salt);
        if let Some(number) = self.known(key) {
            return number;
        }
        let prints: Vec<u64> = names.iter().map(|names| text.fingerprint(names) as u64).collect();
        self.add(key, item, prints.into_iter())
    }
}

/// A set of 64-bit fingerprints in one stretch of memory, eight bytes each and half as much room.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    slots: Vec<u64>,
    len: usize,
}

impl Seen {
    pub(super) fn new() -> Self {
        Self { slots: vec![0; 1 << 10], len: 0 }
    }

    /// Adds it. Returns whether it was new.
    pub(super) fn insert(&mut self, print: u64) -> bool {
        let print = print.max(1);
        if self.len * 4 >= self.slots.len() * 3 {
            self.grow();
        }
        let is_new = Self::put(&mut self.slots, print);
        self.len += usize::from(is_new);
        is_new
    }

    fn put(slots: &mut [u64], print: u64) -> bool {
        let mask = slots.len() - 1;
        let mut at = print as usize & mask;
        loop {
            match slots[at] {
                0 => {
                    slots[at] = print;
                    return true;
                }
                known if known == print => return false,
                _ => at = (at + 1) & mask,
            }
        }
    }

    fn grow(&mut self) {
        let mut slots = vec![0; self.slots.len() * 2];
        for &print in self.slots.iter().filter(|print| **print != 0) {
            Self::put(&mut slots, print);
        }
        self.slots = slots;
    }
}
