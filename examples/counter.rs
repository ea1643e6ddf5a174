//! cargo run --example counter
//!
//! A replicated counter: three nodes in one process, on the real log and the real transport.

use std::io::{Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use kontiki::{Bincode, Builder, Codec, Consistency, Entry, Index, Node, Payload};
use serde::{Deserialize, Serialize};

/// What can be done to a counter.
#[derive(Debug, Serialize, Deserialize)]
enum Command {
    Add(i64),
    Reset,
}

/// The state machine, and the last index applied. It lives in memory: a restart begins with the
/// newest snapshot, and applies what is behind it.
struct Counter(Arc<AtomicI64>, Index);

type Error = Box<dyn std::error::Error>;

impl kontiki::StateMachine for Counter {
    type Response = i64;
    type Error = Error;

    fn applied(&self) -> Index {
        self.1
    }

    fn apply(&mut self, entries: &[Entry], responses: &mut Vec<i64>) -> Result<(), Error> {
        for entry in entries {
            self.1 = entry.index;
            if let Payload::Command(bytes) = &entry.payload {
                let old = self.0.load(Ordering::Acquire);
                let new = match Bincode.decode(bytes)? {
                    Command::Add(amount) => old.wrapping_add(amount),
                    Command::Reset => 0,
                };
                self.0.store(new, Ordering::Release);
                responses.push(new);
            }
        }
        Ok(())
    }

    fn snapshot(&self) -> Result<Box<dyn Read + Send>, Error> {
        Ok(Box::new(Cursor::new(self.0.load(Ordering::Acquire).to_le_bytes())))
    }

    fn restore(&mut self, applied: Index, state: &mut dyn Read) -> Result<(), Error> {
        let mut bytes = [0; 8];
        state.read_exact(&mut bytes)?;
        self.0.store(i64::from_le_bytes(bytes), Ordering::Release);
        self.1 = applied;
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let dir = tempfile::tempdir()?;
    let addresses = free_addresses()?;
    let mut nodes: Vec<(Node<i64>, Arc<AtomicI64>)> = Vec::new();
    for id in 1..=3 {
        let value = Arc::new(AtomicI64::new(0));
        let mut builder = Builder::new(id).cluster_id(1).data_dir(dir.path().join(id.to_string()));
        for (member, address) in (1..).zip(&addresses) {
            builder = builder.member(member, address);
        }
        nodes.push((builder.start(Counter(Arc::clone(&value), Index::ZERO)).await?, value));
    }

    let leader = nodes[0].0.leader().await.ok_or("the node has stopped")?;
    println!("node {leader} leads");
    let (node, _) = &nodes[leader.get() as usize - 1];
    println!("token {:?}", node.fencing_token().ok_or("no longer the leader")?);
    for command in [Command::Add(40), Command::Reset, Command::Add(42)] {
        let applied = node.propose_typed(&Bincode, &command).await??;
        println!("{command:?} at index {} makes {}", applied.index, applied.response);
    }
    for (node, value) in &nodes {
        let index = node.read(Consistency::Linearizable).await?.index;
        println!("{} reads {} at index {index}", node.status().id, value.load(Ordering::Acquire));
        assert_eq!(value.load(Ordering::Acquire), 42, "a linearizable read sees every write");
    }
    for (node, _) in &nodes {
        node.shutdown().await;
    }
    Ok(())
}

/// Three addresses that nobody listens on now.
fn free_addresses() -> std::io::Result<Vec<String>> {
    let listen = |_| std::net::TcpListener::bind("127.0.0.1:0");
    let listeners = (0..3).map(listen).collect::<Result<Vec<_>, _>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.to_string())).collect()
}
