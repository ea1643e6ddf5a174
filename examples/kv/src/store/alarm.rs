//! Alarms: what is wrong with a member, known to all of them alike, and what that forbids.
//!
//! They are part of the state: raised and put down by entries of the log, so that every member
//! comes to the same verdict on what follows. Whether a disk is full is never asked here.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::error::KvError;
use crate::proto::etcdserverpb::alarm_request::AlarmAction;
use crate::proto::etcdserverpb::request_op::Request;
use crate::proto::etcdserverpb::{
    AlarmMember, AlarmRequest, AlarmType, PutRequest, RequestOp, TxnRequest,
};
use crate::proto::kontiki::command::Action;

/// What a put counts for beside its key and value, as in etcd.
const PUT_BYTES: u64 = 256;
/// What a lease counts for, as in etcd.
const LEASE_BYTES: u64 = 64;

/// The alarms that stand, by kind and member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Alarms(Arc<BTreeSet<(i32, u64)>>);

impl Alarms {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, by kind and member.
    pub fn all(&self) -> Vec<AlarmMember> {
        self.of(AlarmType::None.into())
    }

    /// Those of one kind; all, where it is none.
    fn of(&self, kind: i32) -> Vec<AlarmMember> {
        let wanted = |(of, _): &&(i32, u64)| kind == AlarmType::None as i32 || *of == kind;
        self.0.iter().filter(wanted).map(|&(kind, member)| shown(kind, member)).collect()
    }

    /// Lists, raises or puts down; the alarms that the answer names. What does not exist cannot
    /// be raised: it changes nothing.
    pub fn perform(&mut self, request: &AlarmRequest) -> Vec<AlarmMember> {
        let (kind, key) = (request.alarm(), (request.alarm, request.member_id));
        match request.action() {
            AlarmAction::Get => self.of(request.alarm),
            AlarmAction::Activate if kind == AlarmType::None => Vec::new(),
            AlarmAction::Activate => {
                Arc::make_mut(&mut self.0).insert(key);
                vec![shown(key.0, key.1)]
            }
            AlarmAction::Deactivate => {
                let stood = Arc::make_mut(&mut self.0).remove(&key);
                stood.then(|| shown(key.0, key.1)).into_iter().collect()
            }
        }
    }

    /// Whether `action` may be performed while these alarms stand.
    pub fn admit(&self, action: &Action) -> Result<(), KvError> {
        let stands = |kind| self.0.iter().any(|(of, _)| *of == kind as i32);
        match action {
            _ if self.0.is_empty() => Ok(()),
            // Who clears things up must be able to.
            Action::Alarm(_) | Action::SetMember(_) | Action::LeaseCheckpoint(_) => Ok(()),
            _ if stands(AlarmType::Corrupt) => Err(KvError::CorruptCluster),
            _ if stands(AlarmType::Nospace) && cost(action) > 0 => Err(KvError::NoSpace),
            _ => Ok(()),
        }
    }
}

impl FromIterator<AlarmMember> for Alarms {
    fn from_iter<I: IntoIterator<Item = AlarmMember>>(alarms: I) -> Self {
        let alarms = alarms.into_iter().map(|alarm| (alarm.alarm, alarm.member_id));
        Self(Arc::new(alarms.collect()))
    }
}

fn shown(kind: i32, member_id: u64) -> AlarmMember {
    AlarmMember { member_id, alarm: kind }
}

/// How many bytes an action may add to the store, by etcd's count: that of its puts, and of a
/// transaction the larger of its two ways. Zero for what adds nothing.
pub fn cost(action: &Action) -> u64 {
    match action {
        Action::Put(request) => cost_of_put(request),
        Action::Txn(request) => cost_of_txn(request),
        Action::LeaseGrant(_) => LEASE_BYTES,
        Action::DeleteRange(_)
        | Action::Compact(_)
        | Action::LeaseRevoke(_)
        | Action::LeaseCheckpoint(_)
        | Action::Alarm(_)
        | Action::SetMember(_) => 0,
    }
}

fn cost_of_put(request: &PutRequest) -> u64 {
    PUT_BYTES + request.key.len() as u64 + request.value.len() as u64
}

fn cost_of_txn(request: &TxnRequest) -> u64 {
    let way = |operations: &[RequestOp]| -> u64 {
        let requests = operations.iter().filter_map(|operation| operation.request.as_ref());
        let cost = |request: &Request| match request {
            Request::RequestPut(put) => cost_of_put(put),
            Request::RequestTxn(nested) => cost_of_txn(nested),
            Request::RequestRange(_) | Request::RequestDeleteRange(_) => 0,
        };
        requests.map(cost).sum()
    };
    way(&request.success).max(way(&request.failure))
}
