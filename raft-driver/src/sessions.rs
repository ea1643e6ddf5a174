//! Exactly once: a layer over a state machine that recognises retries (thesis §6.3).
//!
//! A caller whose proposal ended as unknown cannot know whether to propose it again. In a session
//! every command has a number, and the replicated state keeps the answers: a command that comes
//! again gets its first answer, and is not executed twice. The table of sessions is part of the
//! state and of its snapshots, so it outlives every leader.
//!
//! ```text
//!   Session::propose ──▶ [session 7, number 3, command] ──▶ the log ──▶ SessionMachine
//!        ▲   again, until there is an answer                               │ known: first answer
//!        └─────────────────────────────────────────────────────────────────┘ new: your machine
//! ```
//!
//! Sessions end when nobody used them for their lifetime. That is measured in *replicated* time,
//! which only entries of the log move on ([`Frame::Time`]), so all nodes forget at the same entry.
//! A command of a session that has ended is an error, and never executed.

mod frame;
mod table;

use std::fmt::Display;
use std::io::{Cursor, Read};

use raft_core::{Entry, Index, Payload, seeded};
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::table::{Table, Verdict};
use crate::codec::{Bincode, Codec};
use crate::machine::StateMachine;

pub use frame::Frame;

/// More bytes than any table of sessions has.
const TABLE_BYTES_MAX: u64 = 1 << 32;

/// A state machine in which callers have sessions. Propose [`Frame`]s to it: in the crate
/// `kontiki` a `Session` does.
///
/// The machine inside must live in memory ([`StateMachine::durable`] is `None`): the table of
/// sessions is saved with its snapshots, and a state that is kept elsewhere could run ahead of it.
#[derive(Debug)]
pub struct SessionMachine<S: StateMachine, C = Bincode> {
    machine: S,
    codec: C,
    table: Table<S::Response>,
    responses: Vec<S::Response>,
}

/// What an entry of a session machine answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<R> {
    /// A session began; this is its number.
    Registered(u64),
    /// The answer of the machine inside, now or when the command came first.
    Done(R),
    /// The session is alive, or has ended as it was told to.
    Noted,
    /// There is no such session (any more). Not executed.
    Expired,
    /// The caller has said before that it has this answer. Not executed again.
    Forgotten,
    /// The session waits for too many answers. Not executed.
    Crowded,
    /// Replicated time, in milliseconds since the group began.
    Time(u64),
    /// The entry was not proposed by this layer. Not executed.
    Foreign,
}

/// What can go wrong in a session machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionMachineError<E: Display> {
    /// The machine inside failed.
    #[error("{0}")]
    Machine(E),
    /// The table of sessions cannot be written to a snapshot, or read from one.
    #[error("the table of sessions: {0}")]
    Table(String),
}

impl<S: StateMachine> SessionMachine<S>
where
    S::Response: Clone + Serialize + DeserializeOwned,
{
    /// Gives callers of `machine` sessions.
    ///
    /// # Panics
    /// When the machine is durable by itself.
    pub fn new(machine: S) -> Self {
        Self::with_codec(machine, Bincode)
    }
}

impl<S, C> SessionMachine<S, C>
where
    S: StateMachine,
    S::Response: Clone + Serialize + DeserializeOwned,
    C: Codec + Send + 'static,
{
    /// Gives callers of `machine` sessions, whose answers are kept in this format.
    ///
    /// # Panics
    /// When the machine is durable by itself.
    pub fn with_codec(machine: S, codec: C) -> Self {
        assert!(machine.durable().is_none(), "the table would be behind a machine that is durable");
        Self { machine, codec, table: Table::default(), responses: Vec::new() }
    }

    /// The machine inside.
    pub fn machine(&self) -> &S {
        &self.machine
    }

    fn answer(&mut self, entry: &Entry, frame: Frame) -> Result<Answer<S::Response>, S::Error> {
        let table = &mut self.table;
        let answer = match frame {
            Frame::Register { lifetime_ms } => {
                Answer::Registered(table.register(entry.index.0, lifetime_ms))
            }
            Frame::Touch { session } if table.touch(session) => Answer::Noted,
            Frame::Touch { .. } => Answer::Expired,
            Frame::Close { session } => {
                table.close(session);
                Answer::Noted
            }
            Frame::Time { from_ms, to_ms } => Answer::Time(table.advance(from_ms, to_ms)),
            Frame::Execute { session, number, answered, command } => {
                match table.judge(session, number, answered) {
                    Verdict::Known(response) => Answer::Done(response),
                    Verdict::Expired => Answer::Expired,
                    Verdict::Forgotten => Answer::Forgotten,
                    Verdict::Crowded => Answer::Crowded,
                    Verdict::New => {
                        self.feed(entry, Payload::Command(command))?;
                        let response = self.responses.pop().expect("a command has a response");
                        self.table.keep(session, number, response.clone());
                        return Ok(Answer::Done(response));
                    }
                }
            }
        };
        // Nothing to execute; that the entry has passed must be known all the same.
        self.feed(entry, Payload::Empty)?;
        Ok(answer)
    }

    /// Hands the machine inside the entry, with this in it.
    fn feed(&mut self, entry: &Entry, payload: Payload) -> Result<(), S::Error> {
        let Entry { index, term, .. } = *entry;
        self.machine.apply(&[Entry { index, term, payload }], &mut self.responses)
    }
}

impl<S, C> StateMachine for SessionMachine<S, C>
where
    S: StateMachine,
    S::Response: Clone + Serialize + DeserializeOwned,
    C: Codec + Send + 'static,
{
    type Response = Answer<S::Response>;
    type Error = SessionMachineError<S::Error>;

    fn applied(&self) -> Index {
        self.machine.applied()
    }

    fn apply(
        &mut self,
        entries: &[Entry],
        responses: &mut Vec<Self::Response>,
    ) -> Result<(), Self::Error> {
        for entry in entries {
            let failed = SessionMachineError::Machine;
            let bytes = match &entry.payload {
                Payload::Command(bytes) => bytes,
                Payload::Empty | Payload::Membership(_) => {
                    self.feed(entry, entry.payload.clone()).map_err(failed)?;
                    continue;
                }
            };
            let answer = match Frame::decode(bytes) {
                Some(frame) => self.answer(entry, frame).map_err(failed)?,
                None => {
                    self.feed(entry, Payload::Empty).map_err(failed)?;
                    Answer::Foreign
                }
            };
            responses.push(answer);
        }
        Ok(())
    }

    fn snapshot(&self) -> Result<Box<dyn Read + Send>, Self::Error> {
        let table = self.codec.encode(&self.table);
        let table = table.map_err(|error| SessionMachineError::Table(error.to_string()))?;
        let machine = self.machine.snapshot().map_err(SessionMachineError::Machine)?;
        let length = Cursor::new((table.len() as u64).to_le_bytes());
        Ok(Box::new(length.chain(Cursor::new(table)).chain(machine)))
    }

    fn restore(&mut self, applied: Index, state: &mut dyn Read) -> Result<(), Self::Error> {
        let unread = |error: std::io::Error| SessionMachineError::Table(error.to_string());
        let mut length = [0; 8];
        state.read_exact(&mut length).map_err(unread)?;
        let length = u64::from_le_bytes(length);
        if length > TABLE_BYTES_MAX {
            let reason = format!("{length} bytes are more than it can have; is this its snapshot?");
            return Err(SessionMachineError::Table(reason));
        }
        let mut bytes = Vec::new();
        (&mut *state).take(length).read_to_end(&mut bytes).map_err(unread)?;
        let table = self.codec.decode(&bytes);
        let table = table.map_err(|error| SessionMachineError::Table(error.to_string()))?;
        self.machine.restore(applied, state).map_err(SessionMachineError::Machine)?;
        self.table = if seeded!(SessionsNotInSnapshot) { Table::default() } else { table };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
