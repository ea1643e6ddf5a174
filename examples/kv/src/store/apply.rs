//! Entries of the log become changes of the store. What an entry does depends on nothing but
//! what came before it: no clock, no setting, no fact of this machine (a node that decided by
//! such a thing would differ from the others for ever).

use bytes::Bytes;
use kontiki::{Entry, Index, NodeId, Payload};
use prost::Message;

use super::error::{Failure, KvError, StoreError};
use super::lease;
use super::state::State;
use super::txn::Plan;
use super::write::{Writer, check_lease, check_put, header};
use crate::proto::etcdserverpb::{
    AlarmRequest, AlarmResponse, CompactionRequest, CompactionResponse, DeleteRangeResponse,
    LeaseGrantResponse, LeaseRevokeResponse, PutRequest, PutResponse, TxnRequest, TxnResponse,
};
use crate::proto::kontiki::command::Action;
use crate::proto::kontiki::{Command, SetMember};

/// What became of a command. Headers hold the revision alone.
pub type Response = Result<Answer, KvError>;

/// The answer to a command that was performed.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To a put.
    Put(PutResponse),
    /// To a deletion.
    DeleteRange(DeleteRangeResponse),
    /// To a transaction.
    Txn(TxnResponse),
    /// To a compaction; what it gave up may still be on disk.
    Compact(CompactionResponse),
    /// To the grant of a lease.
    LeaseGrant(LeaseGrantResponse),
    /// To the end of this lease.
    LeaseRevoke(i64, LeaseRevokeResponse),
    /// To a checkpoint of these leases; some of them may have ended before.
    LeaseCheckpoint(Vec<i64>),
    /// To a request about alarms.
    Alarm(AlarmResponse),
    /// To what a node said of itself.
    SetMember,
}

impl Answer {
    /// The leases that may have come, changed or gone with the command. Puts and deletions change
    /// none: they change the keys that a lease has.
    pub fn leases(&self) -> &[i64] {
        match self {
            Self::LeaseGrant(granted) => std::slice::from_ref(&granted.id),
            Self::LeaseRevoke(id, _) => std::slice::from_ref(id),
            Self::LeaseCheckpoint(ids) => ids,
            Self::Put(_) | Self::DeleteRange(_) | Self::Txn(_) => &[],
            Self::Compact(_) | Self::Alarm(_) | Self::SetMember => &[],
        }
    }
}

/// Encodes a command for the log.
pub fn encode(action: Action) -> Bytes {
    Command { action: Some(action) }.encode_to_vec().into()
}

/// Whether the entry holds a put, or nothing: told from the first byte, the field's number.
pub(super) fn is_put_or_empty(entry: &Entry) -> bool {
    const PUT: u8 = 1 << 3 | 2;
    match &entry.payload {
        Payload::Empty => true,
        Payload::Command(bytes) => bytes.first() == Some(&PUT),
        Payload::Membership(_) => false,
    }
}

/// Applies one entry; the answer, where it holds a command.
pub(super) fn apply(state: &mut State, entry: &Entry) -> Result<Option<Response>, StoreError> {
    let expected = Index(state.mark.applied.0 + 1);
    if entry.index != expected {
        return Err(StoreError::OutOfOrder { expected, found: entry.index });
    }
    state.mark.applied = entry.index;
    let bytes = match &entry.payload {
        Payload::Command(bytes) => bytes,
        Payload::Membership(membership) => {
            forget_members(state, membership.removed());
            return Ok(None);
        }
        Payload::Empty => return Ok(None),
    };
    match perform(state, entry, bytes) {
        Ok(answer) => Ok(Some(Ok(answer))),
        Err(Failure::Refused(error)) => Ok(Some(Err(error))),
        Err(Failure::Store(error)) => Err(error),
    }
}

fn perform(state: &mut State, entry: &Entry, bytes: &Bytes) -> Result<Answer, Failure> {
    let command = Command::decode(bytes.clone()).map_err(|_| KvError::NotCapable)?;
    let action = command.action.ok_or(KvError::NotCapable)?;
    state.mark.alarms.admit(&action)?;
    match action {
        Action::Put(request) => put(state, request, bytes.len()).map(Answer::Put),
        Action::DeleteRange(request) => {
            if request.key.is_empty() {
                return Err(KvError::EmptyKey.into());
            }
            let response = Writer::new(state, bytes.len()).delete_range(&request)?;
            Ok(Answer::DeleteRange(response))
        }
        Action::Txn(request) => txn(state, request, bytes.len()).map(Answer::Txn),
        Action::Compact(request) => compact(state, &request).map(Answer::Compact),
        Action::LeaseGrant(request) => {
            Ok(lease::grant(state, &request, entry.index).map(Answer::LeaseGrant)?)
        }
        Action::LeaseRevoke(request) => {
            let response = lease::revoke(state, &request, entry.term, bytes.len())?;
            Ok(Answer::LeaseRevoke(request.id, response))
        }
        Action::LeaseCheckpoint(request) => {
            Ok(lease::checkpoint(state, &request, entry.term).map(Answer::LeaseCheckpoint)?)
        }
        Action::Alarm(request) => Ok(Answer::Alarm(alarm(state, &request))),
        Action::SetMember(member) => {
            set_member(state, member);
            Ok(Answer::SetMember)
        }
    }
}

fn put(state: &mut State, request: PutRequest, len: usize) -> Result<PutResponse, Failure> {
    check_lease(state, &request)?;
    check_put(state, &request)?;
    Ok(Writer::new(state, len).put(request)?)
}

fn txn(state: &mut State, request: TxnRequest, len: usize) -> Result<TxnResponse, Failure> {
    let plan = Plan::new(state, request)?;
    plan.check(state)?;
    let mut response = plan.perform(&mut Writer::new(state, len))?;
    response.header = header(state.mark.revision);
    Ok(response)
}

fn compact(state: &mut State, request: &CompactionRequest) -> Result<CompactionResponse, Failure> {
    if request.revision <= state.mark.compacted {
        return Err(KvError::Compacted.into());
    }
    if request.revision > state.mark.revision {
        return Err(KvError::FutureRevision.into());
    }
    state.mark.compacted = request.revision;
    Ok(CompactionResponse { header: header(state.mark.revision) })
}

fn alarm(state: &mut State, request: &AlarmRequest) -> AlarmResponse {
    let alarms = state.mark.alarms.perform(request);
    AlarmResponse { header: header(state.mark.revision), alarms }
}

fn set_member(state: &mut State, member: SetMember) {
    let mut members = (*state.mark.members).clone();
    members.insert(member.id, member);
    state.mark.members = std::sync::Arc::new(members);
}

/// Drops what those said of themselves who are no members any more. Who is one is for the group's
/// membership alone to say (scenario B74).
fn forget_members(state: &mut State, removed: &[NodeId]) {
    if removed.iter().any(|id| state.mark.members.contains_key(&id.get())) {
        let mut members = (*state.mark.members).clone();
        for id in removed {
            members.remove(&id.get());
        }
        state.mark.members = std::sync::Arc::new(members);
    }
}
