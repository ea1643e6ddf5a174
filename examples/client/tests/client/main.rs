//! The client against servers that fail on purpose, and against etcd where it is installed.
//!
//! - `fake`: a server in this process that counts what reaches it;
//! - `proxy`: connections that are cut, silenced or never made;
//! - `etcd`: the real one, one node or three.

mod etcd;
mod failures;
mod fake;
mod proxy;
mod verbs;
mod watches;

use std::net::TcpListener;
use std::time::Duration;

use kontiki_client::{Client, ClientUrl, HttpUrl, Timeouts};

/// Nothing that is to happen takes longer on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn url(port: u16) -> ClientUrl {
    ClientUrl(HttpUrl::new("127.0.0.1", port))
}

fn client(ports: &[u16], command: Duration) -> Client {
    let timeouts = Timeouts { dial: Duration::from_secs(10), command };
    Client::new(ports.iter().copied().map(url).collect(), timeouts)
}

/// A port that nobody listens on.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").port()
}
