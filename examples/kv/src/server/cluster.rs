//! The Cluster service: who the members are.

use tonic::{Request, Response, Status};

use super::backend::Backend;
use crate::proto::etcdserverpb::cluster_server::Cluster;
use crate::proto::etcdserverpb::{
    Member, MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse,
    MemberPromoteRequest, MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse,
    MemberUpdateRequest, MemberUpdateResponse,
};

impl Backend {
    /// The members: who votes comes from the cluster's founding, their names and client URLs
    /// from what each said of itself when it came up.
    fn members(&self) -> Vec<Member> {
        let said = self.reader.members();
        let member = |member: &crate::config::Member| {
            let said = said.get(&member.id.get());
            Member {
                id: member.id.get(),
                name: said.map(|said| said.name.clone()).unwrap_or_default(),
                peer_ur_ls: vec![member.peer_url.to_string()],
                client_ur_ls: said.map(|said| said.client_urls.clone()).unwrap_or_default(),
                is_learner: false,
            }
        };
        self.config.initial_cluster.iter().map(member).collect()
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

    async fn member_add(
        &self,
        _: Request<MemberAddRequest>,
    ) -> Result<Response<MemberAddResponse>, Status> {
        Err(fixed("MemberAdd"))
    }

    async fn member_remove(
        &self,
        _: Request<MemberRemoveRequest>,
    ) -> Result<Response<MemberRemoveResponse>, Status> {
        Err(fixed("MemberRemove"))
    }

    async fn member_update(
        &self,
        _: Request<MemberUpdateRequest>,
    ) -> Result<Response<MemberUpdateResponse>, Status> {
        Err(fixed("MemberUpdate"))
    }

    async fn member_promote(
        &self,
        _: Request<MemberPromoteRequest>,
    ) -> Result<Response<MemberPromoteResponse>, Status> {
        Err(fixed("MemberPromote"))
    }
}

fn fixed(method: &str) -> Status {
    Status::unimplemented(format!(
        "{method}: this version keeps the members that the cluster was founded with"
    ))
}
