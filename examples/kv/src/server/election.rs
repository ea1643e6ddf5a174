//! The Election service: who leads, in the order in which they came.

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::backend::Backend;
use super::line::{self, Line, Place};
use super::watch::News;
use crate::proto::etcdserverpb::ResponseHeader;
use crate::proto::mvccpb::event::EventType;
use crate::proto::mvccpb::{Event, KeyValue};
use crate::proto::v3electionpb::election_server::Election;
use crate::proto::v3electionpb::{
    CampaignRequest, CampaignResponse, LeaderKey, LeaderRequest, LeaderResponse, ProclaimRequest,
    ProclaimResponse, ResignRequest, ResignResponse,
};

/// How many leaders a client may not have read yet.
const LEADERS_AHEAD: usize = 4;

#[tonic::async_trait]
impl Election for Backend {
    /// Waits until its client leads, as long as that waits.
    async fn campaign(
        &self,
        request: Request<CampaignRequest>,
    ) -> Result<Response<CampaignResponse>, Status> {
        let CampaignRequest { name, lease, value } = request.into_inner();
        let expired = "election: session is expired";
        let turn = Line::new(&name).take_turn(self, lease, Some(value), expired).await?;
        let Place { key, created: rev, lease } = turn.place;
        let leader = Some(LeaderKey { name, key, rev, lease });
        Ok(Response::new(CampaignResponse { header: turn.entered, leader }))
    }

    async fn proclaim(
        &self,
        request: Request<ProclaimRequest>,
    ) -> Result<Response<ProclaimResponse>, Status> {
        let ProclaimRequest { leader, value } = request.into_inner();
        let mut place = place(leader)?;
        if place.lease == 0 {
            place.lease = line::grant(self).await?;
        }
        let header = line::proclaim(self, &place, value).await?;
        let header = Some(header.ok_or_else(line::stale)?);
        Ok(Response::new(ProclaimResponse { header }))
    }

    async fn leader(
        &self,
        request: Request<LeaderRequest>,
    ) -> Result<Response<LeaderResponse>, Status> {
        let (kv, header) = Line::new(&request.into_inner().name).first(self).await?;
        let kv = Some(kv.ok_or_else(|| Status::unknown("election: no leader"))?);
        Ok(Response::new(LeaderResponse { header, kv }))
    }

    type ObserveStream = ReceiverStream<Result<LeaderResponse, Status>>;

    /// Shows who leads, and whatever the leader says; nothing while nobody leads.
    async fn observe(
        &self,
        request: Request<LeaderRequest>,
    ) -> Result<Response<Self::ObserveStream>, Status> {
        let line = Line::new(&request.into_inner().name);
        let (leaders, shown) = mpsc::channel(LEADERS_AHEAD);
        let backend = self.clone();
        tokio::spawn(async move {
            let observed = tokio::select! {
                observed = observe(&backend, &line, &leaders) => observed,
                () = leaders.closed() => return,
            };
            if let Err(status) = observed {
                // A client that has gone wants no more.
                drop(leaders.send(Err(status)).await);
            }
        });
        Ok(Response::new(ReceiverStream::new(shown)))
    }

    async fn resign(
        &self,
        request: Request<ResignRequest>,
    ) -> Result<Response<ResignResponse>, Status> {
        let place = place(request.into_inner().leader)?;
        Ok(Response::new(ResignResponse { header: line::leave(self, &place).await? }))
    }
}

type Leaders = mpsc::Sender<Result<LeaderResponse, Status>>;

/// Shows one leader after the other, until nobody looks.
async fn observe(backend: &Backend, line: &Line, leaders: &Leaders) -> Result<(), Status> {
    loop {
        let (leader, header) = line.first(backend).await?;
        let next = header.as_ref().map_or(0, |header| header.revision) + 1;
        let mut follow = line.follow(backend, next);
        let mut shown = leader.as_ref().map(|kv| kv.key.clone());
        if let Some(leader) = leader
            && !show(leaders, header, leader).await
        {
            return Ok(());
        }
        // Whoever comes into an empty line leads; others are of no interest until the leader goes.
        'reign: loop {
            let News::Events(events) = follow.next().await? else { break };
            for Event { r#type, kv, .. } in events {
                let Some(kv) = kv else { continue };
                if shown.get_or_insert_with(|| kv.key.clone()) != &kv.key {
                    continue;
                }
                if r#type == i32::from(EventType::Delete) {
                    break 'reign;
                }
                if !show(leaders, backend.header(kv.mod_revision), kv).await {
                    return Ok(());
                }
            }
        }
    }
}

/// Whether somebody still looks.
async fn show(leaders: &Leaders, header: Option<ResponseHeader>, kv: KeyValue) -> bool {
    leaders.send(Ok(LeaderResponse { header, kv: Some(kv) })).await.is_ok()
}

fn place(leader: Option<LeaderKey>) -> Result<Place, Status> {
    let missing = || Status::unknown("\"leader\" field must be provided");
    let LeaderKey { key, rev: created, lease, .. } = leader.ok_or_else(missing)?;
    Ok(Place { key, created, lease })
}
