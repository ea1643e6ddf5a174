//! A log in memory. It outlives its node, as a disk does.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use kontiki::{
    Entry, HardState, Index, LogPosition, LogReader, LogStore, Membership, Payload, Saved,
    TermRuns, Write,
};

#[derive(Clone)]
pub struct MemoryLog {
    contents: Arc<RwLock<Contents>>,
    fails: Arc<AtomicBool>,
    closed: Arc<AtomicBool>,
    /// Held, no write gets on.
    pub stall: Arc<Mutex<()>>,
}

struct Contents {
    entries: Vec<Entry>,
    base: LogPosition,
    snapshot: LogPosition,
    hard_state: HardState,
    /// The one in force at the snapshot, then those in the log.
    memberships: Vec<(Index, Arc<Membership>)>,
}

#[derive(Debug)]
pub struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the disk is broken")
    }
}

impl MemoryLog {
    pub fn founded(membership: Membership) -> Self {
        let contents = Contents {
            entries: vec![],
            base: LogPosition::ZERO,
            snapshot: LogPosition::ZERO,
            hard_state: HardState::default(),
            memberships: vec![(Index::ZERO, Arc::new(membership))],
        };
        Self {
            contents: Arc::new(RwLock::new(contents)),
            fails: Arc::default(),
            closed: Arc::default(),
            stall: Arc::default(),
        }
    }

    pub fn break_disk(&self) {
        self.fails.store(true, Ordering::SeqCst);
    }

    /// Whether it was closed in good order.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// What a restart finds.
    pub fn saved(&self, applied: Index) -> Saved {
        let contents = self.contents.read().expect("not poisoned");
        let mut log = TermRuns::starting_after(contents.base);
        for entry in &contents.entries {
            log.push(entry.index, entry.index, entry.term);
        }
        Saved {
            hard_state: contents.hard_state,
            log,
            memberships: contents.memberships.clone(),
            snapshot: contents.snapshot,
            applied,
            claim: None,
        }
    }
}

impl Contents {
    fn write(&mut self, write: &Write) {
        if let Some(last) = write.truncate {
            self.entries.retain(|entry| entry.index <= last);
            self.memberships.retain(|(index, _)| *index <= last);
        }
        for entry in write.entries.iter() {
            if let Payload::Membership(membership) = &entry.payload {
                self.memberships.push((entry.index, Arc::clone(membership)));
            }
        }
        self.entries.extend(write.entries.iter().cloned());
        self.hard_state = write.hard_state.unwrap_or(self.hard_state);
        let Some(mark) = &write.snapshot else { return };
        let base = mark.base;
        let holds = base.index <= self.base.index
            || self.entries.iter().any(|entry| entry.position() == base);
        self.entries.retain(|entry| holds && entry.index > base.index);
        (self.base, self.snapshot) = (base, mark.snapshot.last);
        let at = (mark.snapshot.membership_index, Arc::clone(&mark.snapshot.membership));
        self.memberships.retain(|(index, _)| holds && *index > mark.snapshot.last.index);
        self.memberships.insert(0, at);
    }
}

impl LogStore for MemoryLog {
    type Error = Broken;
    type Reader = Self;

    fn persist(&mut self, writes: &[Write]) -> Result<(), Broken> {
        drop(self.stall.lock());
        if self.fails.load(Ordering::SeqCst) {
            return Err(Broken);
        }
        let mut contents = self.contents.write().map_err(|_| Broken)?;
        writes.iter().for_each(|write| contents.write(write));
        Ok(())
    }

    fn reader(&self) -> Self {
        self.clone()
    }

    fn close(self) -> Result<(), Broken> {
        self.closed.store(true, Ordering::SeqCst);
        Ok(())
    }
}

impl LogReader for MemoryLog {
    type Error = Broken;

    fn read(
        &self,
        first: Index,
        last: Index,
        bytes_max: usize,
        into: &mut Vec<Entry>,
    ) -> Result<(), Broken> {
        let contents = self.contents.read().map_err(|_| Broken)?;
        if first <= contents.base.index {
            return Ok(());
        }
        let mut bytes = 0;
        let wanted = |entry: &&Entry| entry.index >= first && entry.index <= last;
        for entry in contents.entries.iter().filter(wanted) {
            bytes += entry.size_bytes();
            if bytes > bytes_max && !into.is_empty() {
                break;
            }
            into.push(entry.clone());
        }
        Ok(())
    }
}
