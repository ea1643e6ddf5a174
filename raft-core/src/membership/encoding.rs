//! The bytes of a membership, the same in logs, in snapshots and on the wire.
//!
//! ```text
//!   0  format: 1              u8       then each member:
//!   1  number of members      u32        id           u64
//!   5  number of removed      u32        incarnation  u64, zero where unknown
//!   9  the removed ids        u64 each   standing     u8   0 learner  1 to be promoted  2 voter
//!                                                          3, 4 retiring  5 joining  6, 7 leaving
//!   All little-endian.                   priority     u8        (gone, learner)
//!   Nothing may follow.                  address      u16 bytes, UTF-8
//! ```
//!
//! There is one way to write a membership: equal ones have equal bytes.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::{After, Member, Membership, Standing};
use crate::{Incarnation, NodeId};

const FORMAT: u8 = 1;
const HEAD_BYTES: usize = 9;
/// What a member takes beside its address.
const MEMBER_BYTES: usize = 20;

/// The standings, in the order of their codes.
const STANDINGS: [Standing; 8] = [
    Standing::LEARNER,
    Standing::Learner { promote: true },
    Standing::VOTER,
    Standing::Voter { retiring: Some(After::Gone) },
    Standing::Voter { retiring: Some(After::Learner) },
    Standing::Joining,
    Standing::Leaving(After::Gone),
    Standing::Leaving(After::Learner),
];

/// Why bytes are no membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembershipDecodeError {
    /// They were written by a version that knows more.
    Newer {
        /// The format that they are in.
        format: u8,
    },
    /// They are not what was written.
    Malformed,
}

impl fmt::Display for MembershipDecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newer { format } => write!(
                f,
                "the membership is written in format {format}, and this version reads only \
                 {FORMAT}; use a newer version"
            ),
            Self::Malformed => f.write_str("the membership cannot be read: its bytes are damaged"),
        }
    }
}

impl core::error::Error for MembershipDecodeError {}

impl Membership {
    /// How many bytes [`encode`](Self::encode) gives.
    pub fn encoded_len(&self) -> usize {
        let members = self.members.iter().map(|member| MEMBER_BYTES + member.address.len());
        HEAD_BYTES + 8 * self.removed.len() + members.sum::<usize>()
    }

    /// The bytes of it, for a log, a snapshot or a peer.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.encoded_len());
        bytes.push(FORMAT);
        bytes.extend((self.members.len() as u32).to_le_bytes());
        bytes.extend((self.removed.len() as u32).to_le_bytes());
        for id in &self.removed {
            bytes.extend(id.get().to_le_bytes());
        }
        for member in &self.members {
            let code = STANDINGS.iter().position(|standing| *standing == member.standing);
            bytes.extend(member.id.get().to_le_bytes());
            bytes.extend(member.incarnation.map_or(0, Incarnation::get).to_le_bytes());
            bytes.push(code.expect("every standing has a code") as u8);
            bytes.push(member.priority);
            bytes.extend((member.address.len() as u16).to_le_bytes());
            bytes.extend(member.address.as_bytes());
        }
        bytes
    }

    /// Reads what [`encode`](Self::encode) gave.
    ///
    /// # Errors
    /// Bytes of a later format, or bytes that nothing would have written.
    pub fn decode(bytes: &[u8]) -> Result<Self, MembershipDecodeError> {
        let malformed = MembershipDecodeError::Malformed;
        let mut cursor = Cursor(bytes);
        match cursor.number::<1>() {
            Some([FORMAT]) => {}
            Some([format]) if format > FORMAT => {
                return Err(MembershipDecodeError::Newer { format });
            }
            _ => return Err(malformed),
        }
        let group = cursor.membership().ok_or(malformed)?;
        // One way to write it: what is out of order or left over was not written by us.
        if group.encode() == bytes { Ok(group) } else { Err(malformed) }
    }
}

/// What is left to read.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn number<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*number)
    }

    fn node(&mut self) -> Option<NodeId> {
        NodeId::new(u64::from_le_bytes(self.number()?))
    }

    fn membership(&mut self) -> Option<Membership> {
        let members = u32::from_le_bytes(self.number()?);
        let removed = u32::from_le_bytes(self.number()?);
        // Nothing is set aside for numbers that no bytes stand behind.
        let removed = (0..removed).map(|_| self.node()).collect::<Option<Vec<_>>>()?;
        let members = (0..members).map(|_| self.member()).collect::<Option<Vec<_>>>()?;
        Membership::from_parts(members, removed)
    }

    fn member(&mut self) -> Option<Member> {
        let id = self.node()?;
        let incarnation = Incarnation::new(u64::from_le_bytes(self.number()?));
        let [code, priority] = self.number()?;
        let standing = *STANDINGS.get(usize::from(code))?;
        let length = usize::from(u16::from_le_bytes(self.number()?));
        let (address, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        let address = String::from_utf8(address.to_vec()).ok()?;
        Some(Member { id, standing, address, incarnation, priority })
    }
}
