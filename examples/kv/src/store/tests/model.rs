//! etcd's MVCC as simply as it can be said: the whole content, kept once for every revision.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use crate::proto::etcdserverpb::request_op::Request;
use crate::proto::etcdserverpb::response_op;
use crate::proto::etcdserverpb::{
    CompactionResponse, Compare, DeleteRangeRequest, DeleteRangeResponse, LeaseGrantRequest,
    LeaseGrantResponse, LeaseRevokeResponse, PutRequest, PutResponse, RangeRequest, RangeResponse,
    ResponseHeader, ResponseOp, TxnRequest, TxnResponse,
};
use crate::proto::kontiki::LeaseRevoke;
use crate::proto::kontiki::command::Action;
use crate::proto::mvccpb::event::EventType;
use crate::proto::mvccpb::{Event, KeyValue};
use crate::store::{Answer, KvError, Response};

type Content = BTreeMap<Bytes, KeyValue>;

/// `past[r]` is the content at revision `r`; the last is the content now.
#[derive(Clone)]
pub(super) struct Model {
    past: Vec<Content>,
    events: Vec<Event>,
    compacted: i64,
    /// By id: the TTL, what is left of it, and how many commands came before it was granted.
    leases: BTreeMap<i64, (i64, i64, u64)>,
    commands: u64,
}

impl Model {
    pub fn new() -> Self {
        Self {
            past: vec![Content::new(); 2],
            events: Vec::new(),
            compacted: -1,
            leases: BTreeMap::new(),
            commands: 0,
        }
    }

    pub fn revision(&self) -> i64 {
        self.past.len() as i64 - 1
    }

    /// What the next command does, in term 1.
    pub fn apply(&mut self, action: &Action) -> Response {
        self.commands += 1;
        match action {
            Action::Put(request) => {
                self.check_lease(request)?;
                self.check_put(request)?;
                let mut change = Change::of(self);
                let response = change.put(request);
                change.finish(self);
                Ok(Answer::Put(response))
            }
            Action::DeleteRange(request) => {
                let mut change = Change::of(self);
                let response = change.delete(request);
                change.finish(self);
                Ok(Answer::DeleteRange(response))
            }
            Action::Txn(request) => {
                self.check_txn(request)?;
                let mut change = Change::of(self);
                let mut response = change.txn(self, request);
                change.finish(self);
                response.header = header(self.revision());
                Ok(Answer::Txn(response))
            }
            Action::Compact(request) => {
                if request.revision <= self.compacted {
                    return Err(KvError::Compacted);
                }
                if request.revision > self.revision() {
                    return Err(KvError::FutureRevision);
                }
                self.compacted = request.revision;
                Ok(Answer::Compact(CompactionResponse { header: header(self.revision()) }))
            }
            Action::LeaseGrant(request) => self.grant(request),
            Action::LeaseRevoke(request) => self.revoke(request),
            Action::LeaseCheckpoint(request) => {
                if request.term != 1 {
                    return Err(KvError::Superseded);
                }
                for said in &request.leases {
                    match self.leases.get_mut(&said.id) {
                        Some((ttl, remaining, at)) if *at == said.granted_at => {
                            *remaining = said.remaining.max(1).min(*ttl);
                        }
                        _ => {}
                    }
                }
                let ids = request.leases.iter().map(|said| said.id);
                Ok(Answer::LeaseCheckpoint(ids.collect()))
            }
            Action::SetMember(_) => Ok(Answer::SetMember),
            Action::Alarm(_) => panic!("the model has no alarms"),
        }
    }

    pub fn range(&self, request: &RangeRequest) -> Result<RangeResponse, KvError> {
        let content = match request.revision {
            ..=0 => self.now(),
            revision if revision > self.revision() => return Err(KvError::FutureRevision),
            revision if revision < self.compacted => return Err(KvError::Compacted),
            revision => &self.past[revision as usize],
        };
        Ok(read(content, self.revision(), request))
    }

    pub fn read_txn(&self, request: &TxnRequest) -> Result<TxnResponse, KvError> {
        self.check_txn(request)?;
        let mut response = Change::of(self).txn(self, request);
        response.header = header(self.revision());
        Ok(response)
    }

    pub fn events(&self, from: i64) -> Result<Vec<Event>, KvError> {
        if from < self.compacted {
            return Err(KvError::Compacted);
        }
        let is_after = |event: &&Event| event.kv.as_ref().is_some_and(|kv| kv.mod_revision >= from);
        Ok(self.events.iter().filter(is_after).cloned().collect())
    }

    /// By id: the TTL, what is left of it, and which entry granted it.
    pub fn leases(&self) -> Vec<(i64, i64, i64, u64)> {
        let flat = |(id, lease): (&i64, &(i64, i64, u64))| (*id, lease.0, lease.1, lease.2);
        self.leases.iter().map(flat).collect()
    }

    /// The keys that go with a lease.
    pub fn lease_keys(&self, id: i64) -> Vec<Bytes> {
        let of_lease = self.now().values().filter(|kv| kv.lease == id);
        of_lease.map(|kv| kv.key.clone()).collect()
    }

    fn grant(&mut self, request: &LeaseGrantRequest) -> Response {
        let LeaseGrantRequest { id, ttl } = *request;
        if id == 0 {
            return Err(KvError::LeaseNotFound);
        }
        if ttl > 9_000_000_000 {
            return Err(KvError::LeaseTtlTooLarge);
        }
        if self.leases.contains_key(&id) {
            return Err(KvError::LeaseExists);
        }
        let ttl = ttl.max(1);
        self.leases.insert(id, (ttl, ttl, self.commands));
        let (header, error) = (header(self.revision()), String::new());
        Ok(Answer::LeaseGrant(LeaseGrantResponse { header, id, ttl, error }))
    }

    fn revoke(&mut self, request: &LeaseRevoke) -> Response {
        let Some((_, _, at)) = self.leases.get(&request.id) else {
            return Err(KvError::LeaseNotFound);
        };
        match &request.expired {
            Some(expired) if expired.term != 1 => return Err(KvError::Superseded),
            Some(expired) if expired.granted_at != *at => return Err(KvError::LeaseNotFound),
            _ => {}
        }
        let mut change = Change::of(self);
        for key in self.lease_keys(request.id) {
            change.delete(&DeleteRangeRequest { key, ..DeleteRangeRequest::default() });
        }
        change.finish(self);
        self.leases.remove(&request.id);
        let response = LeaseRevokeResponse { header: header(self.revision()) };
        Ok(Answer::LeaseRevoke(request.id, response))
    }

    fn now(&self) -> &Content {
        self.past.last().expect("there is always a content")
    }

    fn check_put(&self, request: &PutRequest) -> Result<(), KvError> {
        if (request.ignore_value || request.ignore_lease) && !self.now().contains_key(&request.key)
        {
            return Err(KvError::KeyNotFound);
        }
        self.check_lease(request)
    }

    fn check_lease(&self, request: &PutRequest) -> Result<(), KvError> {
        let is_known = request.lease == 0 || self.leases.contains_key(&request.lease);
        if is_known { Ok(()) } else { Err(KvError::LeaseNotFound) }
    }

    fn check_txn(&self, request: &TxnRequest) -> Result<(), KvError> {
        let mut taken = Vec::new();
        self.take(request, &mut taken);
        for operation in &taken {
            if let Request::RequestPut(put) = operation {
                self.check_put(put)?;
            }
        }
        for operation in &taken {
            if let Request::RequestRange(range) = operation
                && range.revision != 0
            {
                if range.revision > self.revision() {
                    return Err(KvError::FutureRevision);
                }
                if range.revision < self.compacted {
                    return Err(KvError::Compacted);
                }
            }
        }
        Ok(())
    }

    /// All operations that the transaction would perform.
    fn take(&self, request: &TxnRequest, taken: &mut Vec<Request>) {
        for operation in self.way(request).1 {
            match operation.request.clone().expect("validated") {
                Request::RequestTxn(nested) => self.take(&nested, taken),
                other => taken.push(other),
            }
        }
    }

    fn way<'a>(
        &self,
        request: &'a TxnRequest,
    ) -> (bool, &'a [crate::proto::etcdserverpb::RequestOp]) {
        let succeeded = request.compare.iter().all(|compare| self.holds(compare));
        (succeeded, if succeeded { &request.success } else { &request.failure })
    }

    fn holds(&self, compare: &Compare) -> bool {
        let within: Vec<_> = self
            .now()
            .values()
            .filter(|kv| is_within(&kv.key, &compare.key, &compare.range_end))
            .cloned()
            .collect();
        if within.is_empty() {
            let is_value = compare.target == CompareTarget::Value as i32;
            return !is_value && holds_for(compare, &KeyValue::default());
        }
        within.iter().all(|kv| holds_for(compare, kv))
    }
}

fn holds_for(compare: &Compare, kv: &KeyValue) -> bool {
    let number = |found: i64, wanted: Option<i64>| found.cmp(&wanted.unwrap_or(0));
    let union = compare.target_union.clone();
    let ordering = match CompareTarget::try_from(compare.target) {
        Ok(CompareTarget::Version) => number(
            kv.version,
            match union {
                Some(TargetUnion::Version(wanted)) => Some(wanted),
                _ => None,
            },
        ),
        Ok(CompareTarget::Create) => number(
            kv.create_revision,
            match union {
                Some(TargetUnion::CreateRevision(wanted)) => Some(wanted),
                _ => None,
            },
        ),
        Ok(CompareTarget::Mod) => number(
            kv.mod_revision,
            match union {
                Some(TargetUnion::ModRevision(wanted)) => Some(wanted),
                _ => None,
            },
        ),
        Ok(CompareTarget::Lease) => number(
            kv.lease,
            match union {
                Some(TargetUnion::Lease(wanted)) => Some(wanted),
                _ => None,
            },
        ),
        Ok(CompareTarget::Value) => kv.value.cmp(&match union {
            Some(TargetUnion::Value(wanted)) => wanted,
            _ => Bytes::new(),
        }),
        Err(_) => std::cmp::Ordering::Equal,
    };
    match CompareResult::try_from(compare.result) {
        Ok(CompareResult::Equal) => ordering.is_eq(),
        Ok(CompareResult::NotEqual) => ordering.is_ne(),
        Ok(CompareResult::Greater) => ordering.is_gt(),
        Ok(CompareResult::Less) => ordering.is_lt(),
        Err(_) => true,
    }
}

fn is_within(key: &Bytes, start: &Bytes, range_end: &Bytes) -> bool {
    match &range_end[..] {
        b"" => key == start,
        b"\0" => key >= start,
        end => key >= start && &key[..] < end,
    }
}

fn header(revision: i64) -> Option<ResponseHeader> {
    Some(ResponseHeader { revision, ..ResponseHeader::default() })
}

fn read(content: &Content, revision: i64, request: &RangeRequest) -> RangeResponse {
    let mut response = RangeResponse { header: header(revision), ..RangeResponse::default() };
    let within = |kv: &&KeyValue| is_within(&kv.key, &request.key, &request.range_end);
    let mut kvs: Vec<_> = content.values().filter(within).cloned().collect();
    response.count = kvs.len() as i64;
    if request.count_only {
        return response;
    }
    kvs.retain(|kv| {
        let RangeRequest { min_mod_revision, max_mod_revision, .. } = *request;
        let RangeRequest { min_create_revision, max_create_revision, .. } = *request;
        (min_mod_revision == 0 || kv.mod_revision >= min_mod_revision)
            && (max_mod_revision == 0 || kv.mod_revision <= max_mod_revision)
            && (min_create_revision == 0 || kv.create_revision >= min_create_revision)
            && (max_create_revision == 0 || kv.create_revision <= max_create_revision)
    });
    let mut order = request.sort_order();
    if order == SortOrder::None {
        order = SortOrder::Ascend;
        // Nobody asked for an order, and nothing is filtered: only the first keys are seen.
        let bounds = [request.min_mod_revision, request.max_mod_revision];
        let bounds = [bounds, [request.min_create_revision, request.max_create_revision]];
        if request.limit > 0 && bounds.concat().iter().all(|bound| *bound == 0) {
            kvs.truncate(usize::try_from(request.limit).expect("small") + 1);
        }
    }
    let by = |a: &KeyValue, b: &KeyValue| match request.sort_target() {
        SortTarget::Key => a.key.cmp(&b.key),
        SortTarget::Version => a.version.cmp(&b.version),
        SortTarget::Create => a.create_revision.cmp(&b.create_revision),
        SortTarget::Mod => a.mod_revision.cmp(&b.mod_revision),
        SortTarget::Value => a.value.cmp(&b.value),
    };
    kvs.sort_by(|a, b| if order == SortOrder::Descend { by(b, a) } else { by(a, b) });
    if request.limit > 0 && kvs.len() > request.limit as usize {
        kvs.truncate(request.limit as usize);
        response.more = true;
    }
    if request.keys_only {
        kvs.iter_mut().for_each(|kv| kv.value = Bytes::new());
    }
    response.kvs = kvs;
    response
}

/// A request that may write.
struct Change {
    content: Content,
    before: i64,
    events: Vec<Event>,
}

impl Change {
    fn of(model: &Model) -> Self {
        let (content, before) = (model.now().clone(), model.revision());
        Self { content, before, events: Vec::new() }
    }

    fn finish(self, model: &mut Model) {
        if !self.events.is_empty() {
            model.past.push(self.content);
            model.events.extend(self.events);
        }
    }

    fn revision(&self) -> i64 {
        self.before + i64::from(!self.events.is_empty())
    }

    fn put(&mut self, request: &PutRequest) -> PutResponse {
        let revision = self.before + 1;
        let old = self.content.get(&request.key).cloned();
        let mut kv = KeyValue {
            key: request.key.clone(),
            create_revision: old.as_ref().map_or(revision, |old| old.create_revision),
            mod_revision: revision,
            version: old.as_ref().map_or(0, |old| old.version) + 1,
            value: request.value.clone(),
            lease: request.lease,
        };
        if let Some(old) = &old {
            if request.ignore_value {
                kv.value = old.value.clone();
            }
            if request.ignore_lease {
                kv.lease = old.lease;
            }
        }
        self.content.insert(request.key.clone(), kv.clone());
        let kind = EventType::Put as i32;
        self.events.push(Event { r#type: kind, kv: Some(kv), prev_kv: None });
        PutResponse { header: header(revision), prev_kv: old.filter(|_| request.prev_kv) }
    }

    fn delete(&mut self, request: &DeleteRangeRequest) -> DeleteRangeResponse {
        let within = |key: &&Bytes| is_within(key, &request.key, &request.range_end);
        let keys: Vec<_> = self.content.keys().filter(within).cloned().collect();
        let mut response =
            DeleteRangeResponse { deleted: keys.len() as i64, ..DeleteRangeResponse::default() };
        for key in keys {
            let old = self.content.remove(&key).expect("it is there");
            if request.prev_kv {
                response.prev_kvs.push(old);
            }
            let kv = KeyValue { key, mod_revision: self.before + 1, ..KeyValue::default() };
            let kind = EventType::Delete as i32;
            self.events.push(Event { r#type: kind, kv: Some(kv), prev_kv: None });
        }
        response.header = header(self.revision());
        response
    }

    fn txn(&mut self, model: &Model, request: &TxnRequest) -> TxnResponse {
        let (succeeded, operations) = model.way(request);
        let responses = operations.iter().map(|operation| {
            let response = match operation.request.as_ref().expect("validated") {
                Request::RequestRange(range) => {
                    let content = match range.revision {
                        1.. => &model.past[range.revision as usize],
                        _ => &self.content,
                    };
                    response_op::Response::ResponseRange(read(content, self.revision(), range))
                }
                Request::RequestPut(put) => response_op::Response::ResponsePut(self.put(put)),
                Request::RequestDeleteRange(delete) => {
                    response_op::Response::ResponseDeleteRange(self.delete(delete))
                }
                Request::RequestTxn(nested) => {
                    response_op::Response::ResponseTxn(self.txn(model, nested))
                }
            };
            ResponseOp { response: Some(response) }
        });
        let responses = responses.collect();
        TxnResponse { header: Some(ResponseHeader::default()), succeeded, responses }
    }
}
