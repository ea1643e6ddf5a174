//! Who waits for what, and how each is told how it ended.

use raft_core::{Refusal, TransferError};
use raft_driver::{Applied, Ending};

use crate::clock::Clock;
use crate::error::{
    ChangeMembershipError, ProposeError, ReadError, Refused, TransferLeadershipError,
};
use crate::node::{Changer, Mover, Proposer, Reader};
use crate::reads::ReadPermit;

/// One who waits. Who has gone away does not want to know.
pub(crate) enum Caller<R> {
    Proposer(Proposer<R>),
    Reader(Reader),
    Changer(Changer),
    Mover(Mover),
    /// The node itself, which hands over before it stops.
    Node,
}

impl<R> Caller<R> {
    /// A command was applied, or the response of one that was is gone.
    pub(crate) fn applied(self, applied: Option<Applied<R>>) {
        if let Self::Proposer(proposer) = self {
            let _ = proposer.answer.send(applied.ok_or(ProposeError::Unknown));
        }
    }

    /// It ended without having been applied.
    pub(crate) fn end(self, ending: Ending, clock: Clock) {
        match self {
            Self::Proposer(proposer) => {
                let _ = proposer.answer.send(Err(unproposed(ending)));
            }
            Self::Reader(reader) => {
                let _ = reader.send(match ending {
                    Ending::Readable { index, until } => Ok(ReadPermit::new(index, until, clock)),
                    other => Err(unreadable(other)),
                });
            }
            Self::Changer(changer) => {
                let _ = changer.send(match ending {
                    Ending::Changed(index) => Ok(index),
                    other => Err(unchanged(other)),
                });
            }
            Self::Mover(mover) => {
                let _ = mover.send(match ending {
                    Ending::Transferred(leader) => Ok(leader),
                    other => Err(unmoved(other)),
                });
            }
            Self::Node => {}
        }
    }
}

fn unproposed(ending: Ending) -> ProposeError {
    match ending {
        Ending::Refused(Refusal::NotLeader { leader }) => ProposeError::NotLeader { leader },
        Ending::Refused(Refusal::TooLarge) => ProposeError::Refused(Refused::TooLarge),
        Ending::Refused(Refusal::Transferring) => ProposeError::Refused(Refused::HandingOver),
        Ending::Refused(Refusal::StorageFailed) | Ending::Stopped => ProposeError::Stopped,
        Ending::Refused(Refusal::Overloaded | Refusal::Change(_) | Refusal::Transfer(_)) => {
            ProposeError::Refused(Refused::Overloaded)
        }
        Ending::Superseded => ProposeError::Refused(Refused::Superseded),
        Ending::Unknown | Ending::Readable { .. } | Ending::Changed(_) | Ending::Transferred(_) => {
            ProposeError::Unknown
        }
    }
}

fn unreadable(ending: Ending) -> ReadError {
    match ending {
        Ending::Refused(Refusal::NotLeader { leader }) => ReadError::NoLeader { leader },
        Ending::Refused(Refusal::Overloaded | Refusal::TooLarge) => ReadError::Overloaded,
        Ending::Refused(Refusal::StorageFailed) | Ending::Stopped => ReadError::Stopped,
        Ending::Refused(Refusal::Transferring | Refusal::Change(_) | Refusal::Transfer(_))
        | Ending::Superseded
        | Ending::Unknown
        | Ending::Readable { .. }
        | Ending::Changed(_)
        | Ending::Transferred(_) => ReadError::NoLeader { leader: None },
    }
}

fn unchanged(ending: Ending) -> ChangeMembershipError {
    match ending {
        Ending::Refused(Refusal::NotLeader { leader }) => {
            ChangeMembershipError::NotLeader { leader }
        }
        Ending::Refused(Refusal::Change(reason)) => ChangeMembershipError::Refused(reason),
        Ending::Refused(Refusal::StorageFailed) | Ending::Stopped => ChangeMembershipError::Stopped,
        Ending::Refused(
            Refusal::Overloaded | Refusal::TooLarge | Refusal::Transferring | Refusal::Transfer(_),
        )
        | Ending::Superseded => ChangeMembershipError::Busy,
        Ending::Unknown | Ending::Readable { .. } | Ending::Changed(_) | Ending::Transferred(_) => {
            ChangeMembershipError::Unknown
        }
    }
}

fn unmoved(ending: Ending) -> TransferLeadershipError {
    match ending {
        Ending::Refused(Refusal::NotLeader { leader }) => {
            TransferLeadershipError::NotLeader { leader }
        }
        Ending::Refused(Refusal::Transfer(reason)) => match reason {
            TransferError::UnknownMember(id) => TransferLeadershipError::UnknownMember(id),
            TransferError::NotVoter(id) => TransferLeadershipError::NotVoter(id),
            TransferError::InProgress => TransferLeadershipError::InProgress,
            TransferError::Lags(id) => TransferLeadershipError::Lags(id),
            TransferError::NobodyElse => TransferLeadershipError::NobodyElse,
            TransferError::Failed(id) => TransferLeadershipError::Failed(id),
        },
        Ending::Refused(Refusal::Transferring) => TransferLeadershipError::InProgress,
        Ending::Refused(Refusal::Overloaded | Refusal::TooLarge | Refusal::Change(_))
        | Ending::Superseded => TransferLeadershipError::Busy,
        Ending::Refused(Refusal::StorageFailed)
        | Ending::Stopped
        | Ending::Unknown
        | Ending::Readable { .. }
        | Ending::Changed(_)
        | Ending::Transferred(_) => TransferLeadershipError::Stopped,
    }
}
