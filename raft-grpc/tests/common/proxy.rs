//! A network that can fall silent.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Forwards connections to `target`; each can be silenced for good.
#[derive(Default)]
pub struct Proxy {
    connections: Mutex<Vec<Arc<Connection>>>,
}

#[derive(Default)]
pub struct Connection {
    forwarded: AtomicU64,
    silent: AtomicBool,
}

impl Proxy {
    pub async fn start(target: SocketAddr) -> (Arc<Self>, SocketAddr) {
        let (listener, address) = super::listen().await;
        let proxy = Arc::new(Self::default());
        let accepting = Arc::clone(&proxy);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let connection = Arc::new(Connection::default());
                accepting.lock().push(Arc::clone(&connection));
                let Ok(far) = TcpStream::connect(target).await else { continue };
                let ((near_in, near_out), (far_in, far_out)) =
                    (near.into_split(), far.into_split());
                tokio::spawn(forward(near_in, far_out, Arc::clone(&connection)));
                tokio::spawn(forward(far_in, near_out, connection));
            }
        });
        (proxy, address)
    }

    /// How many bytes all connections have carried, both ways.
    pub fn forwarded(&self) -> u64 {
        self.lock().iter().map(|it| it.forwarded.load(Relaxed)).sum()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Connection>>> {
        self.connections.lock().expect("nobody panics")
    }

    /// Silences the connection that carried most.
    pub fn silence_busiest(&self) {
        let connections = self.lock();
        let busiest = connections.iter().max_by_key(|it| it.forwarded.load(Relaxed));
        busiest.expect("connections").silent.store(true, Relaxed);
    }

    /// Silences every connection of now; later ones are forwarded.
    pub fn silence_all(&self) {
        self.lock().iter().for_each(|it| it.silent.store(true, Relaxed));
    }
}

async fn forward(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    connection: Arc<Connection>,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if connection.silent.load(Relaxed) {
            return std::future::pending().await; // Keeps the sockets: no FIN, no RST.
        }
        connection.forwarded.fetch_add(count as u64, Relaxed);
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
