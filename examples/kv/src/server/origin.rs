//! Who a node is: its log says so, or else its settings, or else the cluster that it joins.

use std::time::Duration;

use kontiki::raft_core::{Membership, NodeId};
use kontiki::raft_grpc::{self, Discovered};
use kontiki::raft_storage::{self, Wal};
use kontiki::{Builder, StartError};
use tokio::time::{Instant, sleep};

use super::{ServeError, log_dir};
use crate::config::{ClusterState, HttpUrl, ServeConfig, UrlList};

/// How long the members of a cluster that is joined may take to answer, and to know this node.
const JOIN_PATIENCE: Duration = Duration::from_secs(10);
const JOIN_PAUSE: Duration = Duration::from_millis(250);

/// Where a node has its id from.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// It has a log.
    Log(NodeId),
    /// It helps to found the cluster.
    Founder(NodeId),
    /// It was added to the cluster whose members are there.
    Joiner(NodeId, Vec<String>),
}

impl Origin {
    /// Finds out who this node is. What is said of the initial cluster counts only where there is
    /// no log.
    pub(super) async fn find(config: &ServeConfig) -> Result<Self, ServeError> {
        let options = raft_storage::Options::default();
        let identity = Wal::identity_in(&log_dir(config), &options)
            .map_err(|error| StartError::Storage(error.to_string()))?;
        if let Some(identity) = identity {
            return Ok(Self::Log(identity.node_id));
        }
        let id = config.initial_id()?;
        match config.initial_cluster_state {
            ClusterState::New => Ok(Self::Founder(id)),
            ClusterState::Existing => {
                let others = config.initial_cluster.iter().filter(|member| member.id != id);
                let urls = others.flat_map(|member| &member.peer_urls);
                let addresses: Vec<String> = urls.map(ToString::to_string).collect();
                let id = ask(&addresses, &config.initial_advertise_peer_urls, &config.name).await?;
                Ok(Self::Joiner(id, addresses))
            }
        }
    }

    /// The builder of such a node.
    pub(super) fn builder(&self, config: &ServeConfig) -> Builder {
        match self {
            Self::Log(id) => Builder::new(id.get()),
            Self::Founder(id) => {
                let builder = Builder::new(id.get()).cluster_id(config.initial_cluster_id);
                config.initial_cluster.iter().fold(builder, |builder, member| {
                    builder.member(member.id.get(), UrlList(member.peer_urls.clone()).to_string())
                })
            }
            Self::Joiner(id, addresses) => Builder::new(id.get()).join(addresses),
        }
    }

    /// The node.
    pub(super) fn id(&self) -> NodeId {
        match self {
            Self::Log(id) | Self::Founder(id) | Self::Joiner(id, _) => *id,
        }
    }
}

/// Asks the members which of them has these URLs, as etcd's nodes do. One that is behind may not
/// know of it yet.
async fn ask(addresses: &[String], own: &[HttpUrl], name: &str) -> Result<NodeId, ServeError> {
    let deadline = Instant::now() + JOIN_PATIENCE;
    let mut asked_first = 0;
    loop {
        // Another one is asked first each time: the first may be the one that is behind.
        let mut turned = addresses.to_vec();
        turned.rotate_left(asked_first % addresses.len().max(1));
        asked_first += 1;
        let found = raft_grpc::discover(&turned.join(","), &raft_grpc::Config::default()).await;
        let failed = match found {
            Ok(found) => match find(&found.membership, own) {
                Some(id) => return Ok(id),
                None => not_added(&found, own, name),
            },
            Err(error) => ServeError::Join(format!(
                "the cluster cannot be joined: {error}; give in --initial-cluster the members \
                 that run"
            )),
        };
        if Instant::now() >= deadline {
            return Err(failed);
        }
        sleep(JOIN_PAUSE).await;
    }
}

/// The member that is reached at just these URLs.
fn find(membership: &Membership, own: &[HttpUrl]) -> Option<NodeId> {
    let sorted = |mut urls: Vec<HttpUrl>| {
        urls.sort_unstable();
        urls
    };
    let own = sorted(own.to_vec());
    let has = |address: &str| {
        let urls: Option<UrlList> = address.parse().ok();
        urls.is_some_and(|urls| sorted(urls.0) == own)
    };
    membership.members().iter().find(|member| has(&member.address)).map(|member| member.id)
}

fn not_added(found: &Discovered, own: &[HttpUrl], name: &str) -> ServeError {
    let urls = UrlList(own.to_vec());
    ServeError::Join(format!(
        "no member of cluster {:x} has the peer URLs {urls}; add it first: kontiki member add \
         {name} --peer-urls={urls}",
        found.cluster.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_found_by_all_of_its_urls_in_any_order() {
        let id = |id| NodeId::new(id).expect("not zero");
        let group = [(id(1), "http://a:1"), (id(2), "http://b:1,http://a:2"), (id(3), "")];
        let group = Membership::founded(group).expect("voters");
        let urls = |text: &str| text.parse::<UrlList>().expect("URLs").0;
        for (own, expected) in [
            ("http://a:1", Some(id(1))),
            ("http://a:2,http://b:1", Some(id(2))),
            ("http://b:1", None),
            ("http://a:1,http://b:1", None),
            ("http://c:1", None),
        ] {
            assert_eq!(find(&group, &urls(own)), expected, "{own}");
        }
    }
}
