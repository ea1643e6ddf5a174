//! What can be changed about a group, and what comes of it. Pure algebra: whether the group may
//! be changed at this moment is for the leader to say.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::{After, Member, Membership, Standing};
use crate::{Incarnation, Index, NodeId, seeded};

/// The longest address of a member, in bytes.
const ADDRESS_BYTES_MAX: usize = 4096;
/// More members than any group has.
const MEMBERS_MAX: usize = 1024;

/// A node that is to be added.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NewMember {
    /// An id that no member has or ever had.
    pub id: NodeId,
    /// Where the others reach it; no two members have the same. May be empty.
    pub address: String,
}

/// One change of a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Change {
    /// Adds a voter: a learner first, and a voter as soon as it has caught up (thesis §4.2.1).
    AddVoter(NewMember),
    /// Adds a learner that stays one.
    AddLearner(NewMember),
    /// Makes a voter of a learner that has caught up.
    Promote(NodeId),
    /// Makes a learner of a voter.
    Demote(NodeId),
    /// Removes a member for ever. Where voters are added in the same set, it leaves when they
    /// join, so that the group never has fewer voters than before.
    Remove(NodeId),
    /// Moves a member to another address.
    SetAddress(NodeId, String),
    /// Gives a member another priority.
    SetPriority(NodeId, u8),
    /// Notes a member's disk.
    SetIncarnation(NodeId, Incarnation),
    /// Gives up what is pending: nobody is promoted by itself any more, and nobody retires.
    Cancel,
}

/// Changes that are made together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ChangeSet {
    /// The changes, in any order.
    pub changes: Vec<Change>,
    /// The index of the configuration that the caller has seen: the set is refused when it is
    /// not the one in force, so that two operators cannot overwrite each other.
    pub expected: Option<Index>,
    /// Change the group even where too few of the voters to come are alive.
    pub force: bool,
}

/// Why a set of changes is refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ChangeError {
    /// There is no such member.
    UnknownMember(NodeId),
    /// There is such a member already.
    DuplicateMember(NodeId),
    /// There was such a member; its id is never given again.
    RemovedMember(NodeId),
    /// This member has the address already.
    DuplicateAddress(NodeId),
    /// The address of this member is too long.
    AddressTooLong(NodeId),
    /// The group has as many members as it can have.
    TooManyMembers,
    /// The set says two things about one member.
    Contradiction(NodeId),
    /// No voter would be left.
    NoVoterLeft,
    /// Only a learner can be promoted.
    NotLearner(NodeId),
    /// Only a voter can be demoted.
    NotVoter(NodeId),
    /// The learner has not caught up, or is not heard.
    LearnerLags(NodeId),
    /// Another change is under way.
    InProgress,
    /// The configuration in force is another one.
    NotExpected {
        /// Its index.
        in_force: Index,
    },
    /// The leader is too new: an entry of its term must be committed first. Try again soon.
    TooEarly,
    /// Too few of the voters to come are alive: the group could not go on.
    NoLiveQuorum,
    /// Everything is so already.
    NothingChanges,
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownMember(id) => write!(f, "there is no member {id}"),
            Self::DuplicateMember(id) => write!(f, "there is a member {id} already"),
            Self::RemovedMember(id) => write!(
                f,
                "member {id} was removed, and an id is never given again; add it under another"
            ),
            Self::DuplicateAddress(id) => write!(f, "member {id} has that address already"),
            Self::AddressTooLong(id) => {
                write!(f, "the address of member {id} is longer than {ADDRESS_BYTES_MAX} bytes")
            }
            Self::TooManyMembers => write!(f, "a group has at most {MEMBERS_MAX} members"),
            Self::Contradiction(id) => {
                write!(f, "the changes say two things about member {id}; make them one by one")
            }
            Self::NoVoterLeft => f.write_str("no voter would be left; add another one first"),
            Self::NotLearner(id) => write!(f, "member {id} is no learner, so it needs no vote"),
            Self::NotVoter(id) => write!(f, "member {id} does not vote"),
            Self::LearnerLags(id) => write!(
                f,
                "learner {id} has not caught up with the leader, or is not heard; try again when \
                 it has"
            ),
            Self::InProgress => {
                f.write_str("another change of the members is under way; try again when it is done")
            }
            Self::NotExpected { in_force } => write!(
                f,
                "the members were changed in the meantime (the configuration in force is that of \
                 index {in_force}); look again"
            ),
            Self::TooEarly => f.write_str("the leader has only just begun to lead; try again"),
            Self::NoLiveQuorum => f.write_str(
                "too few of the voters to come are alive for the group to go on; start them \
                 first, or force the change",
            ),
            Self::NothingChanges => f.write_str("everything is so already"),
        }
    }
}

impl core::error::Error for ChangeError {}

impl Membership {
    /// The group after `changes`; where they change who votes, it is in a joint phase, or waits
    /// for learners to catch up. `has_caught_up` says of a learner whether it could vote now.
    ///
    /// # Errors
    /// The first change that cannot be made, with the reason.
    pub fn changed(
        &self,
        changes: &[Change],
        has_caught_up: impl Fn(NodeId) -> bool,
    ) -> Result<Self, ChangeError> {
        if self.is_joint() {
            return Err(ChangeError::InProgress);
        }
        let is_cancel = |change: &Change| matches!(change, Change::Cancel);
        if self.is_replacing() && !changes.iter().all(|it| is_cancel(it) || it.is_data()) {
            return Err(ChangeError::InProgress);
        }
        let mut after = self.clone();
        for (at, change) in changes.iter().enumerate() {
            if let Some(id) = change.about()
                && changes[..at].iter().any(|other| other.says_the_same_of(id, change))
            {
                return Err(ChangeError::Contradiction(id));
            }
            after.make(change, &has_caught_up)?;
        }
        let adds = |change: &Change| matches!(change, Change::AddVoter(_));
        // Whoever retires for a learner waits for it, whatever else is noted meanwhile.
        let waits = changes.iter().any(adds) || (self.is_replacing() && after.is_replacing());
        if !waits {
            after.enter(|_| false);
        }
        after.count();
        if after.voters.is_empty() || after.has_only_retiring() {
            return Err(ChangeError::NoVoterLeft);
        }
        if after == *self {
            return Err(ChangeError::NothingChanges);
        }
        Ok(after)
    }

    /// The group when those who wait to be promoted are, and those who retire for them leave;
    /// `None` while nobody is ready. A set that also retires voters waits for all.
    #[must_use]
    pub fn promoted(&self, is_ready: impl Fn(NodeId) -> bool) -> Option<Self> {
        let mut waiting = self.members.iter().filter(|member| member.is_to_be_promoted());
        let may_enter = match self.is_replacing() {
            true => waiting.all(|it| is_ready(it.id)),
            false => waiting.any(|it| is_ready(it.id)),
        };
        // Asked after every commit: a copy is made only where something changes.
        if self.is_joint() || !may_enter {
            return None;
        }
        let mut after = self.clone();
        after.enter(is_ready);
        after.count();
        after.is_joint().then_some(after)
    }

    /// The group when the joint phase is over; `None` where there is none.
    #[must_use]
    pub fn left(&self) -> Option<Self> {
        if !self.is_joint() {
            return None;
        }
        let mut after = self.clone();
        for member in &self.members {
            match member.standing {
                Standing::Joining => after.get(member.id).standing = Standing::VOTER,
                Standing::Leaving(After::Learner) => {
                    after.get(member.id).standing = Standing::LEARNER;
                }
                Standing::Leaving(After::Gone) => after.forget(member.id),
                Standing::Learner { .. } | Standing::Voter { .. } => {}
            }
        }
        after.count();
        Some(after)
    }

    /// Whether voters wait to be replaced by others.
    fn is_replacing(&self) -> bool {
        let retires = |it: &Member| matches!(it.standing, Standing::Voter { retiring: Some(_) });
        self.members.iter().any(retires)
    }

    fn has_only_retiring(&self) -> bool {
        let stays = |member: &Member| match member.standing {
            Standing::Learner { promote } => promote,
            Standing::Voter { retiring } => retiring.is_none(),
            Standing::Joining => true,
            Standing::Leaving(_) => false,
        };
        !self.members.iter().any(stays)
    }

    /// Enters the joint phase for those who are ready and those who retire.
    fn enter(&mut self, is_ready: impl Fn(NodeId) -> bool) {
        for member in &mut self.members {
            member.standing = match member.standing {
                Standing::Learner { promote: true } if is_ready(member.id) => Standing::Joining,
                Standing::Voter { retiring: Some(after) } => Standing::Leaving(after),
                other => other,
            };
        }
    }

    fn make(
        &mut self,
        change: &Change,
        has_caught_up: impl Fn(NodeId) -> bool,
    ) -> Result<(), ChangeError> {
        match change {
            Change::AddVoter(new) => self.add(new, Standing::Learner { promote: true }),
            Change::AddLearner(new) => self.add(new, Standing::LEARNER),
            Change::Promote(id) => {
                let member = self.find(*id)?;
                if !matches!(member.standing, Standing::Learner { .. }) {
                    return Err(ChangeError::NotLearner(*id));
                }
                if !has_caught_up(*id) {
                    return Err(ChangeError::LearnerLags(*id));
                }
                member.standing = Standing::Joining;
                Ok(())
            }
            Change::Demote(id) => {
                let member = self.find(*id)?;
                if !matches!(member.standing, Standing::Voter { .. }) {
                    return Err(ChangeError::NotVoter(*id));
                }
                member.standing = Standing::Voter { retiring: Some(After::Learner) };
                Ok(())
            }
            Change::Remove(id) => {
                let member = self.find(*id)?;
                match member.standing {
                    Standing::Learner { .. } => self.forget(*id),
                    _ => member.standing = Standing::Voter { retiring: Some(After::Gone) },
                }
                Ok(())
            }
            Change::SetAddress(id, address) => {
                self.find(*id)?;
                self.check_address(*id, address)?;
                self.get(*id).address = address.to_owned();
                Ok(())
            }
            Change::SetPriority(id, priority) => {
                self.find(*id)?.priority = *priority;
                Ok(())
            }
            Change::SetIncarnation(id, incarnation) => {
                self.find(*id)?.incarnation = Some(*incarnation);
                Ok(())
            }
            Change::Cancel => {
                for member in &mut self.members {
                    member.standing = match member.standing {
                        Standing::Learner { .. } => Standing::LEARNER,
                        Standing::Voter { .. } => Standing::VOTER,
                        other => other,
                    };
                }
                Ok(())
            }
        }
    }

    fn add(&mut self, new: &NewMember, standing: Standing) -> Result<(), ChangeError> {
        if self.was_removed(new.id) && !seeded!(RemovedComesBack) {
            return Err(ChangeError::RemovedMember(new.id));
        }
        self.check_address(new.id, &new.address)?;
        if self.members.len() >= MEMBERS_MAX {
            return Err(ChangeError::TooManyMembers);
        }
        let NewMember { id, address } = new.clone();
        match self.members.binary_search_by_key(&id, |member| member.id) {
            Ok(_) => Err(ChangeError::DuplicateMember(id)),
            Err(at) => {
                let member = Member { id, standing, address, incarnation: None, priority: 0 };
                self.members.insert(at, member);
                Ok(())
            }
        }
    }

    fn check_address(&self, id: NodeId, address: &str) -> Result<(), ChangeError> {
        if address.len() > ADDRESS_BYTES_MAX {
            return Err(ChangeError::AddressTooLong(id));
        }
        let mut others = self.members.iter().filter(|member| member.id != id);
        match others.find(|member| !address.is_empty() && member.address == address) {
            Some(other) => Err(ChangeError::DuplicateAddress(other.id)),
            None => Ok(()),
        }
    }

    fn find(&mut self, id: NodeId) -> Result<&mut Member, ChangeError> {
        match self.members.binary_search_by_key(&id, |member| member.id) {
            Ok(at) => Ok(&mut self.members[at]),
            Err(_) => Err(ChangeError::UnknownMember(id)),
        }
    }

    fn get(&mut self, id: NodeId) -> &mut Member {
        self.find(id).expect("it is a member")
    }

    fn forget(&mut self, id: NodeId) {
        self.members.retain(|member| member.id != id);
        if let Err(at) = self.removed.binary_search(&id) {
            self.removed.insert(at, id);
        }
    }
}

impl Member {
    fn is_to_be_promoted(&self) -> bool {
        self.standing == Standing::Learner { promote: true }
    }
}

impl Change {
    /// The member that it is about.
    fn about(&self) -> Option<NodeId> {
        match self {
            Self::AddVoter(new) | Self::AddLearner(new) => Some(new.id),
            Self::Promote(id)
            | Self::Demote(id)
            | Self::Remove(id)
            | Self::SetAddress(id, _)
            | Self::SetPriority(id, _)
            | Self::SetIncarnation(id, _) => Some(*id),
            Self::Cancel => None,
        }
    }

    /// Whether it leaves alone who votes, now and later.
    fn is_data(&self) -> bool {
        matches!(self, Self::SetAddress(..) | Self::SetPriority(..) | Self::SetIncarnation(..))
    }

    fn says_the_same_of(&self, id: NodeId, other: &Self) -> bool {
        let same = core::mem::discriminant(self) == core::mem::discriminant(other);
        self.about() == Some(id) && (same || (!self.is_data() && !other.is_data()))
    }
}
