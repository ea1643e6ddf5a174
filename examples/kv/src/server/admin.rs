//! The Admin service: what operators ask beyond the API of etcd.

use kontiki::RoleKind;
use kontiki::raft_core::{After, Member, NodeId, Standing};
use tonic::{Request, Response, Status};

use super::backend::Backend;
use super::cluster::{member_id, peer_urls};
use super::members::Via;
use super::refusal;
use super::wire::from_wire;
use crate::proto::kontiki::admin_server::Admin;
use crate::proto::kontiki::{
    ChangeMembersRequest, ChangeMembersResponse, InspectRequest, InspectResponse, InspectedMember,
    LeasesRequest, LeasesResponse, Progress, TransferLeadershipRequest, TransferLeadershipResponse,
};

#[tonic::async_trait]
impl Admin for Backend {
    async fn change_members(
        &self,
        request: Request<ChangeMembersRequest>,
    ) -> Result<Response<ChangeMembersResponse>, Status> {
        let via = Via::of(&request);
        let members = self.node.membership().current().membership;
        let set = from_wire(request.into_inner(), &members)?;
        let index = self.change_members(set, via).await?.0;
        Ok(Response::new(ChangeMembersResponse { index }))
    }

    async fn transfer_leadership(
        &self,
        request: Request<TransferLeadershipRequest>,
    ) -> Result<Response<TransferLeadershipResponse>, Status> {
        let via = Via::of(&request);
        let to = match request.into_inner().to {
            0 => None,
            to => Some(member_id(to)?),
        };
        let leader = self.transfer(to, via).await?;
        Ok(Response::new(TransferLeadershipResponse { leader }))
    }

    async fn renew_leases(
        &self,
        request: Request<LeasesRequest>,
    ) -> Result<Response<LeasesResponse>, Status> {
        let numbers = self.renew_here(&request.into_inner().ids).await;
        let numbers = numbers.ok_or_else(refusal::not_leader)?;
        Ok(Response::new(LeasesResponse { numbers }))
    }

    async fn lease_times(
        &self,
        request: Request<LeasesRequest>,
    ) -> Result<Response<LeasesResponse>, Status> {
        let numbers = self.lease_times_here(&request.into_inner().ids).await?;
        let numbers = numbers.ok_or_else(refusal::not_leader)?;
        Ok(Response::new(LeasesResponse { numbers }))
    }

    async fn inspect(
        &self,
        _: Request<InspectRequest>,
    ) -> Result<Response<InspectResponse>, Status> {
        let status = self.node.status();
        let members = &status.members;
        Ok(Response::new(InspectResponse {
            cluster_id: self.cluster_id,
            member_id: status.id.get(),
            role: self.role(&status).to_owned(),
            term: status.leadership.term.0,
            leader: status.leadership.leader.map_or(0, NodeId::get),
            base: status.base.0,
            last: status.last.0,
            durable: status.durable.0,
            committed: status.committed.0,
            applied: status.applied.0,
            snapshot: status.snapshot.0,
            claim: status.claim.map(|claim| claim.last.index.0),
            is_storage_stalled: status.is_storage_stalled,
            transferring_to: status.transferring_to.map_or(0, NodeId::get),
            membership_index: members.index.0,
            members: members
                .membership
                .members()
                .iter()
                .map(|it| self.inspected(it, &status))
                .collect(),
        }))
    }
}

impl Backend {
    fn role(&self, status: &kontiki::Status) -> &'static str {
        match status.leadership.role {
            RoleKind::Leader => "leader",
            RoleKind::Follower if status.members.membership.is_learner(self.id) => "learner",
            RoleKind::Follower => "follower",
            RoleKind::PreCandidate | RoleKind::Candidate => "candidate",
        }
    }

    fn inspected(&self, member: &Member, status: &kontiki::Status) -> InspectedMember {
        let said = self.reader.members().get(&member.id.get()).cloned().unwrap_or_default();
        let peer = status.peers.iter().find(|peer| peer.id == member.id);
        let progress = peer.map(|peer| Progress {
            matched: peer.matched.0,
            is_live: peer.is_live,
            has_caught_up: peer.keeps_up,
            needs_snapshot: peer.needs_snapshot,
            snapshot_sent_bytes: peer.snapshot.map_or(0, |snapshot| snapshot.sent_bytes),
            snapshot_len_bytes: peer.snapshot.map_or(0, |snapshot| snapshot.len_bytes),
        });
        InspectedMember {
            id: member.id.get(),
            name: said.name,
            peer_urls: peer_urls(&member.address),
            client_urls: said.client_urls,
            standing: standing(member.standing).to_owned(),
            priority: member.priority.into(),
            incarnation: member.incarnation.map_or(0, |disk| disk.get()),
            progress,
        }
    }
}

/// In words, for people.
fn standing(standing: Standing) -> &'static str {
    match standing {
        Standing::Learner { promote: false } => "learner",
        Standing::Learner { promote: true } => "learner, to vote",
        Standing::Voter { retiring: None } => "voter",
        Standing::Voter { retiring: Some(After::Gone) } => "voter, to be removed",
        Standing::Voter { retiring: Some(After::Learner) } => "voter, to be learner",
        Standing::Joining => "joining",
        Standing::Leaving(After::Gone) => "leaving",
        Standing::Leaving(After::Learner) => "leaving, to be learner",
    }
}
