//! The log. One thread owns it and writes.

use std::path::Path;

use raft_core::{Entry, HardState, Index, LogReader, LogStore, Membership, Saved, TermRuns, Write};

use crate::{CreateError, Identity, OpenError, Options, Owner, WalError};

/// A write-ahead log in a directory of its own, locked for as long as this lives.
#[derive(Debug)]
pub struct Wal {
    identity: Identity,
}

/// What a log held when it was opened: all of [`Saved`] except what was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Whose log it is.
    pub identity: Identity,
    /// The newest hard state.
    pub hard_state: HardState,
    /// The terms of the log.
    pub log: TermRuns,
    /// The voters that the log was made with.
    pub membership: Membership,
    /// What had to be mended, for people to read.
    pub repairs: Vec<String>,
}

impl Recovered {
    /// With what the state machine says it holds, the state to restore a core from.
    pub fn into_saved(self, applied: Index) -> Saved {
        let Self { hard_state, log, membership, .. } = self;
        Saved { hard_state, log, membership, applied }
    }
}

impl Wal {
    /// Whether the directory holds a log, or the remains of one: then [`open`](Self::open) it,
    /// else [`create`](Self::create) one. A creation that a crash cut short counts as none.
    pub fn exists(_dir: &Path, _options: &Options) -> Result<bool, OpenError> {
        Ok(false)
    }

    /// Makes a new log, empty and durable, in a directory that holds none.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub fn create(
        dir: &Path,
        _identity: Identity,
        _membership: &Membership,
        _options: &Options,
    ) -> Result<(Self, Recovered), CreateError> {
        Err(CreateError::Locked { dir: dir.to_owned() })
    }

    /// Opens the log of `owner` and verifies every byte of it.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(
        dir: &Path,
        _owner: Owner,
        _options: &Options,
    ) -> Result<(Self, Recovered), OpenError> {
        Err(OpenError::Locked { dir: dir.to_owned() })
    }

    /// Whose log it is.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Notes that all of it is synced, and closes it. Dropping a log closes it too and loses
    /// nothing; after `close`, even the loss of whole sectors at its end would be noticed.
    ///
    /// # Errors
    /// The disk failed.
    pub fn close(self) -> Result<(), WalError> {
        Ok(())
    }
}

/// Reads beside the writer.
#[derive(Clone, Debug)]
pub struct WalReader;

impl LogStore for Wal {
    type Error = WalError;
    type Reader = WalReader;
    fn persist(&mut self, _writes: &[Write]) -> Result<(), WalError> {
        Ok(())
    }
    fn reader(&self) -> WalReader {
        WalReader
    }
}

impl LogReader for WalReader {
    type Error = WalError;
    fn read(&self, _: Index, _: Index, _: usize, _: &mut Vec<Entry>) -> Result<(), WalError> {
        Ok(())
    }
}
