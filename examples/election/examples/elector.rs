//! cargo run -p kontiki-election --example elector -- --identity host-1
//!
//! Leader election the way of Kubernetes: one record, renewed; until Ctrl-C, which releases it.

use clap::Parser;
use kontiki_election::elector::{Candidate, ElectorOptions};
use kontiki_election::{Connect, LeaseElector, Token};
use tokio_util::sync::CancellationToken;

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    connect: Connect,
    /// Who this is; unique
    #[arg(long)]
    identity: String,
}

struct Worker;

impl Candidate for Worker {
    fn started(&mut self, token: Token, until: CancellationToken) {
        println!("this one leads, with token {token}");
        tokio::spawn(until.run_until_cancelled_owned(async {
            loop {
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                println!("at work");
            }
        }));
    }
    fn stopped(&mut self) {
        println!("this one leads no more");
    }
    fn new_leader(&mut self, identity: &str) {
        println!("{identity} leads");
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let options = ElectorOptions::new("example-record", args.identity);
    let elector = LeaseElector::new(&args.connect.client(), options)?;
    let cancel = CancellationToken::new();
    let interrupted = cancel.clone();
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        interrupted.cancel();
    });
    elector.run(&mut Worker, cancel).await;
    Ok(())
}
