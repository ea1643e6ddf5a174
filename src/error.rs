//! What can go wrong for a caller. Each variant says what to do next.

use raft_core::{ChangeError, ConfigError, Index, NodeId, RestoreError};

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
    /// Leadership was being handed over for longer than anybody waits. Try again.
    #[error("leadership is being handed over")]
    HandingOver,
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

/// Why the members were not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeMembershipError {
    /// Surely not changed. Ask the leader named, or wait for one.
    #[error("only the leader changes the members{}", known(.leader))]
    NotLeader {
        /// The leader, where one is known.
        leader: Option<NodeId>,
    },
    /// Surely not changed; the reason says what to do.
    #[error(transparent)]
    Refused(ChangeError),
    /// Surely not changed: too much is waiting to be committed, or leadership is being handed
    /// over. Try again later.
    #[error("the leader is busy; try again")]
    Busy,
    /// It may have been changed, or may yet be. Look at the members before trying again.
    #[error("the outcome is unknown: leadership changed, or the node stopped, meanwhile")]
    Unknown,
    /// Surely not changed: the node has stopped. Ask another one.
    #[error("the node has stopped")]
    Stopped,
}

/// Why leadership was not handed over. Whoever led leads on, unless another was elected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransferLeadershipError {
    /// Ask the leader named, or wait for one.
    #[error("only the leader hands over{}", known(.leader))]
    NotLeader {
        /// The leader, where one is known.
        leader: Option<NodeId>,
    },
    /// There is no such member.
    #[error("there is no member {0}")]
    UnknownMember(NodeId),
    /// Only a voter can lead. Promote it first.
    #[error("member {0} does not vote, so it cannot lead; promote it first")]
    NotVoter(NodeId),
    /// The member is not heard, or its log is far behind. Try again when it has caught up.
    #[error("member {0} is not heard, or has not caught up; try again when it has")]
    Lags(NodeId),
    /// Another transfer is under way. Wait for its end.
    #[error("leadership is being handed over already; wait for the end of that")]
    InProgress,
    /// There is nobody else who could lead.
    #[error("no other voter is alive and has caught up; try again when one is")]
    NobodyElse,
    /// The member did not catch up and win in time. Try again, or name another.
    #[error("member {0} did not catch up and win in time; try again, or name another")]
    Failed(NodeId),
    /// Too much is under way. Try again later.
    #[error("the leader is busy; try again")]
    Busy,
    /// The node has stopped, or stops meanwhile. See who leads.
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
    /// The group that was to be joined does not answer, or does not know this node.
    #[error("{0}")]
    Join(String),
    /// The log needs a snapshot that is missing or damaged.
    #[error(
        "the state machine holds everything up to index {applied}, and the log begins after \
         index {base}: what lies between is in a snapshot, and {reason}; put the file back, or \
         replace this node by a new member, which gets its state from the others"
    )]
    Snapshot {
        /// What the state machine holds.
        applied: Index,
        /// Where the log begins.
        base: Index,
        /// What is wrong with the snapshot.
        reason: String,
    },
    /// The state machine has lost what the log does not hold any more. Nothing was changed.
    #[error(
        "the state machine holds everything up to index {applied}, and the log begins after \
         index {base}: what lies between was in the state that is missing; put that back, or \
         replace this node by a new member, which gets its state from the others"
    )]
    StateLost {
        /// What the state machine holds.
        applied: Index,
        /// Where the log begins.
        base: Index,
    },
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
    /// The log is damaged, found while it was in use. Start again: it is repaired from the
    /// others then.
    #[error("{0}; start this node again, and the others repair its log")]
    Damaged(String),
    /// The group has removed this node, for good. Delete its data; under another id it may be
    /// added anew.
    #[error(
        "this node was removed from its group; delete its data directory, and add it anew under \
         an id never used before"
    )]
    Removed,
    /// The group knows this member with another disk, or it runs twice. Replace the member.
    #[error("{0}")]
    Impostor(String),
}

fn known(leader: &Option<NodeId>) -> String {
    leader.map_or_else(|| ", and no leader is known".into(), |leader| format!("; {leader} leads"))
}
