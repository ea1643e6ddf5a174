//! The flags by which a program finds its cluster.

use std::time::Duration;

use clap::Args;
use kontiki_client::{Client, ClientUrl, Timeouts};

/// Where a cluster is, and how long it may take.
#[derive(Args, Clone, Debug)]
pub struct Connect {
    /// Where clients are served: HOST:PORT, with commas between
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',')]
    #[arg(default_value = "127.0.0.1:2379")]
    pub endpoints: Vec<ClientUrl>,
}

impl Connect {
    /// A client that gives an endpoint a second to take a connection, and a call three to end.
    pub fn client(&self) -> Client {
        let timeouts = Timeouts { dial: Duration::from_secs(1), command: Duration::from_secs(3) };
        Client::new(self.endpoints.clone(), timeouts)
    }
}
