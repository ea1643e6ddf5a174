//! The model: who learns, votes, joins and leaves, in sets, and the rules said once more.

use std::collections::{BTreeMap, BTreeSet};

use raft_core::{After, Change, Incarnation, NodeId};

/// What a group knows of a member beside its part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Data {
    address: String,
    incarnation: u64,
    priority: u8,
}

/// A group. Every key of `data` is in exactly one of the other sets, `removed` excepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plain {
    data: BTreeMap<u64, Data>,
    /// Whether they are promoted by themselves.
    learners: BTreeMap<u64, bool>,
    /// What becomes of them, where they wait to be replaced.
    voters: BTreeMap<u64, Option<After>>,
    joining: BTreeSet<u64>,
    leaving: BTreeMap<u64, After>,
    removed: BTreeSet<u64>,
}

impl Plain {
    pub(super) fn founded(voters: u64) -> Self {
        Self {
            data: (1..=voters).map(|id| (id, Data::default())).collect(),
            voters: (1..=voters).map(|id| (id, None)).collect(),
            ..Self::default()
        }
    }

    pub(super) fn is_joint(&self) -> bool {
        !self.joining.is_empty() || !self.leaving.is_empty()
    }

    pub(super) fn is_learner(&self, id: u64) -> bool {
        self.learners.contains_key(&id)
    }

    /// Who votes in the configuration that is entered, or in force.
    pub(super) fn entered(&self) -> Vec<u64> {
        let stay: BTreeSet<u64> = self.voters.keys().copied().collect();
        stay.union(&self.joining).copied().collect()
    }

    /// Who votes in the one that is left.
    pub(super) fn outgoing(&self) -> Vec<u64> {
        let stay: BTreeSet<u64> = self.voters.keys().copied().collect();
        let leave: BTreeSet<u64> = self.leaving.keys().copied().collect();
        if self.is_joint() { stay.union(&leave).copied().collect() } else { Vec::new() }
    }

    pub(super) fn has_quorum(&self, agrees: impl Fn(u64) -> bool) -> bool {
        let majority =
            |voters: Vec<u64>| 2 * voters.iter().filter(|id| agrees(**id)).count() > voters.len();
        majority(self.entered()) && (!self.is_joint() || majority(self.outgoing()))
    }

    fn is_replacing(&self) -> bool {
        self.voters.values().any(Option::is_some)
    }

    pub(super) fn changed(
        &self,
        changes: &[Change],
        caught_up: impl Fn(u64) -> bool,
    ) -> Option<Self> {
        let leaves_voters_alone = |change: &Change| is_data(change) || *change == Change::Cancel;
        let is_replacing = self.is_replacing();
        if self.is_joint() || is_replacing && !changes.iter().all(leaves_voters_alone) {
            return None;
        }
        for (at, change) in changes.iter().enumerate() {
            if changes[..at].iter().any(|other| contradict(other, change)) {
                return None;
            }
        }
        let mut after = self.clone();
        for change in changes {
            after.make(change, &caught_up)?;
        }
        // Voters leave when those come who take their places; where nobody comes, at once.
        let adds = changes.iter().any(|change| matches!(change, Change::AddVoter(_)));
        if !adds && !is_replacing {
            after.enter(|_| false);
        }
        let stays = after.voters.values().any(Option::is_none)
            || !after.joining.is_empty()
            || after.learners.values().any(|promote| *promote);
        (stays && !after.entered().is_empty() && after != *self).then_some(after)
    }

    fn make(&mut self, change: &Change, caught_up: impl Fn(u64) -> bool) -> Option<()> {
        match change {
            Change::AddVoter(new) => self.add(new.id.get(), &new.address, true),
            Change::AddLearner(new) => self.add(new.id.get(), &new.address, false),
            Change::Promote(id) => {
                let id = id.get();
                self.learners.remove(&id).filter(|_| caught_up(id))?;
                self.joining.insert(id);
                Some(())
            }
            Change::Demote(id) => {
                *self.voters.get_mut(&id.get())? = Some(After::Learner);
                Some(())
            }
            Change::Remove(id) => {
                let id = id.get();
                if self.learners.remove(&id).is_some() {
                    self.forget(id);
                } else {
                    *self.voters.get_mut(&id)? = Some(After::Gone);
                }
                Some(())
            }
            Change::SetAddress(id, address) => {
                let is_free = self.is_free(id.get(), address);
                self.data.get_mut(&id.get()).filter(|_| is_free)?.address.clone_from(address);
                Some(())
            }
            Change::SetPriority(id, priority) => {
                self.data.get_mut(&id.get())?.priority = *priority;
                Some(())
            }
            Change::SetIncarnation(id, incarnation) => {
                self.data.get_mut(&id.get())?.incarnation = Incarnation::get(*incarnation);
                Some(())
            }
            Change::Cancel => {
                self.learners.values_mut().for_each(|promote| *promote = false);
                self.voters.values_mut().for_each(|retiring| *retiring = None);
                Some(())
            }
        }
    }

    fn add(&mut self, id: u64, address: &str, promote: bool) -> Option<()> {
        let known = self.data.contains_key(&id) || self.removed.contains(&id);
        if known || !self.is_free(id, address) {
            return None;
        }
        self.data.insert(id, Data { address: address.to_owned(), ..Data::default() });
        self.learners.insert(id, promote);
        Some(())
    }

    fn is_free(&self, id: u64, address: &str) -> bool {
        let has_it = |(other, data): (&u64, &Data)| *other != id && data.address == address;
        address.is_empty() || !self.data.iter().any(has_it)
    }

    fn forget(&mut self, id: u64) {
        self.data.remove(&id);
        self.removed.insert(id);
    }

    fn enter(&mut self, is_ready: impl Fn(u64) -> bool) {
        let comes = |id: &u64, promote: &mut bool| *promote && is_ready(*id);
        self.joining.extend(self.learners.extract_if(.., comes).map(|(id, _)| id));
        let leaves = self.voters.extract_if(.., |_, retiring| retiring.is_some());
        self.leaving.extend(leaves.filter_map(|(id, retiring)| Some((id, retiring?))));
    }

    pub(super) fn promoted(&self, is_ready: impl Fn(u64) -> bool) -> Option<Self> {
        let mut waiting = self.learners.iter().filter(|(_, promote)| **promote);
        // Who is to be replaced stays until all who replace are ready.
        let may_enter = match self.is_replacing() {
            true => waiting.all(|(id, _)| is_ready(*id)),
            false => waiting.any(|(id, _)| is_ready(*id)),
        };
        let mut after = self.clone();
        after.enter(is_ready);
        (!self.is_joint() && may_enter && after.is_joint()).then_some(after)
    }

    pub(super) fn left(&self) -> Option<Self> {
        let mut after = self.clone();
        after.voters.extend(std::mem::take(&mut after.joining).into_iter().map(|id| (id, None)));
        for (id, becomes) in std::mem::take(&mut after.leaving) {
            match becomes {
                After::Learner => drop(after.learners.insert(id, false)),
                After::Gone => after.forget(id),
            }
        }
        self.is_joint().then_some(after)
    }

    /// As it is drawn in the core.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![1];
        bytes.extend((self.data.len() as u32).to_le_bytes());
        bytes.extend((self.removed.len() as u32).to_le_bytes());
        bytes.extend(self.removed.iter().flat_map(|id| id.to_le_bytes()));
        for (id, data) in &self.data {
            bytes.extend(id.to_le_bytes());
            bytes.extend(data.incarnation.to_le_bytes());
            bytes.extend([self.standing(*id), data.priority]);
            bytes.extend((data.address.len() as u16).to_le_bytes());
            bytes.extend(data.address.as_bytes());
        }
        bytes
    }

    fn standing(&self, id: u64) -> u8 {
        let leaves = |after: &After| u8::from(*after == After::Learner);
        if let Some(promote) = self.learners.get(&id) {
            return u8::from(*promote);
        }
        if let Some(retiring) = self.voters.get(&id) {
            return retiring.as_ref().map_or(2, |after| 3 + leaves(after));
        }
        self.leaving.get(&id).map_or(5, |after| 6 + leaves(after))
    }
}

fn is_data(change: &Change) -> bool {
    matches!(change, Change::SetAddress(..) | Change::SetPriority(..) | Change::SetIncarnation(..))
}

/// Two changes of one member contradict each other where they are of one kind, or both are about
/// its part in the group.
fn contradict(one: &Change, other: &Change) -> bool {
    let same_kind = std::mem::discriminant(one) == std::mem::discriminant(other);
    let same_member = about(one).is_some() && about(one) == about(other);
    same_member && (same_kind || !is_data(one) && !is_data(other))
}

fn about(change: &Change) -> Option<NodeId> {
    match change {
        Change::AddVoter(new) | Change::AddLearner(new) => Some(new.id),
        Change::Promote(id) | Change::Demote(id) | Change::Remove(id) => Some(*id),
        Change::SetAddress(id, _) | Change::SetPriority(id, _) => Some(*id),
        Change::SetIncarnation(id, _) => Some(*id),
        Change::Cancel => None,
    }
}
