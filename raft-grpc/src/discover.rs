//! What a node asks that has not joined a cluster yet: which one is it, and who is in it?

use raft_core::{Index, Membership, MembershipDecodeError, NodeId};
use tokio::time::timeout;
use tonic::Request;
use tonic::transport::Uri;

use crate::address;
use crate::config::{ClusterId, Config};
use crate::hello::VERSION;
use crate::link::{Failure, endpoint, root_cause};
use crate::proto::{self, peer_client::PeerClient};

/// The largest answer that is read.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// What a member says of its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovered {
    /// The cluster.
    pub cluster: ClusterId,
    /// Who said so.
    pub node: NodeId,
    /// Where the membership stands in the log.
    pub index: Index,
    /// The newest committed membership that this node knows of.
    pub membership: Membership,
}

/// Why nobody could be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoverError {
    /// The addresses make no sense.
    #[error("{address:?} is given as the address of a member, {reason}; write it as host:port")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No member answered. It may be tried again.
    #[error("no member of the cluster answers: {tried}")]
    Unreachable {
        /// Each address, and what happened there.
        tried: String,
    },
}

/// Asks the members at `addresses`, `host:port` each and separated by commas, in turn, for what
/// a node has to know that wants to join. Each is given
/// [`connect_timeout`](Config::connect_timeout) and
/// [`handshake_timeout`](Config::handshake_timeout). With certificates, those of the members
/// have to name the hosts that are called here, for nobody knows yet which node is where.
///
/// # Errors
/// Nobody answers, with what happened at each address.
pub async fn discover(addresses: &str, config: &Config) -> Result<Discovered, DiscoverError> {
    #[cfg(feature = "tls")]
    let encrypted = config.tls.is_some();
    #[cfg(not(feature = "tls"))]
    let encrypted = false;
    let parsed = address::parse_all(addresses, encrypted)
        .map_err(|reason| DiscoverError::Address { address: addresses.to_owned(), reason })?;
    let mut tried = Vec::new();
    for address in parsed {
        match ask(&address, config).await {
            Ok(discovered) => return Ok(discovered),
            Err(failure) => tried.push(format!("{address}: {}", failure.message)),
        }
    }
    Err(DiscoverError::Unreachable { tried: tried.join("; ") })
}

async fn ask(address: &Uri, config: &Config) -> Result<Discovered, Failure> {
    let endpoint = endpoint(config, address);
    #[cfg(feature = "tls")]
    let endpoint = match &config.tls {
        Some(tls) => endpoint.tls_config(tls.anyone()).map_err(|error| root_cause(&error))?,
        None => endpoint,
    };
    let channel = endpoint.connect().await.map_err(|error| root_cause(&error))?;
    let mut client = PeerClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
    let asked = client.introduce(Request::new(proto::IntroduceRequest {}));
    match timeout(config.handshake_timeout, asked).await {
        Ok(answer) => read(answer?.into_inner()),
        Err(_) => Err("connected, but the question was not answered in time".to_owned().into()),
    }
}

fn read(answer: proto::Introduction) -> Result<Discovered, Failure> {
    if answer.version != VERSION {
        let theirs = answer.version;
        return Err(format!(
            "it speaks version {theirs} of the peer protocol, and this node version {VERSION}; \
             run releases that share one"
        )
        .into());
    }
    let node = NodeId::new(answer.node).ok_or_else(|| "the node is zero".to_owned())?;
    let membership = Membership::decode(&answer.membership)
        .map_err(|error: MembershipDecodeError| error.to_string())?;
    let (cluster, index) = (ClusterId(answer.cluster), Index(answer.membership_index));
    Ok(Discovered { cluster, node, index, membership })
}
