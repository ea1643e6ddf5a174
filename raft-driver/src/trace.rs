//! What a node went through, as records that can be written down: one line of JSON each, so that
//! real runs can be checked and drawn, and not only simulated ones.
//!
//! ```text
//! {"node":1,"run":7,"at":1500000000,"what":{"receive":{"from":2,"term":3,"says":{"vote":{"last":[2,9]}}}}}
//! {"node":1,"run":7,"at":1500000000,"what":{"persist":{"ticket":4,"hard_state":{"term":3,"vote":2,"commit":8}}}}
//! {"node":1,"run":7,"at":1500800000,"what":{"persisted":{"ticket":4}}}
//! {"node":1,"run":7,"at":1500800000,"what":{"send":{"to":2,"term":3,"says":{"vote_reply":{"granted":true}}}}}
//! ```
//! A run begins with a [`What::Start`], which names the version of the format. Then each step of
//! the core is one record of the event and one for each effect. Effects of one step stand in an
//! order that tells a story: role and members, what is to be written, what is committed, and the
//! rest. Timers that did nothing are left out.
//!
//! Positions are pairs `[term, index]`. Entries are known by their place and a checksum: the
//! CRC-32C of their kind and their payload.
//!
//! The types here are plain numbers on purpose: a checker needs nothing else of the engine, and
//! a format is better not changed by accident.

mod recorder;
mod said;

use serde::{Deserialize, Serialize};

pub use recorder::{Recorder, Run, Sink};
pub use said::Said;

/// The version of the format that is written here.
pub const VERSION: u32 = 1;

/// One thing that happened to one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The node.
    pub node: u64,
    /// Which run of it: no two starts of a node have the same number.
    pub run: u64,
    /// When, in nanoseconds: of the simulated clock, or since 1970.
    pub at: u64,
    /// What.
    pub what: What,
}

/// A place in a log: term, then index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position(
    /// The term.
    pub u64,
    /// The index.
    pub u64,
);

/// An entry: its index, its term, its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryMark(
    /// The index.
    pub u64,
    /// The term.
    pub u64,
    /// The checksum.
    pub u32,
);

/// What a node promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardStateMark {
    /// The term.
    pub term: u64,
    /// The vote in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vote: Option<u64>,
    /// A commit index that was reached.
    pub commit: u64,
}

/// Who belongs to the group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MembersMark {
    /// Where that stands in the log; zero for the founders.
    pub index: u64,
    /// Who votes.
    pub voters: Vec<u64>,
    /// In a joint phase, who voted before: both need a majority.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outgoing: Vec<u64>,
    /// Who only learns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub learners: Vec<u64>,
}

/// What a node found when it started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The format's version.
    pub version: u32,
    /// Which disk, where it has a name: promises are bound to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<u64>,
    /// What it promised.
    pub hard_state: HardStateMark,
    /// What the state machine holds.
    pub applied: u64,
    /// Before the first entry of the log.
    pub base: Position,
    /// The last entry.
    pub last: Position,
    /// The terms of the log: each where it begins, as `[term, index]`.
    pub terms: Vec<Position>,
    /// The end of the newest snapshot.
    pub snapshot: Position,
    /// The end of the log as it was before it was damaged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Position>,
    /// The members in force.
    pub members: MembersMark,
}

/// What happened, and what a node wanted done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The node starts.
    Start(Box<Start>),
    /// It ends by itself.
    Stop,
    /// It is killed, or loses power. Only a simulator knows.
    Crash,
    /// So many records could not be kept. What follows until the next start does not continue
    /// what was before.
    Gap {
        /// How many.
        records: u64,
    },
    /// A timer was due, and something came of it.
    Timer,
    /// A message arrived.
    Receive {
        /// Who sent it.
        from: u64,
        /// The sender's term.
        term: u64,
        /// What it says.
        says: Said,
    },
    /// Somebody proposes entries here.
    Propose {
        /// How many.
        count: u64,
    },
    /// Somebody wants to read here.
    Read {
        /// How many.
        count: u64,
        /// Whether a lease will do.
        lease: bool,
    },
    /// Somebody wants other members.
    ChangeMembership {
        /// How many changes at once.
        changes: u64,
    },
    /// Somebody wants another leader.
    TransferLeadership {
        /// Which, or the best.
        to: Option<u64>,
    },
    /// A peer has shown its disk.
    Identified {
        /// The peer.
        peer: u64,
        /// The disk.
        disk: u64,
    },
    /// This write, and all before it, is durable.
    Persisted {
        /// The write.
        ticket: u64,
    },
    /// A write failed: the end of all promises.
    StorageFailed,
    /// Entries were read back for a peer.
    Loaded {
        /// The peer.
        peer: u64,
        /// How many.
        count: u64,
    },
    /// The state machine has come so far.
    Applied {
        /// The index.
        index: u64,
    },
    /// A snapshot taken here is durable.
    SnapshotTaken {
        /// Its end.
        last: Position,
    },
    /// A snapshot has arrived, and is durable.
    SnapshotReceived {
        /// Who sent it.
        from: u64,
        /// The sender's term.
        term: u64,
        /// Its end.
        last: Position,
    },
    /// A peer has, or has not, been sent a snapshot.
    SnapshotSent {
        /// The peer.
        peer: u64,
        /// The end of what it has now.
        last: Option<Position>,
    },
    /// Role, term or known leader changed.
    Role {
        /// The term.
        term: u64,
        /// The role.
        role: Role,
        /// The leader.
        leader: Option<u64>,
        /// The end of the log.
        last: Position,
    },
    /// The members in force changed.
    Members(MembersMark),
    /// Write this.
    Persist(Persist),
    /// So much is known to be committed.
    Commit {
        /// The index.
        index: u64,
    },
    /// Send this, or drop it.
    Send {
        /// To whom.
        to: u64,
        /// In which term.
        term: u64,
        /// What it says.
        says: Said,
    },
    /// Apply these entries.
    Apply {
        /// The first.
        first: u64,
        /// The last.
        last: u64,
    },
    /// Replace the state by a snapshot.
    Install {
        /// Its end.
        last: Position,
    },
    /// Send a snapshot.
    SendSnapshot {
        /// To whom.
        peer: u64,
        /// It covers at least this.
        at_least: Position,
    },
    /// No snapshot is to be sent any more.
    CancelSnapshots,
    /// Read entries for a peer.
    Load {
        /// The peer.
        peer: u64,
        /// The first.
        first: u64,
        /// The last.
        last: u64,
    },
    /// Reads may be served.
    ReadReady {
        /// How many.
        count: u64,
        /// Once so much is applied.
        index: u64,
        /// Whether that rests on a lease.
        lease: bool,
    },
    /// Leadership was handed over.
    Transferred {
        /// To whom.
        leader: u64,
    },
    /// Proposals ended.
    Resolve {
        /// How many.
        count: u64,
        /// How.
        outcome: Outcome,
    },
    /// Requests were refused.
    Refuse {
        /// How many.
        count: u64,
        /// Why.
        reason: String,
    },
    /// A peer no longer holds what it acknowledged.
    PeerRegressed {
        /// The peer.
        peer: u64,
        /// What it had acknowledged.
        acknowledged: u64,
        /// What it holds at most.
        holds: u64,
    },
}

/// One atomic write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Persist {
    /// Its number.
    pub ticket: u64,
    /// First, cut the log behind this index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncate: Option<u64>,
    /// Then append these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<EntryMark>,
    /// Promise this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard_state: Option<HardStateMark>,
    /// Note a snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotNote>,
}

/// A snapshot is durable, and the log begins after `base`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotNote {
    /// The snapshot's end.
    pub last: Position,
    /// Before the first entry that is kept.
    pub base: Position,
}

/// A role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Follows, or waits.
    Follower,
    /// Asks whether it would win.
    PreCandidate,
    /// Stands.
    Candidate,
    /// Leads.
    Leader,
}

/// How proposals ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Committed, from this index on.
    Committed(u64),
    /// Surely not executed: others stand in their place.
    Superseded,
    /// Nobody knows.
    Unknown,
}

impl What {
    /// Whether it begins a step: what comes behind it, up to the next such record of the node, is
    /// what the node wanted done about it.
    pub fn is_event(&self) -> bool {
        match self {
            Self::Start(_)
            | Self::Stop
            | Self::Crash
            | Self::Gap { .. }
            | Self::Timer
            | Self::Receive { .. }
            | Self::Propose { .. }
            | Self::Read { .. }
            | Self::ChangeMembership { .. }
            | Self::TransferLeadership { .. }
            | Self::Identified { .. }
            | Self::Persisted { .. }
            | Self::StorageFailed
            | Self::Loaded { .. }
            | Self::Applied { .. }
            | Self::SnapshotTaken { .. }
            | Self::SnapshotReceived { .. }
            | Self::SnapshotSent { .. } => true,
            Self::Role { .. }
            | Self::Members(_)
            | Self::Persist(_)
            | Self::Commit { .. }
            | Self::Send { .. }
            | Self::Apply { .. }
            | Self::Install { .. }
            | Self::SendSnapshot { .. }
            | Self::CancelSnapshots
            | Self::Load { .. }
            | Self::ReadReady { .. }
            | Self::Transferred { .. }
            | Self::Resolve { .. }
            | Self::Refuse { .. }
            | Self::PeerRegressed { .. } => false,
        }
    }
}
