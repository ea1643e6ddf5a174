//! Who watches a key: found by the key, so that a change costs nothing for those whom it does not
//! concern.

use std::collections::HashMap;

use super::ranges::{End, Key, Ranges};

/// The number of a watch on this node.
pub(super) type Slot = usize;

/// The keys that a watch is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    One(Key),
    Range(Key, End),
}

impl Keys {
    /// As clients say it; `None` when no key is meant.
    pub fn new(key: &[u8], range_end: &[u8]) -> Option<Self> {
        // As etcd's: what does not say where to begin begins at the first key that there can be.
        let key = if key.is_empty() { &[0] } else { key };
        match range_end {
            [] => Some(Self::One(key.into())),
            [0] => Some(Self::Range(key.into(), End::Never)),
            _ if range_end <= key => None,
            _ => Some(Self::Range(key.into(), End::Before(range_end.into()))),
        }
    }
}

/// Those who watch the same keys.
#[derive(Debug, Default)]
pub(super) struct Watchers(Vec<u32>);

impl Watchers {
    pub fn iter(&self) -> impl Iterator<Item = Slot> {
        self.0.iter().map(|slot| *slot as Slot)
    }

    /// Adds one, and says at which place.
    fn add(&mut self, slot: Slot) -> usize {
        // Fewer than four billion watches fit into memory.
        self.0.push(u32::try_from(slot).unwrap_or(u32::MAX));
        self.0.len() - 1
    }

    /// Takes out who is at `place`; who is there now came from elsewhere.
    fn remove(&mut self, place: usize) -> Option<Slot> {
        self.0.swap_remove(place);
        self.0.get(place).map(|moved| *moved as Slot)
    }
}

/// Who watches what.
pub(super) struct Index {
    exact: HashMap<Key, Watchers>,
    ranges: Ranges,
}

impl Index {
    pub fn new() -> Self {
        Self { exact: HashMap::new(), ranges: Ranges::new() }
    }

    /// Adds a watch; the place is needed to remove it.
    pub fn add(&mut self, keys: &Keys, slot: Slot) -> usize {
        match keys {
            Keys::One(key) => self.exact.entry(key.clone()).or_default().add(slot),
            Keys::Range(start, end) => {
                if let Some(watchers) = self.ranges.watchers(start, end) {
                    return watchers.add(slot);
                }
                let mut watchers = Watchers::default();
                let place = watchers.add(slot);
                self.ranges.add(start.clone(), end.clone(), watchers);
                place
            }
        }
    }

    /// Removes the watch at this place. Another may have that place now.
    pub fn remove(&mut self, keys: &Keys, place: usize) -> Option<Slot> {
        match keys {
            Keys::One(key) => {
                let watchers = self.exact.get_mut(key)?;
                let moved = watchers.remove(place);
                if watchers.0.is_empty() {
                    self.exact.remove(key);
                }
                moved
            }
            Keys::Range(start, end) => {
                let watchers = self.ranges.watchers(start, end)?;
                let moved = watchers.remove(place);
                if watchers.0.is_empty() {
                    self.ranges.remove(start, end);
                }
                moved
            }
        }
    }

    /// Calls `found` with everyone who watches this key, each once.
    pub fn watching(&self, key: &[u8], mut found: impl FnMut(Slot)) {
        if let Some(watchers) = self.exact.get(key) {
            watchers.iter().for_each(&mut found);
        }
        self.ranges.holding(key, &mut found);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn word() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(0_u8..4, 0..4)
    }

    proptest! {
        /// Beside a list of all watches that is searched from end to end.
        #[test]
        fn a_key_finds_just_those_who_watch_it(
            steps in prop::collection::vec((any::<bool>(), word(), word()), 1..120),
            asked in prop::collection::vec(word(), 1..20),
        ) {
            let (mut index, mut all) = (Index::new(), Vec::<Option<(Keys, usize)>>::new());
            for (is_new, key, end) in steps {
                if is_new || all.is_empty() {
                    let Some(keys) = Keys::new(&key, &end) else { continue };
                    let place = index.add(&keys, all.len());
                    all.push(Some((keys, place)));
                } else {
                    let slot = key.iter().map(|byte| usize::from(*byte)).sum::<usize>() % all.len();
                    let Some((keys, place)) = all[slot].take() else { continue };
                    if let Some(moved) = index.remove(&keys, place) {
                        all[moved].as_mut().expect("it is there").1 = place;
                    }
                }
            }
            for key in asked {
                let holds = |keys: &Keys| match keys {
                    Keys::One(one) => one[..] == key[..],
                    Keys::Range(start, End::Before(end)) => start[..] <= key[..] && key[..] < end[..],
                    Keys::Range(start, End::Never) => start[..] <= key[..],
                };
                let expected: Vec<Slot> = all
                    .iter()
                    .enumerate()
                    .filter(|(_, watch)| watch.as_ref().is_some_and(|(keys, _)| holds(keys)))
                    .map(|(slot, _)| slot)
                    .collect();
                let mut found = Vec::new();
                index.watching(&key, |slot| found.push(slot));
                found.sort_unstable();
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn a_watch_means_the_keys_that_etcd_means() {
        let key = |text: &str| Key::from(text.as_bytes());
        assert_eq!(Keys::new(b"a", b""), Some(Keys::One(key("a"))));
        assert_eq!(Keys::new(b"", b""), Some(Keys::One(key("\0"))));
        assert_eq!(Keys::new(b"", b"\0"), Some(Keys::Range(key("\0"), End::Never)));
        assert_eq!(Keys::new(b"a", b"b"), Some(Keys::Range(key("a"), End::Before(key("b")))));
        assert_eq!(Keys::new(b"b", b"a"), None);
        assert_eq!(Keys::new(b"a", b"a"), None);
    }
}
