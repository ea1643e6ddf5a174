//! A proxy in front of one server, which can cut all its connections, and a port that is silent.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Passes bytes on until it is told to cut.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    cuts: Arc<watch::Sender<u64>>,
    task: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn before(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let cuts = Arc::new(watch::Sender::new(0));
        let heard = cuts.clone();
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let mut cut = heard.subscribe();
                tokio::spawn(async move {
                    let pass = async {
                        let mut near = near;
                        let mut far = TcpStream::connect(("127.0.0.1", target)).await?;
                        tokio::io::copy_bidirectional(&mut near, &mut far).await
                    };
                    tokio::select! {
                        _ = pass => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self { port, cuts, task }
    }

    /// Ends all connections; new ones are taken.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// What cuts this proxy from elsewhere.
    pub(crate) fn scissors(&self) -> Arc<watch::Sender<u64>> {
        self.cuts.clone()
    }

    /// Cuts every `pause`, until it is aborted.
    pub(crate) fn cut_every(&self, pause: Duration) -> JoinHandle<()> {
        let cuts = self.cuts.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(pause).await;
                cuts.send_modify(|cuts| *cuts += 1);
            }
        })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A port that takes connections and never says a word.
pub(crate) async fn silence() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        let mut connections = Vec::new();
        while let Ok((connection, _)) = listener.accept().await {
            connections.push(connection);
        }
    });
    port
}
