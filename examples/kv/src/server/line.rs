//! A line of keys below one name, for locks and elections: whose key was created first has it.
//!
//! ```text
//!   name/a  created at 5   has the turn
//!   name/c  created at 7   waits for name/a to go, and for nothing else
//!   name/b  created at 9   waits for name/c
//! ```
//! Each has one key, named after its lease, and goes with it. The turn is taken only after one look
//! at a single state that shows all of it: the own key as it was created, under its lease, and
//! nobody before it (scenario B83). Nothing here trusts that a wait was long enough.

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tonic::{Code, Request, Status};

use super::backend::{Backend, RETRY_PAUSE, stopped};
use super::watch::{Follow, News};
use crate::proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::proto::etcdserverpb::kv_server::Kv;
use crate::proto::etcdserverpb::lease_server::Lease;
use crate::proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use crate::proto::etcdserverpb::{
    Compare, DeleteRangeRequest, LeaseGrantRequest, PutRequest, RangeRequest, RequestOp,
    ResponseHeader, TxnRequest, TxnResponse, request_op, response_op,
};
use crate::proto::mvccpb::event::EventType;
use crate::proto::mvccpb::{Event, KeyValue};

/// Seconds that a lease has which a request without one is given; as etcd's.
const LEASE_TTL: i64 = 60;

/// Where somebody stands in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub key: Bytes,
    /// The revision at which the key was created: the token of whoever has the turn.
    pub created: i64,
    pub lease: i64,
}

/// The turn, and the headers of the answers in which it began to wait for it and got it.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub place: Place,
    pub entered: Option<ResponseHeader>,
    pub taken: Option<ResponseHeader>,
}

/// All keys below a name.
#[derive(Clone, Debug)]
pub(super) struct Line {
    prefix: Bytes,
}

impl Line {
    pub fn new(name: &[u8]) -> Self {
        Self { prefix: [name, b"/"].concat().into() }
    }

    /// Enters the line, and waits for the turn. Who goes away while waiting leaves the line;
    /// whose key goes away is told what `expired` says.
    pub async fn take_turn(
        self,
        backend: &Backend,
        lease: i64,
        value: Option<Bytes>,
        expired: &'static str,
    ) -> Result<Turn, Status> {
        let (mut answer, answered) = oneshot::channel();
        let backend = backend.clone();
        // A task of its own, because what was begun is also to be ended when nobody asks any more.
        tokio::spawn(async move {
            let (place, entered) = match self.enter(&backend, lease, value).await {
                Ok(entered) => entered,
                Err(status) => return drop(answer.send(Err(status))),
            };
            let taken = tokio::select! {
                taken = self.wait(&backend, &place, expired) => Some(taken),
                () = answer.closed() => None,
            };
            let turn = |taken| Turn { place: place.clone(), entered, taken };
            let is_taken = matches!(taken, Some(Ok(_)));
            let is_told = taken.is_some_and(|taken| answer.send(taken.map(turn)).is_ok());
            // A client whose node stops keeps its place: it comes again, at another node.
            let stays = lease != 0 && *backend.hub.stopping().borrow();
            if !(is_taken && is_told || stays)
                && let Err(status) = leave(&backend, &place).await
            {
                tracing::debug!(%status, "a key stays in its line until its lease ends");
            }
        });
        answered.await.unwrap_or_else(|_| Err(stopped()))
    }

    /// Puts the key, unless it is there.
    async fn enter(
        &self,
        backend: &Backend,
        lease: i64,
        value: Option<Bytes>,
    ) -> Result<(Place, Option<ResponseHeader>), Status> {
        let lease = if lease == 0 { grant(backend).await? } else { lease };
        let key = Bytes::from([&self.prefix[..], format!("{lease:x}").as_bytes()].concat());
        let put = put(&key, value.clone().unwrap_or_default(), lease);
        let found = self.commit_surely(
            backend,
            TxnRequest {
                compare: vec![is_created_at(&key, 0)],
                success: vec![put],
                failure: vec![get(&key)],
            },
        );
        let found = found.await?;
        let revision = found.header.as_ref().map_or(0, |header| header.revision);
        let Some(kv) = (!found.succeeded).then(|| first_of(&found)).flatten() else {
            return Ok((Place { key, created: revision, lease }, found.header));
        };
        let place = Place { key, created: kv.create_revision, lease };
        if let Some(value) = value.filter(|value| *value != kv.value)
            && proclaim(backend, &place, value).await?.is_none()
        {
            return Err(stale());
        }
        Ok((place, found.header))
    }

    /// Waits until nobody is before this place.
    async fn wait(
        &self,
        backend: &Backend,
        place: &Place,
        expired: &'static str,
    ) -> Result<Option<ResponseHeader>, Status> {
        loop {
            let seen = self.commit_surely(
                backend,
                TxnRequest {
                    compare: vec![is_created_at(&place.key, place.created), is_under(place)],
                    success: vec![self.before(place)],
                    failure: vec![],
                },
            );
            let seen = seen.await?;
            if !seen.succeeded {
                // Its lease has ended, or somebody has deleted it.
                return Err(Status::unknown(expired));
            }
            let Some(before) = first_of(&seen) else { return Ok(seen.header) };
            let next = seen.header.as_ref().map_or(0, |header| header.revision) + 1;
            let follow = Follow::new(&backend.hub);
            let mut follow = follow.of(&before.key, &[], next).of(&place.key, &[], next);
            until_deleted(&mut follow).await?;
        }
    }

    /// Who has the turn, if anybody has.
    pub async fn first(
        &self,
        backend: &Backend,
    ) -> Result<(Option<KeyValue>, Option<ResponseHeader>), Status> {
        let range = RangeRequest {
            limit: 1,
            sort_order: SortOrder::Ascend.into(),
            sort_target: SortTarget::Create.into(),
            ..self.all()
        };
        let found = Kv::range(backend, Request::new(range)).await?.into_inner();
        Ok((found.kvs.into_iter().next(), found.header))
    }

    /// Watches the whole line.
    pub fn follow(&self, backend: &Backend, start: i64) -> Follow {
        let RangeRequest { key, range_end, .. } = self.all();
        Follow::new(&backend.hub).of(&key, &range_end, start)
    }

    fn all(&self) -> RangeRequest {
        // The name ends with a slash, and behind that comes a zero among the bytes.
        let name = &self.prefix[..self.prefix.len() - 1];
        let range_end = Bytes::from([name, &[b'/' + 1]].concat());
        RangeRequest { key: self.prefix.clone(), range_end, ..RangeRequest::default() }
    }

    /// Asks for the last one before this place.
    fn before(&self, place: &Place) -> RequestOp {
        op(request_op::Request::RequestRange(RangeRequest {
            limit: 1,
            sort_order: SortOrder::Descend.into(),
            sort_target: SortTarget::Create.into(),
            max_create_revision: place.created - 1,
            ..self.all()
        }))
    }

    /// Tries again what may have been done, because doing it twice is as doing it once.
    async fn commit_surely(
        &self,
        backend: &Backend,
        request: TxnRequest,
    ) -> Result<TxnResponse, Status> {
        let deadline = backend.deadline();
        loop {
            match commit(backend, request.clone()).await {
                Err(status)
                    if status.code() == Code::Unavailable
                        && tokio::time::Instant::now() < deadline
                        && !*backend.hub.stopping().borrow() =>
                {
                    sleep(RETRY_PAUSE).await;
                }
                outcome => return outcome,
            }
        }
    }
}

/// Changes the value of a place; `None` when it is not there any more.
pub(super) async fn proclaim(
    backend: &Backend,
    place: &Place,
    value: Bytes,
) -> Result<Option<ResponseHeader>, Status> {
    let done = commit(
        backend,
        TxnRequest {
            compare: vec![is_created_at(&place.key, place.created)],
            success: vec![put(&place.key, value, place.lease)],
            failure: vec![],
        },
    );
    let done = done.await?;
    Ok(if done.succeeded { done.header } else { None })
}

/// Leaves a place, unless it is another's by now.
pub(super) async fn leave(
    backend: &Backend,
    place: &Place,
) -> Result<Option<ResponseHeader>, Status> {
    let delete = DeleteRangeRequest { key: place.key.clone(), ..DeleteRangeRequest::default() };
    let done = commit(
        backend,
        TxnRequest {
            compare: vec![is_created_at(&place.key, place.created)],
            success: vec![op(request_op::Request::RequestDeleteRange(delete))],
            failure: vec![],
        },
    );
    Ok(done.await?.header)
}

/// A lease for who has none.
pub(super) async fn grant(backend: &Backend) -> Result<i64, Status> {
    let request = LeaseGrantRequest { ttl: LEASE_TTL, id: 0 };
    Ok(Lease::lease_grant(backend, Request::new(request)).await?.into_inner().id)
}

/// Somebody else leads, or nobody.
pub(super) fn stale() -> Status {
    Status::unknown("election: not leader")
}

async fn until_deleted(follow: &mut Follow) -> Result<(), Status> {
    let is_deletion = |event: &Event| event.r#type() == EventType::Delete;
    loop {
        match follow.next().await? {
            News::Events(events) if !events.iter().any(is_deletion) => {}
            News::Events(_) | News::Lost => return Ok(()),
        }
    }
}

async fn commit(backend: &Backend, request: TxnRequest) -> Result<TxnResponse, Status> {
    Ok(Kv::txn(backend, Request::new(request)).await?.into_inner())
}

/// The first key that a transaction of one range has found.
fn first_of(answer: &TxnResponse) -> Option<KeyValue> {
    match answer.responses.first()?.response.as_ref()? {
        response_op::Response::ResponseRange(range) => range.kvs.first().cloned(),
        _ => None, // It asked for a range.
    }
}

fn op(request: request_op::Request) -> RequestOp {
    RequestOp { request: Some(request) }
}

fn get(key: &Bytes) -> RequestOp {
    let range = RangeRequest { key: key.clone(), ..RangeRequest::default() };
    op(request_op::Request::RequestRange(range))
}

fn put(key: &Bytes, value: Bytes, lease: i64) -> RequestOp {
    let put = PutRequest { key: key.clone(), value, lease, ..PutRequest::default() };
    op(request_op::Request::RequestPut(put))
}

fn is_created_at(key: &Bytes, revision: i64) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Create.into(),
        key: key.clone(),
        target_union: Some(TargetUnion::CreateRevision(revision)),
        range_end: Bytes::new(),
    }
}

fn is_under(place: &Place) -> Compare {
    Compare {
        target: CompareTarget::Lease.into(),
        target_union: Some(TargetUnion::Lease(place.lease)),
        ..is_created_at(&place.key, 0)
    }
}
