//! A service that embeds the engine: three nodes in this process, and a database that listens to
//! the one that leads.

use std::io::Read;
use std::sync::Arc;

use kontiki::{Builder, Entry, Index, Node, Payload, StateMachine};
use kontiki_election::protected::ProtectedError;
use kontiki_election::{Protected, inline};

use crate::{patiently, until};

/// Counts commands, and keeps nothing.
struct Empty(Index);

impl StateMachine for Empty {
    type Response = ();
    type Error = std::io::Error;

    fn applied(&self) -> Index {
        self.0
    }
    fn apply(&mut self, entries: &[Entry], responses: &mut Vec<()>) -> Result<(), Self::Error> {
        for entry in entries {
            self.0 = entry.index;
            if let Payload::Command(_) = &entry.payload {
                responses.push(());
            }
        }
        Ok(())
    }
    fn snapshot(&self) -> Result<Box<dyn Read + Send>, Self::Error> {
        Ok(Box::new(std::io::empty()))
    }
    fn restore(&mut self, applied: Index, _: &mut dyn Read) -> Result<(), Self::Error> {
        self.0 = applied;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_term_of_a_leader_is_its_token() {
    let dir = tempfile::tempdir().expect("a directory");
    let listeners = [(); 3].map(|()| std::net::TcpListener::bind("127.0.0.1:0").expect("a port"));
    let addresses = listeners.each_ref().map(|l| l.local_addr().expect("bound").to_string());
    drop(listeners);
    let mut nodes: Vec<Arc<Node<()>>> = Vec::new();
    for id in 1..=3 {
        let mut builder = Builder::new(id).cluster_id(7).data_dir(dir.path().join(id.to_string()));
        for (member, address) in (1..).zip(&addresses) {
            builder = builder.member(member, address);
        }
        nodes.push(Arc::new(builder.start(Empty(Index::ZERO)).await.expect("it starts")));
    }
    let path = dir.path().join("work.db");
    let mut database = Protected::open(&path).expect("a database");

    let leader = patiently("a leader", nodes[0].leader()).await.expect("it runs").get();
    let at = |id: u64| &nodes[usize::try_from(id - 1).expect("small")];
    let first = patiently("it leads", inline::leadership(at(leader))).await.expect("it runs");
    assert!(first.is_held());
    assert_eq!(at(leader).fencing_token().map(|token| token.0), Some(first.token().0));
    database.append(first.token(), "first", "1").expect("written");

    at(leader).shutdown().await;
    until("the old one knows", async || !first.is_held()).await;
    let other = if leader == 1 { 2 } else { 1 };
    let next = patiently("another leads", async {
        loop {
            let known = at(other).leader().await.expect("it runs").get();
            if known != leader {
                return inline::leadership(at(known)).await.expect("it runs");
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    assert!(next.token() > first.token());
    database.append(next.token(), "next", "2").expect("written");
    let stale = database.append(first.token(), "first", "3").expect_err("stale");
    assert!(matches!(stale, ProtectedError::Stale { .. }), "{stale}");
}
