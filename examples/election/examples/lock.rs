//! cargo run -p kontiki-election --example lock
//!
//! Holds a lock for three seconds. Start several: each waits for those before it.

use std::time::Duration;

use clap::Parser;
use kontiki_election::{Connect, Mutex, Session, SessionOptions};

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    connect: Connect,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Args::parse().connect.client();
    let session = Session::open(&client, SessionOptions::new(Duration::from_secs(5))).await?;
    let mutex = Mutex::new(&session, "example-lock");
    let held = match mutex.try_lock().await? {
        Some(held) => held,
        None => {
            println!("somebody holds it: waiting");
            mutex.lock().await?
        }
    };
    println!("held with token {}", held.token());
    // What is done under the lock ends when the session is lost: another may hold it then.
    session.run(tokio::time::sleep(Duration::from_secs(3))).await?;
    held.unlock().await?;
    println!("unlocked");
    session.close().await?;
    Ok(())
}
