//! Who belongs to a group, who votes, and what a majority of them is (Raft §6).
//!
//! ```text
//!              promote            enter joint           leave joint
//!   (nobody) ─────────▶ Learner ─────────────▶ Joining ────────────▶ Voter
//!                          ▲                                           │
//!                          └──────────────── Leaving ◀─────────────────┘
//!   (nobody) ◀───────────────────────────────┘            enter joint
//! ```
//!
//! While somebody is `Joining` or `Leaving`, two configurations are in force together, and every
//! decision needs a majority of each (Raft §6, joint consensus). There is no other way from one
//! set of voters to another.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::{Incarnation, NodeId, seeded};

mod change;
mod encoding;

pub use change::{Change, ChangeError, ChangeSet, NewMember};
pub use encoding::MembershipDecodeError;

/// One node of a group, as the group knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Member {
    /// Its name for ever: the id of a member that was removed is never given again.
    pub id: NodeId,
    /// Whether its voice counts.
    pub standing: Standing,
    /// Where the others reach it. Opaque to Raft; empty where it is not known.
    pub address: String,
    /// The disk that its promises lie on, once it is known. A node that comes back with another
    /// one has lost them, and is not this member any more.
    pub incarnation: Option<Incarnation>,
    /// Among live members that have caught up, the one of the highest priority is to lead.
    pub priority: u8,
}

/// Whether a member's voice counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Standing {
    /// Is sent the log, and does not vote. To be promoted: as soon as it has caught up and lives.
    Learner {
        /// Becomes a voter by itself.
        promote: bool,
    },
    /// Votes. Retiring: leaves as soon as those that are to take its place can join.
    Voter {
        /// What becomes of it then, where it is retiring.
        retiring: Option<After>,
    },
    /// Votes in the configuration that is being entered.
    Joining,
    /// Votes in the configuration that is being left.
    Leaving(After),
}

/// What becomes of a voter that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum After {
    /// It is removed, for ever.
    Gone,
    /// It stays as a learner.
    Learner,
}

impl Standing {
    /// A voter that stays one.
    pub const VOTER: Self = Self::Voter { retiring: None };
    /// A learner that stays one.
    pub const LEARNER: Self = Self::Learner { promote: false };
}

/// The members of a group. Without any voter it is the knowledge of a node that has not joined
/// yet, and has no majority.
///
/// Invariants: `members` and `removed` ascend and share no id; `voters` and `outgoing` follow from
/// `members`, and `outgoing` is empty unless somebody is joining or leaving.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Membership {
    members: Vec<Member>,
    removed: Vec<NodeId>,
    /// Who votes in the configuration in force, or in the one that is being entered.
    voters: Vec<NodeId>,
    /// Who votes in the one that is being left.
    outgoing: Vec<NodeId>,
}

impl Membership {
    /// A group of these voters, or `None` when there are none.
    pub fn new(voters: impl IntoIterator<Item = NodeId>) -> Option<Self> {
        Self::founded(voters.into_iter().map(|id| (id, "")))
    }

    /// A group of these voters and their addresses, or `None` when there are none.
    pub fn founded<'a>(voters: impl IntoIterator<Item = (NodeId, &'a str)>) -> Option<Self> {
        let member = |(id, address): (NodeId, &str)| Member {
            id,
            standing: Standing::VOTER,
            address: address.to_owned(),
            incarnation: None,
            priority: 0,
        };
        let group = Self::from_parts(voters.into_iter().map(member).collect(), Vec::new())?;
        (!group.voters.is_empty()).then_some(group)
    }

    /// What a node knows that has not joined its group yet: nothing.
    pub fn unknown() -> Self {
        Self::default()
    }

    /// Puts a group together; `None` where an id stands in it twice.
    fn from_parts(mut members: Vec<Member>, mut removed: Vec<NodeId>) -> Option<Self> {
        members.sort_by_key(|member| member.id);
        removed.sort_unstable();
        let ids: BTreeSet<NodeId> = members.iter().map(|member| member.id).collect();
        let gone: BTreeSet<NodeId> = removed.iter().copied().collect();
        let unique = ids.len() == members.len() && gone.len() == removed.len();
        if !unique || !ids.is_disjoint(&gone) {
            return None;
        }
        let mut group = Self { members, removed, voters: Vec::new(), outgoing: Vec::new() };
        group.count();
        Some(group)
    }

    /// Draws the voters out of the members.
    fn count(&mut self) {
        self.voters.clear();
        self.outgoing.clear();
        let mut is_joint = false;
        for member in &self.members {
            match member.standing {
                Standing::Learner { .. } => {}
                Standing::Voter { .. } => {
                    self.voters.push(member.id);
                    self.outgoing.push(member.id);
                }
                Standing::Joining => self.voters.push(member.id),
                Standing::Leaving(_) => self.outgoing.push(member.id),
            }
            is_joint |= matches!(member.standing, Standing::Joining | Standing::Leaving(_));
        }
        if !is_joint {
            self.outgoing.clear();
        }
    }

    /// Everybody, by id.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The member `id`.
    pub fn member(&self, id: NodeId) -> Option<&Member> {
        let at = self.members.binary_search_by_key(&id, |member| member.id).ok()?;
        Some(&self.members[at])
    }

    /// Everybody who was removed, by id.
    pub fn removed(&self) -> &[NodeId] {
        &self.removed
    }

    /// Whether `id` was a member once and will never be one again.
    pub fn was_removed(&self, id: NodeId) -> bool {
        self.removed.binary_search(&id).is_ok()
    }

    /// The voters, ascending; in a joint phase those of the configuration that is being entered.
    pub fn voters(&self) -> impl ExactSizeIterator<Item = NodeId> + '_ {
        self.voters.iter().copied()
    }

    /// In a joint phase the voters of the configuration that is being left, else nobody.
    pub fn outgoing(&self) -> impl ExactSizeIterator<Item = NodeId> + '_ {
        self.outgoing.iter().copied()
    }

    /// Whether two configurations are in force together.
    pub fn is_joint(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Whether `node` votes, in either configuration.
    pub fn is_voter(&self, node: NodeId) -> bool {
        self.voters.contains(&node) || self.outgoing.contains(&node)
    }

    /// Whether `node` is a member that does not vote.
    pub fn is_learner(&self, node: NodeId) -> bool {
        let standing = self.member(node).map(|member| member.standing);
        matches!(standing, Some(Standing::Learner { .. }))
    }

    /// How many voters make a majority; in a joint phase, of the configuration being entered.
    pub fn quorum(&self) -> usize {
        majority(self.voters.len())
    }

    /// Whether `agrees` holds for a majority, in a joint phase of each configuration.
    pub fn has_quorum(&self, agrees: impl Fn(NodeId) -> bool) -> bool {
        let holds = |voters: &[NodeId]| {
            voters.iter().filter(|&&voter| agrees(voter)).count() >= majority(voters.len())
        };
        let one_is_enough = !self.is_joint() || seeded!(JointCountsNewOnly);
        holds(&self.voters) && (one_is_enough || holds(&self.outgoing))
    }

    /// The largest value that a majority has reached, in a joint phase of each configuration:
    /// with match indexes, what is committed (Raft §5.3, §6); with times, since when a quorum
    /// has been heard. `None` where nobody votes. `scratch` is only space.
    pub(crate) fn quorum_value<T: Ord + Copy>(
        &self,
        scratch: &mut Vec<T>,
        value: impl Fn(NodeId) -> T,
    ) -> Option<T> {
        let mut reached = |voters: &[NodeId]| {
            scratch.clear();
            scratch.extend(voters.iter().map(|&voter| value(voter)));
            scratch.sort_unstable();
            scratch.get(voters.len().checked_sub(majority(voters.len()))?).copied()
        };
        let entered = reached(&self.voters)?;
        if !self.is_joint() || seeded!(JointCountsNewOnly) {
            return Some(entered);
        }
        Some(entered.min(reached(&self.outgoing)?))
    }
}

fn majority(voters: usize) -> usize {
    if seeded!(HalfIsMajority) { voters.div_ceil(2) } else { voters / 2 + 1 }
}

/// The members by id, and what is special about each: `1, 2, 3 (learner)`.
impl fmt::Display for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, member) in self.members.iter().enumerate() {
            let standing = match member.standing {
                Standing::Learner { promote: false } => " (learner)",
                Standing::Learner { promote: true } => " (learner, to be promoted)",
                Standing::Voter { retiring: None } => "",
                Standing::Voter { retiring: Some(_) } => " (retiring)",
                Standing::Joining => " (joining)",
                Standing::Leaving(_) => " (leaving)",
            };
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{}{standing}", member.id)?;
        }
        Ok(())
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Membership {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (&self.members, &self.removed).serialize(serializer)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Membership {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (members, removed) = serde::Deserialize::deserialize(deserializer)?;
        Self::from_parts(members, removed)
            .ok_or_else(|| serde::de::Error::custom("an id stands in the membership twice"))
    }
}

#[cfg(test)]
mod tests;
