//! A node tells the cluster its name and where it serves clients, once it can.

use std::time::Duration;

use tokio::time::sleep;

use super::backend::Backend;
use crate::config::HttpUrl;
use crate::proto::kontiki::SetMember;
use crate::proto::kontiki::command::Action;

/// How long to wait after an attempt that failed.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Replicates what this node says of itself, unless the cluster knows it already. Saying it
/// twice does no harm.
pub(super) async fn publish(backend: Backend) {
    let texts = |urls: &[HttpUrl]| urls.iter().map(ToString::to_string).collect();
    let config = &backend.config;
    let member = SetMember {
        id: config.member_id.get(),
        name: config.name.clone(),
        client_urls: texts(&config.advertise_client_urls),
        peer_urls: texts(&config.initial_advertise_peer_urls),
    };
    loop {
        let failed = match backend.linearizable().await {
            Ok(()) if backend.reader.members().get(&member.id) == Some(&member) => return,
            Ok(()) => backend.propose(Action::SetMember(member.clone())).await.err(),
            Err(status) => Some(status),
        };
        let Some(status) = failed else { return };
        tracing::debug!(%status, "could not tell the cluster about this node yet");
        sleep(RETRY_PAUSE).await;
    }
}
