//! Who may open a stream to this node.
//!
//! Peers may: the nodes that the engine has named. So may *guests*, whom it has not: votes are
//! given whatever the voter believes of the membership, a leader of a newer configuration has to
//! reach who does not know it yet, and a node that joins knows nobody. A guest is answered at
//! the address in its greeting. There are few of them, and one goes when it calls no more. Who is
//! called back only answers: that makes no guest of the one who calls back.

use std::sync::Arc;

use tonic::{Request, Status};

use crate::address;
use crate::event::{PeerEvent, tell};
use crate::hello::{Hello, Motive};
use crate::link;
use crate::peer::{Kind, Peer};
use crate::refusal::Mismatch;
use crate::service::PeerService;
use crate::shared::Shared;

impl PeerService {
    /// Reads and checks the greeting. A refusal is logged once for each cause.
    pub(crate) async fn welcome<T>(
        &self,
        request: &Request<T>,
    ) -> Result<(Hello, Arc<Peer>), Status> {
        if self.shared.peers().closed {
            let node = self.shared.identity.node;
            return Err(Status::unavailable(format!("node {node} is shutting down")));
        }
        let admitted = match self.check(request) {
            Ok((hello, peer)) => self.admit(hello, peer).await,
            Err(mismatch) => Err(mismatch),
        };
        admitted.map_err(|mismatch| {
            let reason = mismatch.to_string();
            if self.shared.is_news(&reason) {
                let remote = request.remote_addr().map(|address| address.to_string());
                if let Mismatch::Twin { from, .. } = mismatch {
                    tracing::error!(remote, reason, "refused a peer's stream");
                    tell(&self.shared.events, PeerEvent::Twins { peer: from });
                } else {
                    tracing::warn!(remote, reason, "refused a peer's stream");
                }
            }
            mismatch.into()
        })
    }

    /// Checks all that can be checked at once.
    fn check<T>(&self, request: &Request<T>) -> Result<(Hello, Arc<Peer>), Mismatch> {
        let ours = &self.shared.identity;
        let hello = Hello::read(request.metadata(), ours.node)?;
        hello.check(ours)?;
        let from = hello.from.node;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.shared.config.tls {
            tls.check(request, from, ours.node)?;
        }
        if self.shared.peers().removed.contains(&from) {
            return Err(Mismatch::Removed { from, node: ours.node });
        }
        let peer = match self.shared.peer(from) {
            Some(peer) if peer.kind() == Kind::Peer => peer,
            known => self.shared.receive_guest(&hello, known)?,
        };
        peer.recognise(hello.from.incarnation, ours.node, &self.shared.events)?;
        Ok((hello, peer))
    }

    /// Makes sure that no other process of the same identity lives.
    async fn admit(&self, hello: Hello, peer: Arc<Peer>) -> Result<(Hello, Arc<Peer>), Mismatch> {
        // The other half is left for what else the greeting takes.
        let patience = self.shared.config.handshake_timeout / 2;
        match peer.readings.admit(hello.session, patience).await {
            Ok(()) => Ok((hello, peer)),
            Err(_) => Err(Mismatch::Twin { from: peer.id, node: self.shared.identity.node }),
        }
    }
}

impl Shared {
    /// The guest that says `hello`, who may be `known` already.
    fn receive_guest(
        self: &Arc<Self>,
        hello: &Hello,
        known: Option<Arc<Peer>>,
    ) -> Result<Arc<Peer>, Mismatch> {
        let (from, node) = (hello.from.node, self.identity.node);
        let unknown = |reason| Mismatch::Unknown { from, node, reason };
        // Else two nodes of which neither wants the other would call back for ever.
        if hello.motive == Motive::CallBack {
            return Err(unknown("it only calls back, and nobody here has called".to_owned()));
        }
        if hello.address.is_empty() {
            return Err(unknown("it advertises no address".to_owned()));
        }
        let addresses = address::parse_all(&hello.address, self.is_encrypted())
            .map_err(|reason| unknown(format!("it advertises {:?}, {reason}", hello.address)))?;
        let guest = match known {
            Some(guest) => guest,
            None => self.make_guest(hello)?,
        };
        guest.relink(addresses, || link::start(self, &guest));
        Ok(guest)
    }

    fn make_guest(&self, hello: &Hello) -> Result<Arc<Peer>, Mismatch> {
        let (from, node, max) = (hello.from.node, self.identity.node, self.config.guests_max);
        let is_guest = |it: &&Arc<Peer>| it.kind() == Kind::Guest;
        // One lock for looking and adding: two streams of one guest arrive together.
        let mut peers = self.peers();
        if let Some(guest) = peers.by_id.get(&from) {
            return Ok(Arc::clone(guest));
        }
        if peers.closed || peers.by_id.values().filter(is_guest).count() >= max {
            return Err(Mismatch::Crowded { from, node, max });
        }
        let guest = Arc::new(Peer::new(from, Kind::Guest, &self.config));
        peers.by_id.insert(from, Arc::clone(&guest));
        drop(peers);
        let address = hello.address.clone();
        tracing::info!(node = %from, address, "a node calls that is no member as far as is known");
        tell(&self.events, PeerEvent::Unknown { node: from, address });
        Ok(guest)
    }
}
