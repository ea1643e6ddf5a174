//! Who leads, seen from outside: every node is asked for its status, five times a second.

use std::time::Duration;

use kontiki_client::{Client, ClientUrl, Timeouts};
use kontiki_kv::config::HttpUrl;
use kontiki_kv::proto::etcdserverpb::StatusResponse;
use tokio::sync::mpsc;

use super::plan::Plan;

const PERIOD: Duration = Duration::from_millis(200);
const TIMEOUTS: Timeouts =
    Timeouts { dial: Duration::from_millis(500), command: Duration::from_millis(500) };

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// For the first time all nodes know a leader.
    Ready,
    /// Somebody leads.
    Leader { id: u64, term: u64 },
    /// No node that answers knows a leader.
    Nobody,
}

/// What a node says: who leads, in which term.
type View = Option<(u64, u64)>;

/// Tells what changes, from now on.
pub(super) fn watch(plan: &Plan) -> mpsc::Receiver<Seen> {
    let (sender, receiver) = mpsc::channel(1);
    let endpoint =
        |node: &super::plan::NodePlan| ClientUrl(HttpUrl::new("127.0.0.1", node.client_port));
    let client = Client::new(plan.nodes.iter().map(endpoint).collect(), TIMEOUTS).asking_once();
    tokio::spawn(async move {
        let mut last = Last::default();
        loop {
            let views = ask(&client).await;
            for seen in last.changes(&views) {
                if sender.send(seen).await.is_err() {
                    return;
                }
            }
            tokio::time::sleep(PERIOD).await;
        }
    });
    receiver
}

async fn ask(client: &Client) -> Vec<View> {
    let view =
        |status: StatusResponse| (status.leader != 0).then_some((status.leader, status.raft_term));
    let statuses = client.statuses().await;
    statuses.into_iter().map(|(_, status)| status.ok().and_then(view)).collect()
}

/// What was told last.
#[derive(Default)]
struct Last {
    ready: bool,
    leader: View,
}

impl Last {
    /// The news in `views`. Of two leaders the one of the later term leads.
    fn changes(&mut self, views: &[View]) -> Vec<Seen> {
        let mut changes = Vec::new();
        if !self.ready && views.iter().all(Option::is_some) {
            self.ready = true;
            changes.push(Seen::Ready);
        }
        let leader = views.iter().flatten().copied().max_by_key(|&(_, term)| term);
        if leader != self.leader {
            self.leader = leader;
            changes.push(match leader {
                Some((id, term)) => Seen::Leader { id, term },
                None => Seen::Nobody,
            });
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_told() {
        let mut last = Last::default();
        assert_eq!(last.changes(&[None, None, None]), []);
        assert_eq!(last.changes(&[Some((7, 2)), None, None]), [Seen::Leader { id: 7, term: 2 }]);
        assert_eq!(last.changes(&[Some((7, 2)); 3]), [Seen::Ready]);
        assert_eq!(last.changes(&[Some((7, 2)); 3]), []);
        // The old leader does not know yet.
        let views = [Some((7, 2)), Some((8, 3)), Some((8, 3))];
        assert_eq!(last.changes(&views), [Seen::Leader { id: 8, term: 3 }]);
        assert_eq!(last.changes(&[None, None, None]), [Seen::Nobody]);
    }
}
