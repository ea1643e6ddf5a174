//! One request and its answer, as text that can be compared: what legitimately differs between
//! two clusters (their ids, their terms, their sizes) is replaced, all else is left as it came.

use std::fmt::Debug;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use http::uri::PathAndQuery;
use kontiki_kv::proto::etcdserverpb::{
    AlarmRequest, AlarmResponse, CompactionRequest, CompactionResponse, DeleteRangeRequest,
    DeleteRangeResponse, MemberListRequest, MemberListResponse, PutRequest, PutResponse,
    RangeRequest, RangeResponse, ResponseHeader, StatusRequest, StatusResponse, TxnRequest,
    TxnResponse,
};
use prost::Message;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use crate::lease_call::{self, LeaseCall};
use crate::member_call::{MemberCall, members};

/// No request takes so long.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A request to any service.
#[derive(Clone, Debug)]
pub enum Call {
    Range(RangeRequest),
    Put(PutRequest),
    DeleteRange(DeleteRangeRequest),
    Txn(TxnRequest),
    Compact(CompactionRequest),
    MemberList(MemberListRequest),
    Status(StatusRequest),
    Alarm(AlarmRequest),
    Member(MemberCall),
    Lease(LeaseCall),
    /// A message of any bytes to any path.
    Raw(&'static str, Bytes),
}

macro_rules! from {
    ($($variant:ident($request:ty)),* $(,)?) => {
        $(impl From<$request> for Call {
            fn from(request: $request) -> Self {
                Self::$variant(request)
            }
        })*
    };
}

from! {
    Range(RangeRequest),
    Put(PutRequest),
    DeleteRange(DeleteRangeRequest),
    Txn(TxnRequest),
    Compact(CompactionRequest),
    MemberList(MemberListRequest),
    Status(StatusRequest),
    Alarm(AlarmRequest),
    Member(MemberCall),
    Lease(LeaseCall),
}

/// What is said beside the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metadata {
    Nothing,
    HasLeader(&'static str),
}

/// An answer, and what later requests need of it.
#[derive(Clone, Debug)]
pub struct Answer {
    pub text: String,
    /// Of the header, where there is one.
    pub revision: Option<i64>,
    /// The member that was added.
    pub newest: Option<u64>,
    /// The server may be gone.
    pub is_broken: bool,
}

/// The ids that a server's answers carry.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ids {
    pub cluster: u64,
    pub member: u64,
    /// The member that was added last; zero before the first.
    pub newest: u64,
}

/// Whether the server answers a linearizable read.
pub async fn is_ready(channel: &Channel) -> bool {
    let request = RangeRequest { key: "\0".into(), ..RangeRequest::default() };
    let path = "/etcdserverpb.KV/Range";
    send(channel, path, request.encode_to_vec().into(), Metadata::Nothing).await.is_ok()
}

/// The only member's answer to who it is.
pub async fn ids(channel: &Channel) -> Ids {
    let path = "/etcdserverpb.Cluster/MemberList";
    let answer = send(channel, path, Bytes::new(), Metadata::Nothing).await.expect("an answer");
    let list = MemberListResponse::decode(answer).expect("a list of members");
    let [member] = &list.members[..] else { panic!("one member: {list:?}") };
    Ids { cluster: list.header.expect("a header").cluster_id, member: member.id, newest: 0 }
}

impl Call {
    /// Sends the request to the server that has these ids.
    pub async fn ask(&self, channel: &Channel, metadata: Metadata, ids: Ids) -> Answer {
        if let Self::Lease(LeaseCall::KeepAlive(leases)) = self {
            return lease_call::keep_alive(channel, leases, ids).await;
        }
        let (path, message) = self.wire(ids);
        let answer = match send(channel, path, message, metadata).await {
            Ok(answer) => answer,
            Err(status) => return Answer::refused(&status),
        };
        match self {
            Self::Range(_) => show(answer, ids, |range: &mut RangeResponse| &mut range.header),
            Self::Put(_) => show(answer, ids, |put: &mut PutResponse| &mut put.header),
            Self::DeleteRange(_) => {
                show(answer, ids, |deleted: &mut DeleteRangeResponse| &mut deleted.header)
            }
            Self::Txn(_) => show(answer, ids, |txn: &mut TxnResponse| &mut txn.header),
            Self::Compact(_) => {
                show(answer, ids, |compacted: &mut CompactionResponse| &mut compacted.header)
            }
            Self::MemberList(_) => show(answer, ids, |list: &mut MemberListResponse| {
                members(&mut list.members, ids);
                &mut list.header
            }),
            Self::Status(_) => show(answer, ids, |status: &mut StatusResponse| {
                in_kind(status, ids);
                &mut status.header
            }),
            Self::Alarm(_) => show(answer, ids, |alarm: &mut AlarmResponse| &mut alarm.header),
            Self::Member(call) => call.show(answer, ids),
            Self::Lease(call) => call.show(answer, ids),
            Self::Raw(..) => Answer::told(format!("{answer:?}")),
        }
    }

    fn wire(&self, ids: Ids) -> (&'static str, Bytes) {
        match self {
            Self::Range(request) => ("/etcdserverpb.KV/Range", encode(request)),
            Self::Put(request) => ("/etcdserverpb.KV/Put", encode(request)),
            Self::DeleteRange(request) => ("/etcdserverpb.KV/DeleteRange", encode(request)),
            Self::Txn(request) => ("/etcdserverpb.KV/Txn", encode(request)),
            Self::Compact(request) => ("/etcdserverpb.KV/Compact", encode(request)),
            Self::MemberList(request) => ("/etcdserverpb.Cluster/MemberList", encode(request)),
            Self::Status(request) => ("/etcdserverpb.Maintenance/Status", encode(request)),
            Self::Alarm(request) => ("/etcdserverpb.Maintenance/Alarm", encode(request)),
            Self::Member(call) => call.wire(ids),
            Self::Lease(call) => call.wire(),
            Self::Raw(path, message) => (path, message.clone()),
        }
    }
}

impl Answer {
    pub fn told(text: String) -> Self {
        Self { text, revision: None, newest: None, is_broken: false }
    }

    /// What was told before it.
    pub fn behind(self, before: String) -> Self {
        Self { text: before + &self.text, ..self }
    }

    pub fn refused(status: &Status) -> Self {
        let text = format!("{:?}: {}", status.code(), status.message());
        let is_broken = matches!(status.code(), Code::Unknown | Code::Unavailable);
        Self { is_broken, ..Self::told(text) }
    }
}

pub fn encode(request: &impl Message) -> Bytes {
    request.encode_to_vec().into()
}

/// Decodes an answer, replaces what may differ, and writes it down.
pub fn show<T: Message + Default + Debug>(
    answer: Bytes,
    ids: Ids,
    header: impl Fn(&mut T) -> &mut Option<ResponseHeader>,
) -> Answer {
    let mut answer = T::decode(answer).expect("an answer to the request");
    let mut revision = None;
    if let Some(header) = header(&mut answer) {
        header.cluster_id = placeholder(header.cluster_id, ids.cluster);
        header.member_id = placeholder(header.member_id, ids.member);
        header.raft_term = header.raft_term.min(1);
        revision = Some(header.revision);
    }
    Answer { revision, ..Answer::told(format!("{answer:#?}")) }
}

/// 1 stands for the id that is expected.
pub fn placeholder(id: u64, expected: u64) -> u64 {
    if id == expected { 1 } else { id }
}

pub fn without_port(url: &str) -> String {
    url.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned()
}

/// A status in which everything that depends on the moment is replaced by what it must be.
fn in_kind(status: &mut StatusResponse, ids: Ids) {
    let term = status.header.as_ref().map_or(0, |header| header.raft_term);
    let is_applied = status.raft_applied_index <= status.raft_index;
    let is_used = status.db_size_in_use <= status.db_size;
    assert!(is_applied && is_used && status.raft_term == term, "{status:?}");
    status.version = status.version.split('.').next().unwrap_or_default().to_owned();
    status.leader = placeholder(status.leader, ids.member);
    for number in [&mut status.db_size, &mut status.db_size_in_use] {
        *number = (*number).signum();
    }
    let positions = [&mut status.raft_index, &mut status.raft_term, &mut status.raft_applied_index];
    for number in positions {
        *number = (*number).min(1);
    }
    // Fields that came after the versions that we compare with.
    status.storage_version.clear();
    (status.db_size_quota, status.downgrade_info) = (0, None);
}

async fn send(
    channel: &Channel,
    path: &'static str,
    message: Bytes,
    metadata: Metadata,
) -> Result<Bytes, Status> {
    let mut client = tonic::client::Grpc::new(channel.clone()).max_decoding_message_size(1 << 30);
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let mut request = Request::new(message);
    if let Metadata::HasLeader(value) = metadata {
        request.metadata_mut().insert("hasleader", value.parse().expect("a value"));
    }
    let answer = client.unary(request, PathAndQuery::from_static(path), Whole);
    let answer = tokio::time::timeout(ANSWER_MAX, answer).await;
    let late = |_| Status::deadline_exceeded(format!("no answer within {ANSWER_MAX:?}"));
    Ok(answer.map_err(late)??.into_inner())
}

/// Messages as bytes: so that they need not be what the path expects.
pub struct Whole;

impl Codec for Whole {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Whole {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for Whole {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
