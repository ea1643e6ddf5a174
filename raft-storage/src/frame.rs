//! The frames that the stream of a segment is made of.
//!
//! ```text
//!   0        4        8         12     13     14      16      24      32
//!   +--------+--------+---------+------+------+-------+-------+-------+---------...
//!   | header | payload| payload | kind | form | group | index | term  | payload
//!   | check  | length | check   |      |      |       |       |       |
//!   +--------+--------+---------+------+------+-------+-------+-------+---------...
//!   header check   CRC-32C of the bytes 4..32
//!   payload check  CRC-32C of the payload
//!   group          0; other groups may share a log one day
//!
//!   kind            form                index         term         payload
//!   1 entry         0 empty, 1 command, its own       its own      the command; the members
//!                   2 membership
//!   2 truncate      0                   the new last  its term     none
//!   3 hard state    0                   commit        term         vote, u64 (0: none)
//!   4 commit        0                   the last      its term     batch    u64: its number
//!                                                                  synced   u64: the newest batch
//!                                                                           known to be synced
//!                                                                  term, vote  u64 each: the
//!                                                                           newest promise
//!                                                                  chain    u32
//!                                                                  frames   u32: those before it
//!   5 snapshot mark 0                   the base      its term     index    u64  the snapshot's
//!                                                                  term     u64  end
//!                                                                  members' index  u64
//!                                                                  members  (see raft-core)
//! ```
//!
//! The chain runs over the header checks of all frames of all batches, then over batch, synced,
//! term, vote (the lower half of each first) and frames of each commit, so that one commit vouches
//! for everything before it. Its step: xor the number, rotate left by 13, multiply by 0x9e3779b1.
//!
//! Each commit states the promise anew, so that a node whose log is damaged somewhere before it
//! knows for certain whom it has voted for.

use std::sync::Arc;

use raft_core::{
    HardState, Index, LogPosition, Membership, MembershipDecodeError, NodeId, Snapshot, Term,
};

use crate::check::{crc, link};

pub(crate) const HEADER_BYTES: usize = 32;
pub(crate) const COMMIT_BYTES: usize = 40;
/// What a snapshot mark holds beside the members.
pub(crate) const MARK_BYTES: usize = 24;
pub(crate) const VOTE_BYTES: usize = 8;

/// No index, term or number of a log gets that far, so whoever counts on from one that was read
/// never overflows.
pub(crate) const NUMBER_MAX: u64 = u64::MAX >> 1;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    EmptyEntry,
    CommandEntry,
    MembershipEntry,
    Truncate,
    HardState,
    Commit,
    Mark,
}

impl Kind {
    pub(crate) fn code(self) -> [u8; 2] {
        match self {
            Self::EmptyEntry => [1, 0],
            Self::CommandEntry => [1, 1],
            Self::MembershipEntry => [1, 2],
            Self::Truncate => [2, 0],
            Self::HardState => [3, 0],
            Self::Commit => [4, 0],
            Self::Mark => [5, 0],
        }
    }

    fn parse(code: [u8; 2]) -> Option<Self> {
        match code {
            [1, 0] => Some(Self::EmptyEntry),
            [1, 1] => Some(Self::CommandEntry),
            [1, 2] => Some(Self::MembershipEntry),
            [2, 0] => Some(Self::Truncate),
            [3, 0] => Some(Self::HardState),
            [4, 0] => Some(Self::Commit),
            [5, 0] => Some(Self::Mark),
            // Of a later format, or nonsense: the caller says which frame it was.
            _ => None,
        }
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) position: LogPosition,
    pub(crate) payload_bytes: u32,
    pub(crate) payload_check: u32,
}

/// Why a header cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameError {
    /// It is not what was written.
    Check,
    /// It was written so, by a version that knows more kinds or groups.
    Unknown,
}

impl Frame {
    pub(crate) fn new(kind: Kind, position: LogPosition, payload: &[u8]) -> Self {
        let payload_bytes = u32::try_from(payload.len()).expect("a payload is below 4 GiB");
        Self { kind, position, payload_bytes, payload_check: crc(payload) }
    }

    /// The header as it stands on disk, and its check.
    pub(crate) fn encode(&self) -> ([u8; HEADER_BYTES], u32) {
        let mut bytes = [0; HEADER_BYTES];
        bytes[4..8].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.payload_check.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.kind.code());
        bytes[16..24].copy_from_slice(&self.position.index.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.position.term.0.to_le_bytes());
        let check = crc(&bytes[4..]);
        bytes[..4].copy_from_slice(&check.to_le_bytes());
        (bytes, check)
    }

    /// Reads a header; gives its check too, for the chain.
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<(Self, u32), FrameError> {
        let check = u32_at(bytes, 0);
        if check != crc(&bytes[4..]) {
            return Err(FrameError::Check);
        }
        let kind = Kind::parse([bytes[12], bytes[13]]).ok_or(FrameError::Unknown)?;
        if bytes[14..16] != [0, 0] {
            return Err(FrameError::Unknown);
        }
        let position =
            LogPosition { index: Index(u64_at(bytes, 16)), term: Term(u64_at(bytes, 24)) };
        if !is_possible(position) {
            return Err(FrameError::Check);
        }
        let (payload_bytes, payload_check) = (u32_at(bytes, 4), u32_at(bytes, 8));
        Ok((Self { kind, position, payload_bytes, payload_check }, check))
    }
}

/// The payload of a commit frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) batch: u64,
    pub(crate) synced: u64,
    pub(crate) promise: Promise,
    pub(crate) chain: u32,
    pub(crate) frames: u32,
}

/// The part of a hard state that must never be forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Promise {
    pub(crate) term: Term,
    pub(crate) vote: Option<NodeId>,
}

impl Promise {
    pub(crate) fn of(hard_state: &HardState) -> Self {
        Self { term: hard_state.term, vote: hard_state.vote }
    }
}

impl Commit {
    /// A commit with its link of the chain; `chain` runs up to the frame before it.
    pub(crate) fn linked(batch: u64, promise: Promise, frames: u32, chain: u32) -> Self {
        // The batch before this one was synced before this one is written.
        let synced = batch - 1;
        let vote = promise.vote.map_or(0, NodeId::get);
        let halves = |number: u64| [number as u32, (number >> 32) as u32];
        let numbers = [batch, synced, promise.term.0, vote].map(halves).into_iter().flatten();
        let chain = numbers.chain([frames]).fold(chain, link);
        Self { batch, synced, promise, frames, chain }
    }

    pub(crate) fn encode(&self) -> [u8; COMMIT_BYTES] {
        let mut bytes = [0; COMMIT_BYTES];
        bytes[..8].copy_from_slice(&self.batch.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.synced.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.promise.term.0.to_le_bytes());
        let vote = self.promise.vote.map_or(0, NodeId::get);
        bytes[24..32].copy_from_slice(&vote.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.chain.to_le_bytes());
        bytes[36..].copy_from_slice(&self.frames.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; COMMIT_BYTES]) -> Self {
        Self {
            batch: u64_at(bytes, 0),
            synced: u64_at(bytes, 8),
            promise: Promise {
                term: Term(u64_at(bytes, 16)),
                vote: NodeId::new(u64_at(bytes, 24)),
            },
            chain: u32_at(bytes, 32),
            frames: u32_at(bytes, 36),
        }
    }
}

/// The payload of a snapshot mark, whose frame stands at the base.
pub(crate) fn encode_mark(snapshot: &Snapshot) -> Vec<u8> {
    let Snapshot { last, membership, membership_index } = snapshot;
    let mut bytes = Vec::new();
    for number in [last.index.0, last.term.0, membership_index.0] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(membership.encode());
    bytes
}

/// Reads a snapshot mark; `None` where nothing would have written it.
pub(crate) fn decode_mark(bytes: &[u8]) -> Option<Result<Snapshot, MembershipDecodeError>> {
    let (fixed, members) = bytes.split_at_checked(MARK_BYTES)?;
    let last = LogPosition { index: Index(u64_at(fixed, 0)), term: Term(u64_at(fixed, 8)) };
    let membership_index = Index(u64_at(fixed, 16));
    if !is_possible(last) || membership_index.0 > NUMBER_MAX {
        return None;
    }
    let snapshot =
        |membership| Snapshot { last, membership: Arc::new(membership), membership_index };
    Some(Membership::decode(members).map(snapshot))
}

/// Whether a log may reach there.
pub(crate) fn is_possible(position: LogPosition) -> bool {
    position.index.0 <= NUMBER_MAX && position.term.0 <= NUMBER_MAX
}

/// The number at a place that the layout gives, in bytes that are long enough for it.
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(number)
}

/// The number at a place that the layout gives, in bytes that are long enough for it.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_and_every_changed_bit_is_seen() {
        let position = LogPosition { term: Term(3), index: Index(NUMBER_MAX) };
        let frame = Frame::new(Kind::CommandEntry, position, b"payload");
        let (mut bytes, check) = frame.encode();
        assert_eq!(Frame::decode(&bytes), Ok((frame, check)));
        for bit in 0..HEADER_BYTES * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Frame::decode(&bytes), Err(FrameError::Check), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_kind_or_group_of_a_later_format_is_told_from_damage() {
        for (place, value) in [(12, 6), (13, 3), (14, 1)] {
            let (mut bytes, _) = Frame::new(Kind::Truncate, LogPosition::ZERO, b"").encode();
            bytes[place] = value;
            let check = crc(&bytes[4..]);
            bytes[..4].copy_from_slice(&check.to_le_bytes());
            assert_eq!(Frame::decode(&bytes), Err(FrameError::Unknown));
        }
    }

    #[test]
    fn a_mark_holds_numbers_that_can_be_counted_on_from() {
        let marked = |index, term, membership_index| {
            let membership = Arc::new(Membership::unknown());
            let last = LogPosition { index: Index(index), term: Term(term) };
            let snapshot = Snapshot { last, membership, membership_index: Index(membership_index) };
            decode_mark(&encode_mark(&snapshot)).map(|found| assert_eq!(found, Ok(snapshot)))
        };
        let (most, more) = (NUMBER_MAX, NUMBER_MAX + 1);
        assert!(marked(most, most, most).is_some());
        for (index, term, members) in [(more, 1, 1), (1, more, 1), (1, 1, more)] {
            assert!(marked(index, term, members).is_none(), "{index}, {term}, {members}");
        }
    }

    #[test]
    fn a_link_of_the_chain_holds_all_of_each_number() {
        let linked = |term, vote| {
            Commit::linked(9, Promise { term: Term(term), vote: NodeId::new(vote) }, 3, 77).chain
        };
        assert_ne!(linked(4, 5), linked(4 | 1 << 40, 5));
        assert_ne!(linked(4, 5), linked(4, 5 | 1 << 40));
    }

    #[test]
    fn a_commit_comes_back() {
        let promise = Promise { term: Term(4), vote: NodeId::new(5) };
        let commit = Commit::linked(9, promise, 3, 77);
        assert_eq!(Commit::decode(&commit.encode()), commit);
    }
}
