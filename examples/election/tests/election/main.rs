//! Every recipe against the real etcd, where it is installed, and against Kontiki, with networks
//! that hang and candidates that die.
//!
//! - `system`: starts a store; `each_system!` runs a story on both;
//! - `session`, `election`, `queue`, `mutex`, `elector`, `ttl_lock`, `fencing`, `inline`: stories.

mod election;
mod elector;
mod fencing;
mod inline;
mod mutex;
mod queue;
mod session;
mod system;
mod ttl_lock;

use std::time::Duration;

use kontiki_client::{Client, ClientUrl, HttpUrl, Timeouts};
use kontiki_election::{Session, SessionOptions};

/// Nothing that is to happen takes longer on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes a test of each story, for each system.
macro_rules! each_system {
    ($($story:ident),+ $(,)?) => {
        mod on_etcd {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                if let Some(store) = crate::system::Store::etcd().await {
                    super::$story(&store).await;
                }
            })+
        }
        mod on_kontiki {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                super::$story(&crate::system::Store::kontiki().await).await;
            })+
        }
    };
}
pub(crate) use each_system;

fn url(port: u16) -> ClientUrl {
    ClientUrl(HttpUrl::new("127.0.0.1", port))
}

/// A client whose calls take a second at most, which is less than any session lives.
fn client(ports: &[u16]) -> Client {
    let timeouts = Timeouts { dial: Duration::from_secs(1), command: Duration::from_secs(1) };
    Client::new(ports.iter().copied().map(url).collect(), timeouts)
}

/// A session of the shortest time to live that both systems grant.
async fn session(client: &Client) -> Session {
    session_of(client, 2).await
}

async fn session_of(client: &Client, ttl_s: u64) -> Session {
    let options = SessionOptions::new(Duration::from_secs(ttl_s));
    patiently("a session", async {
        loop {
            match Session::open(client, options).await {
                Ok(session) => return session,
                Err(error) => println!("no session yet: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await
}

async fn patiently<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(done) => done,
        Err(_) => panic!("{what}: not within {PATIENCE:?}"),
    }
}

/// Waits until `holds`.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    patiently(what, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}
