//! One endpoint, and the connection to it: made when it is first needed, shared by all calls, and
//! made anew once it has failed one of them. It never decides whether a call is repeated.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};
use tonic::transport::Channel;

use crate::error::root_cause;
use crate::url::ClientUrl;

/// How often an open stream asks whether the other side is still there. Servers of etcd hang up
/// on whoever asks more often than every five seconds.
const PING_EVERY: Duration = Duration::from_secs(6);
/// How long the answer to that may take.
const PING_MAX: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) url: ClientUrl,
    slot: Mutex<Slot>,
}

/// The connection in use, if any. Connections are counted, so that one which fails many calls at
/// once is given up once.
#[derive(Debug, Default)]
struct Slot {
    number: u64,
    channel: Option<Channel>,
}

#[derive(Clone, Debug)]
pub(crate) struct Connection {
    number: u64,
    pub(crate) channel: Channel,
}

impl Endpoint {
    pub(crate) fn new(url: ClientUrl) -> Self {
        Self { url, slot: Mutex::default() }
    }

    /// The connection that stands, or a new one, dialled for at most `dial` and until `until`. Of
    /// many callers one dials, and the others wait for it.
    pub(crate) async fn connect(
        &self,
        dial: Duration,
        until: Instant,
    ) -> Result<Connection, String> {
        let until = until.min(Instant::now() + dial);
        let connected = timeout_at(until, async {
            let mut slot = self.slot.lock().await;
            let channel = match &slot.channel {
                Some(channel) => channel.clone(),
                None => {
                    let channel = self.dial(dial).await?;
                    slot.number += 1;
                    slot.channel.insert(channel).clone()
                }
            };
            Ok(Connection { number: slot.number, channel })
        });
        connected.await.unwrap_or_else(|_| Err(format!("no connection within {dial:?}")))
    }

    async fn dial(&self, dial: Duration) -> Result<Channel, String> {
        let endpoint = tonic::transport::Endpoint::from_shared(self.url.0.to_string())
            .map_err(|error| root_cause(&error))?
            .connect_timeout(dial)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_MAX);
        endpoint.connect().await.map_err(|error| root_cause(&error))
    }

    /// Gives the connection up, unless there is a newer one. Whoever still uses it keeps it.
    pub(crate) async fn forget(&self, connection: &Connection) {
        let mut slot = self.slot.lock().await;
        if slot.number == connection.number {
            slot.channel = None;
        }
    }
}
