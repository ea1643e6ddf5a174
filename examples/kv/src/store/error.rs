//! What can go wrong, and for whom: a [`KvError`] is the caller's, and every replica comes to
//! the same one; a [`StoreError`] is this machine's, and stops the node.

use std::path::PathBuf;
use std::sync::Arc;

use kontiki::Index;
use tonic::{Code, Status};

/// A request that was refused, with the code and the words that etcd's clients look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.message())]
pub enum KvError {
    /// An operation names no key, or a transaction compares none.
    EmptyKey,
    /// `ignore_value` or `ignore_lease` on an absent key, or an operation that is empty.
    KeyNotFound,
    /// `ignore_value` beside a value.
    ValueProvided,
    /// `ignore_lease` beside a lease.
    LeaseProvided,
    /// More operations than a transaction may have.
    TooManyOperations,
    /// A transaction writes one key twice.
    DuplicateKey,
    /// An order or a sort target that does not exist.
    InvalidSortOption,
    /// A request, or a key in it, longer than any that is taken.
    RequestTooLarge,
    /// The revision is older than the compacted one.
    Compacted,
    /// The revision has not come yet.
    FutureRevision,
    /// No lease has that id.
    LeaseNotFound,
    /// A lease has that id already.
    LeaseExists,
    /// A lease for longer than any is granted.
    LeaseTtlTooLarge,
    /// What one leader decided came to the log under another.
    Superseded,
    /// The quota is used up: compact, defragment, and put the alarm down.
    NoSpace,
    /// A member holds something else than the others.
    CorruptCluster,
    /// An entry of the log that this version cannot read.
    NotCapable,
}

impl KvError {
    fn parts(self) -> (Code, &'static str) {
        use Code::{
            DataLoss, FailedPrecondition, InvalidArgument, NotFound, OutOfRange, ResourceExhausted,
        };
        match self {
            Self::EmptyKey => (InvalidArgument, "etcdserver: key is not provided"),
            Self::KeyNotFound => (InvalidArgument, "etcdserver: key not found"),
            Self::ValueProvided => (InvalidArgument, "etcdserver: value is provided"),
            Self::LeaseProvided => (InvalidArgument, "etcdserver: lease is provided"),
            Self::TooManyOperations => {
                (InvalidArgument, "etcdserver: too many operations in txn request")
            }
            Self::DuplicateKey => {
                (InvalidArgument, "etcdserver: duplicate key given in txn request")
            }
            Self::InvalidSortOption => (InvalidArgument, "etcdserver: invalid sort option"),
            Self::RequestTooLarge => (InvalidArgument, "etcdserver: request is too large"),
            Self::Compacted => {
                (OutOfRange, "etcdserver: mvcc: required revision has been compacted")
            }
            Self::FutureRevision => {
                (OutOfRange, "etcdserver: mvcc: required revision is a future revision")
            }
            Self::LeaseNotFound => (NotFound, "etcdserver: requested lease not found"),
            Self::LeaseExists => (FailedPrecondition, "etcdserver: lease already exists"),
            Self::LeaseTtlTooLarge => (OutOfRange, "etcdserver: too large lease TTL"),
            Self::Superseded => (FailedPrecondition, "etcdserver: not leader"),
            Self::NoSpace => (ResourceExhausted, "etcdserver: mvcc: database space exceeded"),
            Self::CorruptCluster => (DataLoss, "etcdserver: corrupt cluster"),
            Self::NotCapable => (FailedPrecondition, "etcdserver: not capable"),
        }
    }

    /// The gRPC code.
    pub fn code(self) -> Code {
        self.parts().0
    }

    /// The message on the wire.
    pub fn message(self) -> &'static str {
        self.parts().1
    }
}

impl From<KvError> for Status {
    fn from(error: KvError) -> Self {
        Self::new(error.code(), error.message())
    }
}

/// The store itself failed: nothing more can be applied on this machine.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Reading or writing the tables failed.
    #[error("the key-value store failed: {0}")]
    Tables(#[from] Arc<fjall::Error>),
    /// Another process has it open.
    #[error(
        "another process uses the key-value store: stop that one, or name another data directory"
    )]
    InUse,
    /// The directory holds something that this program does not write.
    #[error("the key-value store is in a format that is unknown: upgrade, or restore a backup")]
    UnknownFormat,
    /// What was read is not what was written.
    #[error("the key-value store is corrupt: {0}")]
    Corrupt(&'static str),
    /// A later version of this program wrote it.
    #[error("the key-value store has format {found}, and this program knows {known}: upgrade it")]
    NewerFormat {
        /// The format on disk.
        found: u32,
        /// The newest format that can be read.
        known: u32,
    },
    /// Entries must come in order, each once.
    #[error("entry {found:?} came where {expected:?} was due")]
    OutOfOrder {
        /// The entry that is next.
        expected: Index,
        /// The entry that came.
        found: Index,
    },
    /// A snapshot is of no use.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// A thread of the store could not be started.
    #[error("the store cannot start its thread: {0}")]
    Thread(Arc<std::io::Error>),
}

impl From<fjall::Error> for StoreError {
    fn from(error: fjall::Error) -> Self {
        match error {
            fjall::Error::Locked => Self::InUse,
            fjall::Error::InvalidVersion(_) => Self::UnknownFormat,
            error => Self::Tables(Arc::new(error)),
        }
    }
}

/// Why a snapshot of the store is of no use. Nothing was changed by it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SnapshotError {
    /// It begins as none does.
    #[error("this is no snapshot of the key-value store: name one that Kontiki has written")]
    Foreign,
    /// A later version of this program wrote it.
    #[error("the snapshot has format {found}, and this program knows {known}: upgrade it")]
    NewerFormat {
        /// The format of the snapshot.
        found: u32,
        /// The newest format that can be read.
        known: u32,
    },
    /// It ends too early.
    #[error("the snapshot is cut off after {at} bytes: copy it again, or use another one")]
    Cut {
        /// How many bytes there are.
        at: u64,
    },
    /// Its checksums, or its content, contradict themselves.
    #[error("the snapshot is damaged, at byte {at} or before: use another copy, or another one")]
    Damaged {
        /// Up to where it was read.
        at: u64,
    },
    /// It cannot be read.
    #[error("the snapshot cannot be read: {0}")]
    Read(Arc<std::io::Error>),
    /// It holds the effects of other entries than it should.
    #[error("the snapshot goes up to entry {found:?} where {expected:?} was named: use its own")]
    OtherIndex {
        /// The entry that was named.
        expected: Index,
        /// The entry that it goes up to.
        found: Index,
    },
    /// Revisions end at 2⁶³, and a cluster needs some that are left.
    #[error("revision {from} cannot be moved on so far: take a smaller bump")]
    BumpTooFar {
        /// The newest revision in the snapshot.
        from: i64,
    },
    /// A new store is not made on top of something else.
    #[error("{0} is not empty: name a directory that does not exist yet")]
    Occupied(PathBuf),
}

/// Why there is no answer: either of the two.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// The request was refused.
    #[error(transparent)]
    Refused(#[from] KvError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<fjall::Error> for Failure {
    fn from(error: fjall::Error) -> Self {
        Self::Store(error.into())
    }
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(error) => error.into(),
            Failure::Store(error) => Self::internal(error.to_string()),
        }
    }
}
