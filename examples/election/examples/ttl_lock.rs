//! cargo run -p kontiki-election --example ttl_lock
//!
//! A lock the way of Redis: for work that does no harm when, once in a while, it is done twice.

use std::time::Duration;

use clap::Parser;
use kontiki_election::{Connect, TtlLock};

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    connect: Connect,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Args::parse().connect.client();
    let lock = TtlLock::new(&client, "example-ttl-lock", Duration::from_secs(5));
    let Some(held) = lock.acquire().await? else {
        println!("somebody else does it");
        return Ok(());
    };
    println!("acquired with token {}", held.token());
    for part in 1..=4 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        println!("part {part} is done");
        held.renew().await?; // Fails when it is no longer ours.
    }
    println!("released: {}", held.release().await?);
    Ok(())
}
