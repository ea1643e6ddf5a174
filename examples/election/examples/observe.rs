//! cargo run -p kontiki-election --example observe
//!
//! Shows who leads the election of the example `campaign`, at each revision that changed it.

use clap::Parser;
use kontiki_election::{Connect, Election};

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    connect: Connect,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Args::parse().connect.client();
    let mut observer = Election::observe(&client, "example").await?;
    loop {
        let seen = observer.next().await?;
        match seen.holder {
            Some(holder) => {
                let value = String::from_utf8_lossy(&holder.value);
                println!("{}: {value}, token {}", seen.revision, holder.fence.token());
            }
            None => println!("{}: nobody", seen.revision),
        }
    }
}
