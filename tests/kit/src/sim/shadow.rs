//! What a node's disk must hold, kept beside it: every write, and which of them it was told to be
//! durable. **Durability** (Raft figure 2): what was acknowledged is there after every crash; what
//! was not is there as far as the disk got, and nothing else is.

use raft_core::{Index, Instant, NodeId, Saved, Snapshot, Ticket};

use crate::clock::Clock;
use crate::cluster::{File, Image, Store};
use crate::oracles::Seen;

/// What is known of a node beside its core.
#[derive(Clone, Debug)]
pub(super) struct Shadow {
    pub(super) run: u64,
    pub(super) store: Store,
    pub(super) applied: Index,
    pub(super) clock: Clock,
    /// Its disk was damaged behind its back, so it may come back with less; but it must know.
    pub(super) is_damaged: bool,
    /// What it held on a disk that is lost.
    lost: Option<Image>,
}

impl Shadow {
    pub(super) fn new(image: Image, clock: Clock) -> Self {
        let (run, applied) = (0, Index::ZERO);
        Self { run, store: Store::new(image), applied, clock, is_damaged: false, lost: None }
    }

    /// There is a snapshot with this end.
    pub(super) fn publish(&mut self, snapshot: Snapshot) {
        self.store.publish(File { snapshot, machine: Default::default() });
    }

    /// The disk is exchanged for an empty one.
    pub(super) fn lose(&mut self, empty: Image) {
        self.lost.get_or_insert(self.store.durable().clone());
        (self.store, self.is_damaged) = (Store::new(empty), true);
    }

    pub(super) fn sync(&mut self, ticket: Ticket) {
        self.store.sync(ticket);
    }

    /// The log was opened, and this was found in it. Returns how many writes survived that nobody
    /// was told of, and whether all did.
    pub(super) fn on_open(&mut self, id: NodeId, found: Image) -> Result<(usize, bool), String> {
        let (pending, found) = (self.store.pending().len(), found.settled());
        let kept = (0..=pending).find(|kept| self.store.after_crash(*kept).settled() == found);
        let result = match kept {
            Some(kept) => Ok((kept, kept == pending)),
            None if self.is_damaged => self.check_damaged(id, &found).map(|()| (0, true)),
            None => Err(format!(
                "durability: {id:?} comes back with {}, and was told that {} is durable",
                words(&found),
                words(self.store.durable())
            )),
        };
        let snapshot = found.snapshot().clone();
        self.store = Store::new(found);
        self.publish(snapshot);
        result
    }

    /// What was promised stays promised, and what is missing is claimed.
    fn check_damaged(&self, id: NodeId, found: &Image) -> Result<(), String> {
        let durable = self.store.durable();
        let (was, is) = (durable.hard_state, found.hard_state);
        if (is.term, is.vote.or(was.vote)) < (was.term, was.vote) {
            return Err(format!("durability: {id:?} forgot its vote: {was:?}, and now {is:?}"));
        }
        let had = durable.claim().map_or(durable.last(), |claim| claim.last.max(durable.last()));
        let has = found.claim().map_or(found.last(), |claim| claim.last.max(found.last()));
        if has < had {
            return Err(format!("durability: {id:?} had {had:?}, and knows of {has:?} only"));
        }
        Ok(())
    }
}

fn words(image: &Image) -> String {
    format!(
        "{:?}, a log from {:?} to {:?} (claim {:?}), snapshot {:?}",
        image.hard_state,
        image.base(),
        image.last(),
        image.claim(),
        image.snapshot().last
    )
}

/// What a log holds that was just opened.
pub(super) fn image(saved: &Saved, log: Vec<raft_core::Entry>) -> Image {
    Image::found(saved, log)
}

impl Seen for Shadow {
    fn run(&self) -> u64 {
        self.run
    }

    fn live(&self) -> &Image {
        self.store.live()
    }

    fn durable(&self) -> &Image {
        self.store.durable()
    }

    fn lost(&self) -> Option<&Image> {
        self.lost.as_ref()
    }

    fn applied(&self) -> Index {
        self.applied
    }

    fn local(&self, clock: Instant) -> Instant {
        self.clock.local(clock)
    }

    fn global(&self, local: Instant) -> Instant {
        self.clock.global(local)
    }
}
