//! Finds out which group a node belongs to, and opens or makes its log: from its directory, from
//! the group that it joins, or as a founder.

use std::collections::BTreeMap;
use std::time::Duration;

use raft_core::{Change, Incarnation, Member, Membership, NodeId};
use raft_grpc::{ClusterId, Discovered, discover};
use raft_storage::{Identity, OpenError, Options, Owner, Recovered, StateKept, Wal};
use tokio::net::TcpListener;
use tokio::time;

use super::{Builder, Opened};
use crate::error::StartError;

/// How long the members of a group that is joined may take to answer.
const JOIN_PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait before they are asked again.
const JOIN_PAUSE: Duration = Duration::from_millis(250);

pub(super) async fn open(builder: Builder) -> Result<Opened, StartError> {
    let id = node_id(builder.id)?;
    let mut config = builder.config.config(id)?;
    let founders = builder.founders(id)?;
    let mut options = Options::default();
    options.segment_bytes = builder.segment_bytes.unwrap_or(options.segment_bytes);
    // The state machine, which comes later, says whether it needs the snapshot.
    options.state_kept = StateKept::Elsewhere;

    // Addresses that are known are bound first: nothing is changed on disk if that fails.
    let mut listeners = bind(&builder.listen).await?;
    let exists = Wal::exists(&builder.data_dir, &options).map_err(storage_error)?;
    let (log, recovered, others) = if exists {
        let (log, recovered) = builder.open_log(id, &options)?;
        let newest = recovered.memberships.last().map(|(_, newest)| newest);
        builder.note_founders(newest.map(|newest| &**newest), founders.as_ref());
        (log, recovered, BTreeMap::new())
    } else if builder.join.is_empty() {
        let alone = || Membership::founded([(id, "")]);
        let founders = founders.or_else(alone).ok_or_else(zero_members)?;
        if listeners.is_empty() {
            listeners = bind_own(&founders, id).await?;
        }
        let cluster = builder.cluster_id.unwrap_or_default();
        let (log, recovered) = builder.create_log(id, cluster, &founders, &options)?;
        (log, recovered, BTreeMap::new())
    } else {
        let found = builder.discover(id).await?;
        if listeners.is_empty() {
            listeners = bind_own(&found.membership, id).await?;
        }
        let (cluster, nobody) = (found.cluster.0, Membership::unknown());
        let (log, recovered) = builder.create_log(id, cluster, &nobody, &options)?;
        (log, recovered, addresses(&found.membership))
    };
    if listeners.is_empty() {
        let newest = recovered.memberships.last().map(|(_, newest)| newest);
        if let Some(newest) = newest {
            listeners = bind_own(newest, id).await?;
        }
    }
    let incarnation = Incarnation::new(recovered.identity.incarnation);
    config.raft.incarnation = incarnation;
    let incarnation = incarnation.ok_or_else(|| {
        storage_error("the identity file names disk zero, which is none; restore it")
    })?;
    let limit = builder.snapshot_bytes_per_second;
    let dir = builder.data_dir;
    Ok(Opened { config, incarnation, listeners, others, limit, dir, options, log, recovered })
}

impl Builder {
    /// The founders, proven to make a group; `None` where none are given.
    fn founders(&self, id: NodeId) -> Result<Option<Membership>, StartError> {
        let wrong = |reason: String| Err(StartError::Settings(reason));
        let mut addresses = BTreeMap::new();
        for (member, address) in &self.founders {
            let member = node_id(*member)?;
            if let Some((other, _)) = addresses.iter().find(|(_, known)| *known == address)
                && self.founders.len() > 1
            {
                return wrong(format!(
                    "members {other} and {member} have the same address, {address:?}; give each \
                     its own"
                ));
            }
            if addresses.insert(member, address.as_str()).is_some() {
                return wrong(format!("two members have the id {member}; give each its own"));
            }
        }
        if !addresses.is_empty() && !addresses.contains_key(&id) {
            return wrong(format!("this node, {id}, is not among the members; add it"));
        }
        if !addresses.is_empty() && !self.join.is_empty() {
            return wrong("a node founds a group or joins one; give members or addresses".into());
        }
        let Some(founders) = Membership::founded(addresses) else { return Ok(None) };
        let mut changes = Vec::new();
        for &(member, priority) in self.priorities.iter().filter(|(_, priority)| *priority > 0) {
            changes.push(Change::SetPriority(node_id(member)?, priority));
        }
        if changes.is_empty() {
            return Ok(Some(founders));
        }
        let founders = founders.changed(&changes, |_| false);
        founders.map(Some).map_err(|error| {
            StartError::Settings(format!("the priorities of the members: {error}"))
        })
    }

    /// The members in the log count, whoever is given here.
    fn note_founders(&self, in_log: Option<&Membership>, given: Option<&Membership>) {
        let (Some(in_log), Some(given)) = (in_log, given) else { return };
        if addresses(in_log) != addresses(given) {
            tracing::info!(dir = %self.data_dir.display(), members = ?addresses(in_log),
                given = ?addresses(given),
                "the members in the log are others than those given; the log counts");
        }
    }

    /// Asks the group that is joined which one it is, and who is in it.
    async fn discover(&self, id: NodeId) -> Result<Discovered, StartError> {
        let addresses = self.join.join(",");
        let (deadline, settings) = (time::Instant::now() + JOIN_PATIENCE, Default::default());
        let found = loop {
            match discover(&addresses, &settings).await {
                Ok(found) if found.membership.member(id).is_some() => break found,
                Ok(found) if time::Instant::now() >= deadline => {
                    return Err(StartError::Join(not_a_member(id, &found)));
                }
                Err(error) if time::Instant::now() >= deadline => {
                    return Err(StartError::Join(format!(
                        "the group cannot be joined: {error}; give the addresses of members that \
                         run"
                    )));
                }
                Ok(found) if found.membership.was_removed(id) => {
                    return Err(StartError::Join(not_a_member(id, &found)));
                }
                Ok(_) | Err(_) => time::sleep(JOIN_PAUSE).await,
            }
        };
        let wrong = |reason| Err(StartError::Join(reason));
        if self.cluster_id.is_some_and(|given| given != found.cluster.0) {
            let ClusterId(theirs) = found.cluster;
            return wrong(format!(
                "the group at {addresses} is cluster {theirs:x}, not the one that is given; \
                 correct the one or the other"
            ));
        }
        let had = found.membership.member(id).and_then(|member| member.incarnation);
        if let Some(disk) = had {
            return wrong(format!(
                "member {id} has been in the group with disk {disk}, and {} is empty: what it \
                 promised is lost, so replace it by a new member (kontiki member replace)",
                self.data_dir.display()
            ));
        }
        Ok(found)
    }

    fn create_log(
        &self,
        id: NodeId,
        cluster_id: u64,
        members: &Membership,
        options: &Options,
    ) -> Result<(Wal, Recovered), StartError> {
        let incarnation = rand::random_range(1..=u64::MAX);
        let identity = Identity { cluster_id, node_id: id, incarnation };
        Wal::create(&self.data_dir, identity, members, options).map_err(storage_error)
    }

    /// Opens the log that there is; where no cluster is given, whichever it belongs to.
    fn open_log(&self, id: NodeId, options: &Options) -> Result<(Wal, Recovered), StartError> {
        let owner = Owner { cluster_id: self.cluster_id.unwrap_or_default(), node_id: id };
        let opened = match Wal::open(&self.data_dir, owner, options) {
            Err(OpenError::WrongOwner { found, .. })
                if self.cluster_id.is_none() && found.node_id == id =>
            {
                Wal::open(&self.data_dir, found, options)
            }
            opened => opened,
        };
        opened.map_err(storage_error)
    }
}

/// Where everybody is.
fn addresses(membership: &Membership) -> BTreeMap<NodeId, String> {
    let member = |member: &Member| (member.id, member.address.clone());
    membership.members().iter().map(member).collect()
}

fn not_a_member(id: NodeId, found: &Discovered) -> String {
    let (cluster, removed) = (found.cluster, found.membership.was_removed(id));
    if removed {
        format!(
            "node {id} was removed from cluster {cluster}, and an id is never given again; add \
             this node under another one, with an empty directory"
        )
    } else {
        format!(
            "node {id} is no member of cluster {cluster}, says node {}; add it there first",
            found.node
        )
    }
}

fn node_id(id: u64) -> Result<NodeId, StartError> {
    let zero = || StartError::Settings("a node has the id 0; give it another number".into());
    NodeId::new(id).ok_or_else(zero)
}

fn zero_members() -> StartError {
    StartError::Settings("a group has at least one member".into())
}

/// Binds the address at which the others reach this node. Alone, it needs none.
async fn bind_own(membership: &Membership, id: NodeId) -> Result<Vec<TcpListener>, StartError> {
    let own = membership.member(id).map_or("", |member| member.address.as_str());
    if own.is_empty() && membership.members().len() <= 1 {
        return Ok(Vec::new());
    }
    bind(&own.split(',').map(|it| it.trim().to_owned()).collect::<Vec<_>>()).await
}

async fn bind(addresses: &[String]) -> Result<Vec<TcpListener>, StartError> {
    let mut listeners = Vec::new();
    for address in addresses {
        let bound = TcpListener::bind(address).await.map_err(|error| {
            let hint = "stop the process that uses it, or give an address of this machine";
            StartError::Transport(format!("cannot listen on {address} for peers: {error}; {hint}"))
        })?;
        listeners.push(bound);
    }
    Ok(listeners)
}

fn storage_error(error: impl std::fmt::Display) -> StartError {
    StartError::Storage(error.to_string())
}
