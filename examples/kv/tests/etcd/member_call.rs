//! Requests that change the members or the leader. Whom they are about has another id on each
//! side.

use bytes::Bytes;
use kontiki_kv::proto::etcdserverpb::{
    HashKvRequest, HashKvResponse, Member, MemberAddRequest, MemberAddResponse,
    MemberPromoteRequest, MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse,
    MemberUpdateRequest, MemberUpdateResponse, MoveLeaderRequest, MoveLeaderResponse,
};
use prost::Message;

use crate::call::{Answer, Ids, encode, placeholder, show, without_port};

/// Whom a request is about.
#[derive(Clone, Copy, Debug)]
pub enum Who {
    /// The only member that runs.
    Own,
    /// The one that was added last.
    Newest,
    /// The member with just this id, if any.
    Id(u64),
}

#[derive(Clone, Debug)]
pub enum MemberCall {
    AddVoter(Vec<&'static str>),
    AddLearner(Vec<&'static str>),
    Remove(Who),
    Update(Who, Vec<&'static str>),
    Promote(Who),
    MoveLeader(Who),
    HashKv(i64),
}

impl Who {
    fn id(self, ids: Ids) -> u64 {
        match self {
            Self::Own => ids.member,
            Self::Newest => ids.newest,
            Self::Id(id) => id,
        }
    }
}

impl MemberCall {
    pub fn wire(&self, ids: Ids) -> (&'static str, Bytes) {
        let texts = |urls: &[&str]| urls.iter().map(|&url| url.to_owned()).collect();
        match self {
            Self::AddVoter(urls) | Self::AddLearner(urls) => {
                let is_learner = matches!(self, Self::AddLearner(_));
                let request = MemberAddRequest { peer_ur_ls: texts(urls), is_learner };
                ("/etcdserverpb.Cluster/MemberAdd", encode(&request))
            }
            Self::Remove(who) => {
                let request = MemberRemoveRequest { id: who.id(ids) };
                ("/etcdserverpb.Cluster/MemberRemove", encode(&request))
            }
            Self::Update(who, urls) => {
                let request = MemberUpdateRequest { id: who.id(ids), peer_ur_ls: texts(urls) };
                ("/etcdserverpb.Cluster/MemberUpdate", encode(&request))
            }
            Self::Promote(who) => {
                let request = MemberPromoteRequest { id: who.id(ids) };
                ("/etcdserverpb.Cluster/MemberPromote", encode(&request))
            }
            Self::MoveLeader(who) => {
                let request = MoveLeaderRequest { target_id: who.id(ids) };
                ("/etcdserverpb.Maintenance/MoveLeader", encode(&request))
            }
            Self::HashKv(revision) => {
                let request = HashKvRequest { revision: *revision };
                ("/etcdserverpb.Maintenance/HashKV", encode(&request))
            }
        }
    }

    pub fn show(&self, answer: Bytes, ids: Ids) -> Answer {
        match self {
            Self::AddVoter(_) | Self::AddLearner(_) => {
                let added = MemberAddResponse::decode(answer.clone()).expect("an answer");
                let newest = added.member.map_or(0, |member| member.id);
                let ids = Ids { newest, ..ids };
                let shown = show(answer, ids, |added: &mut MemberAddResponse| {
                    added.member.iter_mut().for_each(|member| neutral(member, ids));
                    members(&mut added.members, ids);
                    &mut added.header
                });
                Answer { newest: Some(newest), ..shown }
            }
            Self::Remove(_) => show(answer, ids, |removed: &mut MemberRemoveResponse| {
                members(&mut removed.members, ids);
                &mut removed.header
            }),
            Self::Update(..) => show(answer, ids, |updated: &mut MemberUpdateResponse| {
                members(&mut updated.members, ids);
                &mut updated.header
            }),
            Self::Promote(_) => show(answer, ids, |promoted: &mut MemberPromoteResponse| {
                members(&mut promoted.members, ids);
                &mut promoted.header
            }),
            Self::MoveLeader(_) => {
                show(answer, ids, |moved: &mut MoveLeaderResponse| &mut moved.header)
            }
            Self::HashKv(_) => show(answer, ids, |hash: &mut HashKvResponse| {
                // Both hash bytes of their own; the last field came later.
                (hash.hash, hash.hash_revision) = (0, 0);
                &mut hash.header
            }),
        }
    }
}

/// Replaces what is each side's own; ids are drawn, so that their order is chance.
pub fn members(members: &mut [Member], ids: Ids) {
    members.iter_mut().for_each(|member| neutral(member, ids));
    members.sort_by_key(|member| member.id);
}

fn neutral(member: &mut Member, ids: Ids) {
    member.id = match placeholder(member.id, ids.member) {
        id if id == ids.newest => 2,
        id => id,
    };
    for url in member.peer_ur_ls.iter_mut().chain(&mut member.client_ur_ls) {
        *url = without_port(url);
    }
}
