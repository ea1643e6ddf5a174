//! cargo run -p kontiki-election --example campaign -- --name host-1
//!
//! Stands for election, works while it leads, and hands over. Start several, and kill one.

use std::time::Duration;

use clap::Parser;
use kontiki_client::proto::etcdserverpb::{PutRequest, TxnRequest};
use kontiki_election::{Connect, Election, Session, SessionOptions};

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    connect: Connect,
    /// What observers are shown
    #[arg(long, default_value = "somebody")]
    name: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let client = args.connect.client();
    let session = Session::open(&client, SessionOptions::new(Duration::from_secs(5))).await?;
    println!("{} waits", args.name);
    let leadership = Election::new(&session, "example").campaign(args.name.clone()).await?;
    println!("{} leads with token {}", args.name, leadership.token());

    let work = async {
        for step in 1..=10 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            // Written only while this token is in force, whatever this process believes.
            let step = TxnRequest::default().then(PutRequest::new("step", step.to_string()));
            leadership.fence().write(&client, step).await?;
            leadership.proclaim(format!("{} at work", args.name)).await?;
        }
        Ok::<_, kontiki_election::FencedError>(())
    };
    session.run(work).await??; // Dropped in the middle when the session is lost.
    leadership.resign().await?;
    println!("{} has resigned", args.name);
    session.close().await?;
    Ok(())
}
