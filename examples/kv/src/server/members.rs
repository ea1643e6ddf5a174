//! Changes of the members, and of the leader: asked of any node, made by the one that leads.
//!
//! ```text
//!   MemberAdd … on any node ─▶ edit: look, decide ─▶ at_leader ─▶ Node::change_membership
//!                                ▲                      │ this node does not lead
//!                                │                      ▼
//!                                │             kontiki.Admin of the leader, at its client URL
//!                                └── ABORTED: somebody changed the members since the look
//! ```
//! What is decided is bound to the configuration that was looked at, so that it never matters how
//! old the look was, or on which node.

use kontiki::raft_core::{Change, ChangeError, ChangeSet, Index, Membership, NodeId};
use kontiki::{ChangeMembershipError, TransferLeadershipError};
use tokio::time::{Instant, sleep, timeout_at};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use super::backend::{Backend, RETRY_PAUSE, stopped, timed_out};
use super::refusal;
use super::wire::to_wire;
use crate::proto::kontiki::TransferLeadershipRequest;
use crate::proto::kontiki::admin_client::AdminClient;

/// Says that a member has handed the request on: it is not handed on again.
pub(super) const FORWARDED: &str = "kontiki-forwarded";

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    /// Anybody.
    Client,
    /// A member that took this node for the leader.
    Member,
}

impl Via {
    pub(super) fn of<T>(request: &Request<T>) -> Self {
        match request.metadata().get(FORWARDED) {
            Some(_) => Self::Member,
            None => Self::Client,
        }
    }
}

/// What only the leader does.
enum Wish {
    /// Makes other members; done with the index of their configuration.
    Change(ChangeSet),
    /// Hands over, to the best there is or to this member; done with the id of who leads then.
    Transfer(Option<NodeId>),
}

/// What came of an attempt on this node.
enum Attempt {
    Done(u64),
    Refused(Status),
    /// It may go well soon.
    Again,
    /// This node does not lead.
    NotLeader,
}

impl Backend {
    /// Looks at the members, decides what to change, and changes it. Returns what was decided
    /// once this node knows of it.
    pub(super) async fn edit<T>(
        &self,
        decide: impl Fn(&Membership) -> Result<(Vec<Change>, T), Status>,
    ) -> Result<T, Status> {
        let deadline = self.deadline();
        loop {
            self.linearizable().await?;
            let seen = self.node.membership().current();
            let (changes, decided) = decide(&seen.membership)?;
            let force = !self.config.strict_reconfig_check;
            let set = ChangeSet { changes, expected: Some(seen.index), force };
            match self.change_members(set, Via::Client).await {
                Ok(index) => {
                    self.wait_for_members(index, deadline).await?;
                    return Ok(decided);
                }
                Err(status) if status.code() == Code::Aborted && Instant::now() < deadline => {
                    sleep(RETRY_PAUSE).await;
                }
                Err(status) => return Err(status),
            }
        }
    }

    /// Changes the members, here or where the leader is. Returns the index of the configuration
    /// in force then.
    pub(super) async fn change_members(&self, set: ChangeSet, via: Via) -> Result<Index, Status> {
        self.at_leader(&Wish::Change(set), via).await.map(Index)
    }

    /// Hands leadership over, to the best there is or to this member. Returns who leads then.
    pub(super) async fn transfer(&self, to: Option<NodeId>, via: Via) -> Result<u64, Status> {
        self.at_leader(&Wish::Transfer(to), via).await
    }

    /// Tries it here, and where this node does not lead, at the leader, until it is done or
    /// refused or has taken too long. Nothing is tried again that may have been done.
    async fn at_leader(&self, wish: &Wish, via: Via) -> Result<u64, Status> {
        let deadline = self.deadline();
        loop {
            let attempt = timeout_at(deadline, self.attempt(wish)).await;
            match attempt.map_err(|_| refusal::unknown())? {
                Attempt::Done(done) => return Ok(done),
                Attempt::Refused(status) => return Err(status),
                Attempt::Again => {}
                Attempt::NotLeader if via == Via::Member => return Err(refusal::not_leader()),
                Attempt::NotLeader => {
                    if let Some(leader) = self.admin_of_leader(deadline).await {
                        let asked = timeout_at(deadline, ask(leader, wish)).await;
                        match asked.map_err(|_| refusal::unknown())? {
                            Err(status) if refusal::is_not_leader(&status) => {}
                            answer => return answer,
                        }
                    }
                }
            }
            self.wait_for_leader(deadline).await?;
        }
    }

    async fn attempt(&self, wish: &Wish) -> Attempt {
        match wish {
            Wish::Change(set) => self.attempt_change(set.clone()).await,
            Wish::Transfer(to) => self.attempt_transfer(*to).await,
        }
    }

    async fn attempt_change(&self, set: ChangeSet) -> Attempt {
        use ChangeMembershipError as E;
        match self.node.change_membership(set).await {
            Ok(index) => Attempt::Done(index.0),
            Err(E::NotLeader { .. }) => Attempt::NotLeader,
            Err(E::Refused(ChangeError::TooEarly) | E::Busy) => Attempt::Again,
            Err(E::Refused(ChangeError::InProgress)) if self.is_joint() => Attempt::Again,
            // Asked twice, it is done once.
            Err(E::Refused(ChangeError::NothingChanges)) => {
                Attempt::Done(self.node.membership().current().index.0)
            }
            Err(E::Refused(reason)) => Attempt::Refused(refusal::change(reason)),
            Err(E::Stopped) => Attempt::Refused(stopped()),
            // Unknown, and what a later version of the engine may add.
            Err(_) => Attempt::Refused(refusal::unknown()),
        }
    }

    async fn attempt_transfer(&self, to: Option<NodeId>) -> Attempt {
        use TransferLeadershipError as E;
        match self.node.transfer_leadership(to).await {
            Ok(leader) => Attempt::Done(leader.get()),
            Err(E::NotLeader { .. }) => Attempt::NotLeader,
            Err(E::InProgress | E::Busy) => Attempt::Again,
            Err(E::Stopped) => Attempt::Refused(stopped()),
            Err(reason) => Attempt::Refused(refusal::transfer(&reason)),
        }
    }

    /// The leader's service, at one of the URLs that it has told everybody; `None` where nobody
    /// leads or cannot be reached at this moment, so that nothing was asked.
    pub(super) async fn admin_of_leader(&self, deadline: Instant) -> Option<AdminClient<Channel>> {
        let leader = self.node.leadership().current().leader?;
        if leader == self.id {
            return None;
        }
        let urls = self.reader.members().get(&leader.get())?.client_urls.clone();
        for url in urls {
            let Ok(endpoint) = Endpoint::from_shared(url) else { continue };
            let endpoint = endpoint.connect_timeout(self.config.election_timeout);
            if let Ok(Ok(channel)) = timeout_at(deadline, endpoint.connect()).await {
                return Some(AdminClient::new(channel));
            }
        }
        None
    }

    /// Waits until this node knows of the configuration at `index`.
    async fn wait_for_members(&self, index: Index, deadline: Instant) -> Result<(), Status> {
        let mut members = self.node.membership();
        while members.current().index < index {
            match timeout_at(deadline, members.changed()).await {
                Ok(Some(_)) => {}
                Ok(None) => return Err(stopped()),
                Err(_) => return Err(timed_out()),
            }
        }
        Ok(())
    }

    fn is_joint(&self) -> bool {
        self.node.membership().current().membership.is_joint()
    }
}

/// Asks the leader.
async fn ask(mut leader: AdminClient<Channel>, wish: &Wish) -> Result<u64, Status> {
    match wish {
        Wish::Change(set) => {
            let answer = leader.change_members(handed_on(to_wire(set))).await?;
            Ok(answer.into_inner().index)
        }
        Wish::Transfer(to) => {
            let to = to.map_or(0, NodeId::get);
            let request = handed_on(TransferLeadershipRequest { to });
            Ok(leader.transfer_leadership(request).await?.into_inner().leader)
        }
    }
}

/// A request that is not to be handed on once more.
fn handed_on<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert(FORWARDED, tonic::metadata::MetadataValue::from_static("1"));
    request
}
