//! State machines of a simulation: lists that clients append to, and a judge around any machine.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use raft_core::{Entry, Index, NodeId, Payload};
use raft_driver::StateMachine;

/// Lists by key. A command appends one number, which is never appended a second time.
#[derive(Debug)]
pub struct Lists {
    lists: BTreeMap<u64, Vec<u64>>,
    applied: Index,
    /// How many bytes a snapshot has beside the lists.
    ballast: usize,
}

impl Lists {
    /// No lists yet.
    pub fn new(ballast: usize) -> Self {
        Self { lists: BTreeMap::new(), applied: Index::ZERO, ballast }
    }

    /// The command that appends `number` to the list `key`.
    pub fn append(key: u64, number: u64) -> Bytes {
        let mut bytes = BytesMut::with_capacity(16);
        bytes.put_u64_le(key);
        bytes.put_u64_le(number);
        bytes.freeze()
    }

    /// The list `key`.
    pub fn list(&self, key: u64) -> &[u64] {
        self.lists.get(&key).map_or(&[], Vec::as_slice)
    }
}

impl StateMachine for Lists {
    /// How long the list is now.
    type Response = u64;
    type Error = String;

    fn applied(&self) -> Index {
        self.applied
    }

    fn apply(&mut self, entries: &[Entry], lengths: &mut Vec<u64>) -> Result<(), String> {
        for entry in entries {
            self.applied = entry.index;
            let Payload::Command(bytes) = &entry.payload else { continue };
            let mut bytes = bytes.clone();
            let key = bytes.try_get_u64_le().map_err(|error| error.to_string())?;
            let number = bytes.try_get_u64_le().map_err(|error| error.to_string())?;
            let list = self.lists.entry(key).or_default();
            if list.contains(&number) {
                return Err(format!("exactly once: {number} is appended to list {key} again"));
            }
            list.push(number);
            lengths.push(list.len() as u64);
        }
        Ok(())
    }

    fn snapshot(&self) -> Result<Box<dyn Read + Send>, String> {
        let mut bytes = BytesMut::new();
        bytes.put_u64_le(self.ballast as u64);
        bytes.put_bytes(7, self.ballast);
        for (key, list) in &self.lists {
            bytes.put_u64_le(*key);
            bytes.put_u64_le(list.len() as u64);
            list.iter().for_each(|number| bytes.put_u64_le(*number));
        }
        Ok(Box::new(Cursor::new(bytes.freeze())))
    }

    fn restore(&mut self, applied: Index, state: &mut dyn Read) -> Result<(), String> {
        let mut bytes = Vec::new();
        state.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        let mut bytes = Bytes::from(bytes);
        let ballast = bytes.try_get_u64_le().map_err(|error| error.to_string())? as usize;
        if bytes.len() < ballast || bytes.split_to(ballast).iter().any(|byte| *byte != 7) {
            return Err("the ballast is not what was written".into());
        }
        let mut lists = BTreeMap::new();
        while let (Ok(key), Ok(count)) = (bytes.try_get_u64_le(), bytes.try_get_u64_le()) {
            let number = |_| bytes.try_get_u64_le().map_err(|error| error.to_string());
            let list = (0..count).map(number).collect::<Result<Vec<u64>, String>>()?;
            lists.insert(key, list);
        }
        *self = Self { lists, applied, ballast };
        Ok(())
    }
}

/// The state at some indexes, as seen by whoever came there first.
#[derive(Clone, Debug, Default)]
pub(super) struct Hashes(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    first: BTreeMap<Index, (u64, NodeId)>,
    compared: u64,
}

impl Hashes {
    /// **Equal state at equal index** (Raft figure 3, State Machine Safety): the same commands in
    /// the same order come to the same state, on every node, after a restart and a snapshot too.
    fn compare(&self, at: Index, hash: u64, node: NodeId) -> Result<(), String> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, by) = *known.first.entry(at).or_insert((hash, node));
        known.compared += 1;
        if first == hash {
            return Ok(());
        }
        Err(format!(
            "equal state at equal index: at index {at} {node:?} has another state than {by:?}"
        ))
    }

    /// How many states were compared.
    pub(super) fn compared(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).compared
    }
}

/// How many entries lie between two states that are compared.
const COMPARE_EVERY: u64 = 16;

/// A state machine under judgement: whatever it says, it is handed every entry once, in order,
/// and its state is compared with the others'.
pub(super) struct Judged<S> {
    machine: S,
    node: NodeId,
    hashes: Hashes,
    next: Index,
}

impl<S: StateMachine> Judged<S> {
    pub(super) fn new(machine: S, node: NodeId, hashes: Hashes) -> Self {
        let next = machine.applied().next();
        Self { machine, node, hashes, next }
    }

    pub(super) fn machine(&self) -> &S {
        &self.machine
    }

    /// Compares the state as it is.
    pub(super) fn compare(&self) -> Result<(), String> {
        let mut state = Vec::new();
        let mut snapshot = self.machine.snapshot().map_err(|error| error.to_string())?;
        snapshot.read_to_end(&mut state).map_err(|error| error.to_string())?;
        self.hashes.compare(self.next.prev(), hash(&state), self.node)
    }

    fn check_applied(&self) -> Result<(), String> {
        let (applied, expected) = (self.machine.applied(), self.next.prev());
        if applied == expected {
            return Ok(());
        }
        Err(format!("the machine of {:?} says {applied} where {expected} is applied", self.node))
    }
}

impl<S: StateMachine> StateMachine for Judged<S> {
    type Response = S::Response;
    type Error = String;

    fn applied(&self) -> Index {
        self.machine.applied()
    }

    fn is_quick(&self, entries: &[Entry]) -> bool {
        self.machine.is_quick(entries)
    }

    fn apply(
        &mut self,
        entries: &[Entry],
        responses: &mut Vec<Self::Response>,
    ) -> Result<(), String> {
        for entry in entries {
            if entry.index != self.next {
                return Err(format!("applied {} where {} is next", entry.index, self.next));
            }
            self.next = self.next.next();
        }
        let mut rest = entries;
        while let Some(first) = rest.first() {
            let until = (COMPARE_EVERY - first.index.0 % COMPARE_EVERY) as usize + 1;
            let (now, later) = rest.split_at(rest.len().min(until));
            self.machine.apply(now, responses).map_err(|error| error.to_string())?;
            rest = later;
            if let Some(last) = now.last()
                && last.index.0 % COMPARE_EVERY == 0
            {
                let next = std::mem::replace(&mut self.next, last.index.next());
                self.compare()?;
                self.next = next;
            }
        }
        self.check_applied()
    }

    fn snapshot(&self) -> Result<Box<dyn Read + Send>, String> {
        self.machine.snapshot().map_err(|error| error.to_string())
    }

    fn restore(&mut self, applied: Index, state: &mut dyn Read) -> Result<(), String> {
        self.machine.restore(applied, state).map_err(|error| error.to_string())?;
        self.next = applied.next();
        self.check_applied()?;
        self.compare()
    }
}

/// FNV-1a, eight bytes at a time: quick, and good enough to tell two states apart.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let rest = rest.iter().map(|byte| u64::from(*byte));
    words.chain(rest).chain([bytes.len() as u64]).fold(0xcbf2_9ce4_8422_2325, |hash, word| {
        (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23)
    })
}
