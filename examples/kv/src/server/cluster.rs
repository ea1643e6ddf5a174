//! The Cluster service: who the members are, and how that changes.
//!
//! The members are those of the log ([`Membership`]), and of nothing else. What a member says of
//! itself, its name and where it serves clients, is in the store, and only decorates them.

use kontiki::raft_core::{Change, Member as Raft, Membership, NewMember, NodeId, Standing};
use tonic::{Request, Response, Status};

use super::backend::Backend;
use super::refusal;
use crate::config::{HttpUrl, UrlList};
use crate::proto::etcdserverpb::cluster_server::Cluster;
use crate::proto::etcdserverpb::{
    Member, MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse,
    MemberPromoteRequest, MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse,
    MemberUpdateRequest, MemberUpdateResponse,
};

impl Backend {
    fn members(&self) -> Vec<Member> {
        let membership = self.node.membership().current().membership;
        membership.members().iter().map(|member| self.member(member)).collect()
    }

    fn member(&self, member: &Raft) -> Member {
        let said = self.reader.members().get(&member.id.get()).cloned().unwrap_or_default();
        Member {
            id: member.id.get(),
            name: said.name,
            peer_ur_ls: if member.address.is_empty() {
                said.peer_urls // A log from before addresses were data of the members.
            } else {
                peer_urls(&member.address)
            },
            client_ur_ls: said.client_urls,
            is_learner: matches!(member.standing, Standing::Learner { .. }),
        }
    }
}

#[tonic::async_trait]
impl Cluster for Backend {
    async fn member_list(
        &self,
        request: Request<MemberListRequest>,
    ) -> Result<Response<MemberListResponse>, Status> {
        if request.into_inner().linearizable {
            self.linearizable().await?;
        }
        // Answers of this service carry no revision.
        let header = self.header(0);
        Ok(Response::new(MemberListResponse { header, members: self.members() }))
    }

    /// A voter joins as a learner, and votes as soon as it has caught up, so that adding it never
    /// costs the cluster its quorum.
    async fn member_add(
        &self,
        request: Request<MemberAddRequest>,
    ) -> Result<Response<MemberAddResponse>, Status> {
        let MemberAddRequest { peer_ur_ls, is_learner } = request.into_inner();
        let urls = parse_urls(&peer_ur_ls)?;
        let id = self
            .edit(|members| {
                check_free(members, None, &urls)?;
                let id = fresh_id(members);
                let new = NewMember { id, address: UrlList(urls.clone()).to_string() };
                let add = if is_learner { Change::AddLearner } else { Change::AddVoter };
                Ok((vec![add(new)], id))
            })
            .await?;
        let members = self.members();
        let member = members.iter().find(|member| member.id == id.get()).cloned();
        Ok(Response::new(MemberAddResponse { header: self.header(0), member, members }))
    }

    async fn member_remove(
        &self,
        request: Request<MemberRemoveRequest>,
    ) -> Result<Response<MemberRemoveResponse>, Status> {
        let id = member_id(request.into_inner().id)?;
        self.edit(|_| Ok((vec![Change::Remove(id)], ()))).await?;
        let (header, members) = (self.header(0), self.members());
        Ok(Response::new(MemberRemoveResponse { header, members }))
    }

    async fn member_update(
        &self,
        request: Request<MemberUpdateRequest>,
    ) -> Result<Response<MemberUpdateResponse>, Status> {
        let MemberUpdateRequest { id, peer_ur_ls } = request.into_inner();
        let (id, urls) = (member_id(id)?, parse_urls(&peer_ur_ls)?);
        self.edit(|members| {
            check_free(members, Some(id), &urls)?;
            Ok((vec![Change::SetAddress(id, UrlList(urls.clone()).to_string())], ()))
        })
        .await?;
        let (header, members) = (self.header(0), self.members());
        Ok(Response::new(MemberUpdateResponse { header, members }))
    }

    async fn member_promote(
        &self,
        request: Request<MemberPromoteRequest>,
    ) -> Result<Response<MemberPromoteResponse>, Status> {
        let id = member_id(request.into_inner().id)?;
        self.edit(|_| Ok((vec![Change::Promote(id)], ()))).await?;
        let (header, members) = (self.header(0), self.members());
        Ok(Response::new(MemberPromoteResponse { header, members }))
    }
}

/// The id of a member, which is never zero.
pub(super) fn member_id(id: u64) -> Result<NodeId, Status> {
    NodeId::new(id).ok_or_else(|| Status::not_found("etcdserver: member not found"))
}

/// URLs as a member's address has them.
pub(super) fn peer_urls(address: &str) -> Vec<String> {
    address.split(',').filter(|url| !url.is_empty()).map(str::to_owned).collect()
}

/// URLs that others can dial: at least one, and none twice.
pub(super) fn parse_urls(texts: &[String]) -> Result<Vec<HttpUrl>, Status> {
    let urls: Result<Vec<HttpUrl>, _> = texts.iter().map(|text| text.parse()).collect();
    let mut urls = urls.map_err(|_| refusal::bad_urls())?;
    urls.sort_unstable();
    let is_doubled = urls.windows(2).any(|pair| pair[0] == pair[1]);
    if urls.is_empty() || is_doubled || urls.iter().any(HttpUrl::is_everywhere) {
        return Err(refusal::bad_urls());
    }
    Ok(urls)
}

/// That no other member has any of these URLs.
pub(super) fn check_free(
    members: &Membership,
    own: Option<NodeId>,
    urls: &[HttpUrl],
) -> Result<(), Status> {
    let has = |member: &Raft| {
        let taken: UrlList = member.address.parse().unwrap_or_else(|_| UrlList(Vec::new()));
        taken.0.iter().any(|url| urls.contains(url))
    };
    match members.members().iter().find(|member| Some(member.id) != own && has(member)) {
        Some(_) => Err(Status::failed_precondition("etcdserver: Peer URLs already exists")),
        None => Ok(()),
    }
}

/// An id that no member has or had.
pub(super) fn fresh_id(members: &Membership) -> NodeId {
    loop {
        let id = NodeId::new(rand::random());
        let is_fresh = |id: &NodeId| members.member(*id).is_none() && !members.was_removed(*id);
        if let Some(id) = id.filter(is_fresh) {
            return id;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn urls_of_a_member_can_be_dialled_and_stand_there_once() {
        let urls = parse_urls(&texts(&["http://b:1", "http://a:1"])).expect("URLs");
        assert_eq!(UrlList(urls).to_string(), "http://a:1,http://b:1");
        let bad: [&[&str]; 6] = [
            &[],
            &["a:1"],
            &["https://a:1"],
            &["http://a:1", "http://a:1"],
            &[""],
            &["http://0.0.0.0:1"],
        ];
        for urls in bad {
            let status = parse_urls(&texts(urls)).expect_err("no URLs");
            assert_eq!(status.message(), "etcdserver: given member URLs are invalid", "{urls:?}");
        }
    }

    #[test]
    fn no_two_members_share_a_url() {
        let id = |id| NodeId::new(id).expect("not zero");
        let members = [(id(1), "http://a:1,http://a:2"), (id(2), "http://b:1")];
        let members = Membership::founded(members).expect("voters");
        let check = |own, url: &str| check_free(&members, own, &[url.parse().expect("a URL")]);
        assert!(check(None, "http://c:1").is_ok());
        assert!(check(Some(id(1)), "http://a:2").is_ok());
        for (own, url) in [(None, "http://a:2"), (Some(id(2)), "http://a:1")] {
            let status = check(own, url).expect_err("it is taken");
            assert_eq!(status.message(), "etcdserver: Peer URLs already exists");
        }
    }
}
