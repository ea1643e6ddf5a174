//! A network that loses, repeats, delays and reorders, one link at a time.
//!
//! A message waits here from the moment it is sent. `cut` links lose what is on them, `held`
//! links keep it until they are released; all others deliver after a delay drawn by the dice.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use raft_core::{Envelope, Instant, NodeId};

/// A direction between two nodes.
pub type Link = (NodeId, NodeId);

/// A message's place among all that wait: when it is due, and a number that is never reused.
pub type Slot = (Instant, u64);

/// Links between nodes, and the messages on them.
#[derive(Clone, Debug, Default)]
pub struct Network {
    waiting: BTreeMap<Slot, Envelope>,
    cut: BTreeSet<Link>,
    held: BTreeSet<Link>,
    numbers: u64,
    /// The newest messages ever sent, lost or not: any may come again, much later.
    archive: VecDeque<Envelope>,
}

impl Network {
    /// How many of the newest messages can come again.
    pub const ARCHIVE_MAX: usize = 300;

    /// Takes a message that is due at `due`, unless its link is cut.
    pub fn send(&mut self, envelope: Envelope, due: Instant) {
        if self.archive.len() == Self::ARCHIVE_MAX {
            self.archive.pop_front();
        }
        self.archive.push_back(envelope.clone());
        if self.is_cut((envelope.from, envelope.to)) {
            return;
        }
        self.numbers += 1;
        self.waiting.insert((due, self.numbers), envelope);
    }

    /// Loses what is on the link, and all that will be sent on it.
    pub fn cut(&mut self, link: Link) {
        self.cut.insert(link);
        self.waiting.retain(|_, envelope| (envelope.from, envelope.to) != link);
    }

    /// Keeps what is on the link, and all that will be sent on it.
    pub fn hold(&mut self, link: Link) {
        self.held.insert(link);
    }

    /// Lets the link deliver again, what it held first.
    pub fn mend(&mut self, link: Link) {
        self.cut.remove(&link);
        self.held.remove(&link);
    }

    /// The newest messages ever sent, oldest first.
    pub fn archive(&self) -> &VecDeque<Envelope> {
        &self.archive
    }

    /// Lets all links deliver again.
    pub fn mend_all(&mut self) {
        self.cut.clear();
        self.held.clear();
    }

    /// Whether the link is held.
    pub fn is_held(&self, link: Link) -> bool {
        self.held.contains(&link)
    }

    /// Whether the link is cut.
    pub fn is_cut(&self, link: Link) -> bool {
        self.cut.contains(&link)
    }

    /// Whether any link is cut.
    pub fn is_any_cut(&self) -> bool {
        !self.cut.is_empty()
    }

    /// Where the next message waits that is due and not held.
    pub fn next(&self) -> Option<Slot> {
        let free = |envelope: &Envelope| !self.is_held((envelope.from, envelope.to));
        self.waiting.iter().find(|(_, envelope)| free(envelope)).map(|(&slot, _)| slot)
    }

    /// All that waits, held or not, in the order of delivery.
    pub fn waiting(&self) -> impl Iterator<Item = (Slot, &Envelope)> {
        self.waiting.iter().map(|(&slot, envelope)| (slot, envelope))
    }

    /// The places of the messages for which `wanted` holds.
    pub fn slots(&self, wanted: impl Fn(&Envelope) -> bool) -> Vec<Slot> {
        let wanted = self.waiting.iter().filter(|(_, envelope)| wanted(envelope));
        wanted.map(|(&slot, _)| slot).collect()
    }

    /// Takes the message out, to deliver or to lose it.
    pub fn take(&mut self, slot: Slot) -> Option<Envelope> {
        self.waiting.remove(&slot)
    }

    /// A message without taking it out.
    pub fn peek(&self, slot: Slot) -> Option<&Envelope> {
        self.waiting.get(&slot)
    }
}
