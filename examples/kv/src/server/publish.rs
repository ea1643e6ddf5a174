//! A node tells the cluster its name and where it serves clients, once it can.

use std::time::Duration;

use kontiki::raft_core::Change;
use tokio::time::sleep;
use tonic::Status;

use super::backend::Backend;
use crate::config::HttpUrl;
use crate::proto::kontiki::SetMember;
use crate::proto::kontiki::command::Action;

/// How long to wait after an attempt that failed.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Replicates what this node says of itself, unless the cluster knows it already. Saying it
/// twice does no harm.
pub(super) async fn publish(backend: Backend) {
    while let Err(status) = try_to(&backend).await {
        tracing::debug!(%status, "could not tell the cluster about this node yet");
        sleep(RETRY_PAUSE).await;
    }
}

async fn try_to(backend: &Backend) -> Result<(), Status> {
    let texts = |urls: &[HttpUrl]| urls.iter().map(ToString::to_string).collect();
    let config = &backend.config;
    let member = SetMember {
        id: backend.id.get(),
        name: config.name.clone(),
        client_urls: texts(&config.advertise_client_urls),
        peer_urls: texts(&config.initial_advertise_peer_urls),
    };
    backend.linearizable().await?;
    if backend.reader.members().get(&member.id) != Some(&member) {
        backend.propose(Action::SetMember(member)).await?;
    }
    let Some(priority) = config.priority else { return Ok(()) };
    let members = backend.node.membership().current().membership;
    if members.member(backend.id).is_none_or(|member| member.priority == priority) {
        return Ok(());
    }
    backend.edit(|_| Ok((vec![Change::SetPriority(backend.id, priority)], ()))).await
}
