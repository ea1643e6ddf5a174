//! Snapshots in memory.

use std::sync::{Arc, Mutex, MutexGuard};

use raft_core::{
    LogPosition, Snapshot, SnapshotOffer, SnapshotSink, SnapshotSource, SnapshotStore,
    SnapshotStoreError,
};
use raft_testkit::conformance::snapshot_store::{self, Rule, crc32c};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    HasOneFromTheStart,
    SwapsBytes,
    ReadsOnlyTheFirstPiece,
    FailsBehindTheEnd,
    ServesTheOldest,
    CountsWhatIsBeingBuilt,
    LosesWhatItPublished,
    PublishesInTwoSteps,
    MixesTransfers,
    LetsTheReplacedPublish,
    PublishesAnything,
    GoesOnWithWhatIsSpoiled,
    SkipsAByteWhenItGoesOn,
    RemovesTheNewest,
    KeepsUnfinishedOnes,
    ServesWhatIsDamaged,
}

#[derive(Clone, Debug)]
struct Whole {
    snapshot: Snapshot,
    bytes: Vec<u8>,
    check: u32,
    fault: Fault,
}

#[derive(Clone, Debug, Default)]
struct Content {
    whole: Vec<Whole>,
    /// What is unfinished: the offer, what came of it, and whose turn it is.
    part: Option<(SnapshotOffer, Vec<u8>)>,
    turn: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Medium(Arc<Mutex<Disk>>);

#[derive(Clone, Debug, Default)]
struct Disk {
    now: Content,
    past: Vec<Content>,
}

impl Medium {
    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().expect("nobody panics")
    }
}

impl Disk {
    fn step(&mut self) -> &mut Content {
        self.past.push(self.now.clone());
        &mut self.now
    }
}

#[derive(Clone, Debug)]
pub struct Store {
    medium: Medium,
    fault: Fault,
}

struct Sink {
    store: Store,
    snapshot: Snapshot,
    bytes: Vec<u8>,
    offer: Option<(SnapshotOffer, u64)>,
}

impl SnapshotStore for Store {
    fn newest(&self) -> Result<Option<Arc<dyn SnapshotSource>>, SnapshotStoreError> {
        let disk = self.medium.lock();
        let whole = match self.fault {
            Fault::ServesTheOldest => disk.now.whole.first(),
            _ => disk.now.whole.last(),
        };
        let Some(whole) = whole else { return Ok(None) };
        if self.fault != Fault::ServesWhatIsDamaged && crc32c(&whole.bytes) != whole.check {
            return Err("damaged".into());
        }
        Ok(Some(Arc::new(whole.clone())))
    }

    fn build(&self, snapshot: &Snapshot) -> Result<Box<dyn SnapshotSink>, SnapshotStoreError> {
        let (store, snapshot) = (self.clone(), snapshot.clone());
        Ok(Box::new(Sink { store, snapshot, bytes: Vec::new(), offer: None }))
    }

    fn receive(&self, offer: &SnapshotOffer) -> Result<Box<dyn SnapshotSink>, SnapshotStoreError> {
        let mut disk = self.medium.lock();
        disk.now.turn += 1;
        let kept = disk.now.part.take();
        let same = |(old, _): &(SnapshotOffer, _)| match self.fault {
            Fault::MixesTransfers => old.snapshot == offer.snapshot,
            _ => old == offer,
        };
        let mut bytes = kept.filter(same).map_or(Vec::new(), |(_, bytes)| bytes);
        if self.fault == Fault::SkipsAByteWhenItGoesOn && !bytes.is_empty() {
            bytes.push(0);
        }
        let offer = Some((offer.clone(), disk.now.turn));
        let snapshot = offer.as_ref().map(|(offer, _)| offer.snapshot.clone()).expect("an offer");
        Ok(Box::new(Sink { store: self.clone(), snapshot, bytes, offer }))
    }

    fn retain(&self, last: LogPosition) -> Result<(), SnapshotStoreError> {
        let mut disk = self.medium.lock();
        let now = disk.step();
        match self.fault {
            Fault::RemovesTheNewest => now.whole.retain(|it| it.snapshot.last < last),
            _ => now.whole.retain(|it| it.snapshot.last >= last),
        }
        let is_newer = |(offer, _): &(SnapshotOffer, _)| offer.snapshot.last > last;
        if self.fault != Fault::KeepsUnfinishedOnes && !now.part.as_ref().is_some_and(is_newer) {
            now.part = None;
        }
        Ok(())
    }
}

impl Sink {
    fn is_replaced(&self, now: &Content) -> bool {
        let replaced = self.offer.as_ref().is_some_and(|(_, turn)| *turn != now.turn);
        replaced && self.store.fault != Fault::LetsTheReplacedPublish
    }

    fn whole(&self) -> Whole {
        let (snapshot, mut bytes, fault) =
            (self.snapshot.clone(), self.bytes.clone(), self.store.fault);
        let check = crc32c(&bytes);
        if fault == Fault::SwapsBytes && bytes.len() > 600 {
            bytes.swap(100, 600);
        }
        let check = if fault == Fault::SwapsBytes { crc32c(&bytes) } else { check };
        Whole { snapshot, bytes, check, fault }
    }
}

impl SnapshotSink for Sink {
    fn offset(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), SnapshotStoreError> {
        self.bytes.extend_from_slice(bytes);
        let medium = self.store.medium.clone();
        let mut disk = medium.lock();
        if self.is_replaced(&disk.now) {
            return Err("it gave way".into());
        }
        if let Some((offer, _)) = &self.offer {
            disk.step().part = Some((offer.clone(), self.bytes.clone()));
        } else if self.store.fault == Fault::CountsWhatIsBeingBuilt {
            disk.step().whole.push(self.whole());
        }
        Ok(())
    }

    fn publish(self: Box<Self>) -> Result<(), SnapshotStoreError> {
        let medium = self.store.medium.clone();
        let mut disk = medium.lock();
        if self.is_replaced(&disk.now) {
            return Err("it gave way".into());
        }
        let fault = self.store.fault;
        if let Some((offer, _)) = &self.offer {
            let found = (self.offset(), crc32c(&self.bytes));
            let wanted = (offer.len_bytes, offer.check);
            if found != wanted && fault != Fault::PublishesAnything {
                if fault != Fault::GoesOnWithWhatIsSpoiled {
                    disk.step().part = None;
                }
                return Err("not what was offered".into());
            }
        }
        if fault == Fault::PublishesInTwoSteps {
            let half = self.whole();
            let bytes = half.bytes[..half.bytes.len() / 2].to_vec();
            disk.step().whole.push(Whole { bytes, ..half });
            disk.step().whole.pop();
        }
        let now = disk.step();
        if self.offer.is_some() {
            now.part = None;
        }
        now.whole.push(self.whole());
        Ok(())
    }
}

impl SnapshotSource for Whole {
    fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn check(&self) -> u32 {
        self.check
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, SnapshotStoreError> {
        let rest = self.bytes.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(into.len());
        match self.fault {
            Fault::FailsBehindTheEnd if offset > self.len_bytes() => return Err("behind".into()),
            Fault::ReadsOnlyTheFirstPiece if offset > 0 => return Ok(0),
            _ => into[..count].copy_from_slice(&rest[..count]),
        }
        Ok(count)
    }
}

pub struct Careless(pub Fault);

impl snapshot_store::Harness for Careless {
    type Home = Store;
    type Medium = Medium;

    fn medium(&self) -> Medium {
        let medium = Medium::default();
        if self.0 == Fault::HasOneFromTheStart {
            let store = Store { medium: medium.clone(), fault: self.0 };
            let membership = Arc::new(raft_testkit::conformance::writes::founders());
            let snapshot = Snapshot {
                last: LogPosition::ZERO,
                membership,
                membership_index: raft_core::Index::ZERO,
            };
            let sink = store.build(&snapshot).expect("nothing fails");
            sink.publish().expect("nothing fails");
        }
        medium
    }

    fn open(&self, medium: &Medium) -> Result<Store, String> {
        Ok(Store { medium: medium.clone(), fault: self.0 })
    }

    fn snapshots(&self, home: &Store) -> Arc<dyn SnapshotStore> {
        Arc::new(home.clone())
    }

    fn moments(&self, medium: &Medium) -> usize {
        medium.lock().past.len()
    }

    fn power_cut(&self, medium: &Medium, moment: usize, _: u64) -> Option<Medium> {
        let disk = medium.lock();
        let mut now = disk.past.get(moment).unwrap_or(&disk.now).clone();
        if self.0 == Fault::LosesWhatItPublished && now.whole.len() > 1 {
            now.whole.pop();
        }
        Some(Medium(Arc::new(Mutex::new(Disk { now, past: Vec::new() }))))
    }

    fn damage(&self, medium: &Medium, seed: u64) -> bool {
        let mut disk = medium.lock();
        let bytes = &mut disk.now.whole.last_mut().expect("one was published").bytes;
        let place = seed as usize * 9973 % bytes.len();
        bytes[place] ^= 1;
        true
    }
}

/// Every way to be careless, and the rule that it breaks.
pub const BROKEN: [(Fault, Rule); 16] = [
    (Fault::HasOneFromTheStart, Rule::Empty),
    (Fault::SwapsBytes, Rule::Whole),
    (Fault::ReadsOnlyTheFirstPiece, Rule::Whole),
    (Fault::FailsBehindTheEnd, Rule::Whole),
    (Fault::ServesTheOldest, Rule::Newest),
    (Fault::CountsWhatIsBeingBuilt, Rule::Unpublished),
    (Fault::LosesWhatItPublished, Rule::Durable),
    (Fault::PublishesInTwoSteps, Rule::Durable),
    (Fault::MixesTransfers, Rule::GivesWay),
    (Fault::LetsTheReplacedPublish, Rule::GivesWay),
    (Fault::PublishesAnything, Rule::NotOffered),
    (Fault::GoesOnWithWhatIsSpoiled, Rule::NotOffered),
    (Fault::SkipsAByteWhenItGoesOn, Rule::Resumed),
    (Fault::RemovesTheNewest, Rule::Retain),
    (Fault::KeepsUnfinishedOnes, Rule::Retain),
    (Fault::ServesWhatIsDamaged, Rule::Damaged),
];
