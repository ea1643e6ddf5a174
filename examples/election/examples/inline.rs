//! cargo run -p kontiki-election --example inline
//!
//! A service that embeds the engine: the node that leads the group leads the service, and its term
//! is the token. Needs no cluster beside: three nodes in one process.

use std::io::{Cursor, Read};

use kontiki::{Builder, Entry, Index, Node, Payload, StateMachine};
use kontiki_election::{Protected, inline};

/// The service's own state would be here.
struct Service(Index);

impl StateMachine for Service {
    type Response = Index;
    type Error = std::io::Error;

    fn applied(&self) -> Index {
        self.0
    }
    fn apply(&mut self, entries: &[Entry], responses: &mut Vec<Index>) -> std::io::Result<()> {
        for entry in entries {
            self.0 = entry.index;
            responses.extend(matches!(entry.payload, Payload::Command(_)).then_some(entry.index));
        }
        Ok(())
    }
    fn snapshot(&self) -> std::io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(Cursor::new([])))
    }
    fn restore(&mut self, applied: Index, _: &mut dyn Read) -> std::io::Result<()> {
        self.0 = applied;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let listen = |_| std::net::TcpListener::bind("127.0.0.1:0")?.local_addr();
    let addresses = (0..3).map(listen).collect::<std::io::Result<Vec<_>>>()?;
    let mut nodes: Vec<Node<Index>> = Vec::new();
    for id in 1..=3 {
        let mut builder = Builder::new(id).cluster_id(1).data_dir(dir.path().join(id.to_string()));
        for (member, address) in (1..).zip(&addresses) {
            builder = builder.member(member, address.to_string());
        }
        nodes.push(builder.start(Service(Index::ZERO)).await?);
    }
    let mut database = Protected::open(&dir.path().join("work.db"))?;
    let mut last = None;
    while nodes.len() > 1 {
        let leader = nodes[0].leader().await.ok_or("the node has stopped")?;
        let Some(at) = nodes.iter().position(|node| node.status().id == leader) else {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue; // It is the one that was shut down: not noticed yet.
        };
        let leadership = inline::leadership(&nodes[at]).await.ok_or("the node has stopped")?;
        let request = format!("work of node {leader}");
        let done = database.append(leadership.token(), &leader.to_string(), &request)?;
        println!("node {leader} leads with token {}: {done:?}", leadership.token());
        nodes.remove(at).shutdown().await; // The others elect a new one.
        if let Some(old) = last.replace(leadership.token()) {
            println!("token {old}: {}", database.append(old, "old", "late").expect_err("stale"));
        }
    }
    Ok(())
}
