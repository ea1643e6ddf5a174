//! What a session machine finds in an entry.
//!
//! ```text
//!   kind u8 │ Register 1: lifetime ms u64    Touch 2: session u64    Close 3: session u64
//!           │ Time 4: from ms u64, to ms u64
//!           │ Execute 5: session u64, number u64, answered u64, then the command
//!   All little-endian.
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// One entry of a session machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Begins a session.
    Register {
        /// It ends when it was not used for this long.
        lifetime_ms: u64,
    },
    /// The session is still used.
    Touch {
        /// Its number.
        session: u64,
    },
    /// The session is used no more.
    Close {
        /// Its number.
        session: u64,
    },
    /// Time has passed; only if it was `from_ms` before.
    Time {
        /// What it was.
        from_ms: u64,
        /// What it is.
        to_ms: u64,
    },
    /// A command. The caller has the answers to all numbers below `answered`.
    Execute {
        /// The session's number.
        session: u64,
        /// The command's number in it.
        number: u64,
        /// The caller has the answers to all numbers below.
        answered: u64,
        /// For the machine inside.
        command: Bytes,
    },
}

impl Frame {
    /// The bytes of an entry.
    pub fn encode(&self) -> Bytes {
        let (kind, numbers, command): (u8, [u64; 3], &[u8]) = match self {
            Self::Register { lifetime_ms } => (1, [*lifetime_ms, 0, 0], &[]),
            Self::Touch { session } => (2, [*session, 0, 0], &[]),
            Self::Close { session } => (3, [*session, 0, 0], &[]),
            Self::Time { from_ms, to_ms } => (4, [*from_ms, *to_ms, 0], &[]),
            Self::Execute { session, number, answered, command } => {
                (5, [*session, *number, *answered], command)
            }
        };
        let count = numbers_of(kind).expect("the kind is one of ours");
        let mut bytes = BytesMut::with_capacity(1 + 8 * count + command.len());
        bytes.put_u8(kind);
        numbers.iter().take(count).for_each(|number| bytes.put_u64_le(*number));
        bytes.put_slice(command);
        bytes.freeze()
    }

    /// `None` where the bytes were not written by [`encode`](Self::encode).
    pub fn decode(bytes: &Bytes) -> Option<Self> {
        let mut rest = bytes.clone();
        let kind = rest.try_get_u8().ok()?;
        let mut numbers = [0; 3];
        for number in numbers.iter_mut().take(numbers_of(kind)?) {
            *number = rest.try_get_u64_le().ok()?;
        }
        let [first, second, third] = numbers;
        let frame = match kind {
            1 => Self::Register { lifetime_ms: first },
            2 => Self::Touch { session: first },
            3 => Self::Close { session: first },
            4 => Self::Time { from_ms: first, to_ms: second },
            _ => {
                let (session, number, answered) = (first, second, third);
                return Some(Self::Execute { session, number, answered, command: rest });
            }
        };
        rest.is_empty().then_some(frame)
    }
}

fn numbers_of(kind: u8) -> Option<usize> {
    match kind {
        1..=3 => Some(1),
        4 => Some(2),
        5 => Some(3),
        _ => None,
    }
}
