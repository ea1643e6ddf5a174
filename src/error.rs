//! What can go wrong for a caller. Each variant says what to do next.

use raft_core::{ConfigError, NodeId, RestoreError};

/// Why a proposal has no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProposeError {
    /// Surely not executed. Ask the leader named, or wait for one.
    #[error("this node does not lead{}", known(.leader))]
    NotLeader {
        /// The leader, where one is known.
        leader: Option<NodeId>,
    },
    /// Surely not executed; the reason says whether to try again.
    #[error("refused, and surely not executed: {0}")]
    Refused(Refused),
    /// It may have been executed, or may yet be. Find out before trying again, unless doing it
    /// twice does no harm.
    #[error("the outcome is unknown: leadership changed, or the node stopped, meanwhile")]
    Unknown,
    /// Surely not executed: the node has stopped. Ask another one.
    #[error("the node has stopped")]
    Stopped,
}

/// Why a proposal was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Too much is waiting to be committed. Try again later.
    #[error("too much is waiting to be committed")]
    Overloaded,
    /// It is larger than an entry may be. Make it smaller.
    #[error("it is larger than an entry may be")]
    TooLarge,
    /// Another leader's entry took its place. Try again.
    #[error("another leader's entry was committed in its place")]
    Superseded,
}

/// Why a read cannot be answered. Reads change nothing, so all may be tried again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// There is no leader to confirm it. Try again when there is one.
    #[error("no leader can confirm the read{}", known(.leader))]
    NoLeader {
        /// The leader, where one is known.
        leader: Option<NodeId>,
    },
    /// Too many reads wait. Try again later.
    #[error("too many reads wait")]
    Overloaded,
    /// The node has stopped. Ask another one.
    #[error("the node has stopped")]
    Stopped,
}

/// Why a node cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The settings cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The settings do not fit together.
    #[error("{0}")]
    Settings(String),
    /// What storage recovered does not fit together.
    #[error(transparent)]
    Restore(RestoreError),
    /// The log cannot be opened or made.
    #[error("{0}")]
    Storage(String),
    /// The node cannot be reached, or cannot reach others.
    #[error("{0}")]
    Transport(String),
    /// The operating system gives no thread.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

impl From<RestoreError> for StartError {
    fn from(error: RestoreError) -> Self {
        match error {
            RestoreError::Config(error) => Self::Config(error),
            error => Self::Restore(error),
        }
    }
}

/// Why a node has stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// It was asked to, or nobody holds a handle any more.
    #[error("shut down")]
    Shutdown,
    /// Storage failed: nothing that was not durable can be trusted. Mend the disk, then start
    /// again; everything that was acknowledged is still there.
    #[error("storage failed: {0}")]
    Storage(String),
    /// The state machine failed. It holds everything up to the index that it last saved.
    #[error("the state machine failed: {0}")]
    StateMachine(String),
}

fn known(leader: &Option<NodeId>) -> String {
    leader.map_or_else(|| ", and no leader is known".into(), |leader| format!("; {leader} leads"))
}
