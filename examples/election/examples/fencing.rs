//! cargo run -p kontiki-election --example fencing
//!
//! A leader that does not know that its time is over: what it writes is refused, by the cluster
//! and by a database that has never heard of the cluster.

use std::time::Duration;

use clap::Parser;
use kontiki_client::proto::etcdserverpb::{PutRequest, TxnRequest};
use kontiki_election::{Connect, Election, Protected, Session, SessionOptions};

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    connect: Connect,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Args::parse().connect.client();
    let dir = tempfile::tempdir()?;
    let mut database = Protected::open(&dir.path().join("work.db"))?;
    let write = |who: &str| TxnRequest::default().then(PutRequest::new("writer", who.to_owned()));
    let options = SessionOptions::new(Duration::from_secs(5));

    let session = Session::open(&client, options).await?;
    let old = Election::new(&session, "fenced").campaign("old").await?;
    old.fence().write(&client, write("old")).await?;
    println!("token {}: {:?}", old.token(), database.append(old.token(), "old", "one")?);

    session.close().await?; // As if it had slept for too long.
    let session = Session::open(&client, options).await?;
    let new = Election::new(&session, "fenced").campaign("new").await?;
    new.fence().write(&client, write("new")).await?;
    println!("token {}: {:?}", new.token(), database.append(new.token(), "new", "two")?);

    for refused in [
        old.fence().write(&client, write("old again")).await.map(drop).map_err(|e| e.to_string()),
        database.append(old.token(), "old", "three").map(drop).map_err(|e| e.to_string()),
    ] {
        println!("the old one: {}", refused.expect_err("it is stale"));
    }
    session.close().await?;
    Ok(())
}
