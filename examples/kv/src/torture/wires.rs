//! The links between the nodes: a proxy in front of each, which drops and delays what one node
//! sends to another. Needs no rights, and no help of the nodes.
//!
//! ```text
//! node1 ──dials the peer URL of node2──▶ proxy of node2 ──▶ node2
//!                                          │ is any link cut? then: whose connection is it?
//!                                          └ /proc/net/tcp and /proc/PID/fd tell (owners.rs)
//! ```
//! A link that is cut passes nothing on, the end of a connection included, and takes what was
//! under way: as TCP does, which sends again when the link is mended. New connections wait.

mod owners;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{OnceCell, mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use owners::Owners;

/// The number of a node, never given twice.
pub(crate) type Number = usize;

const CHUNK_BYTES: usize = 64 << 10;
/// Chunks that are under way on one connection.
const CHUNKS_MAX: usize = 64;
/// Of so many chunks on a slow link, one is much later than the others.
const STRAGGLER: f64 = 0.02;

/// All the links. They have a thread of their own: nothing else may make them slow.
pub(crate) struct Wires {
    shared: Arc<Shared>,
    proxies: BTreeMap<Number, AbortHandle>,
    /// There until it is dropped.
    runtime: Option<Runtime>,
}

struct Shared {
    state: Mutex<State>,
    /// Grows with every change of the links.
    changed: watch::Sender<u64>,
    owners: tokio::sync::Mutex<Owners>,
}

#[derive(Default)]
struct State {
    /// The process of each node that runs.
    processes: BTreeMap<Number, u32>,
    cut: BTreeSet<(Number, Number)>,
    delay: Duration,
    random: Option<Pcg64Mcg>,
}

impl Wires {
    /// Whether this machine tells whose a connection is.
    pub(crate) fn check() -> Result<(), String> {
        let tells = std::path::Path::new("/proc/net/tcp").exists();
        if tells { Ok(()) } else { Err("only Linux tells which process has dialled".to_owned()) }
    }

    pub(crate) fn new(seed: u64) -> io::Result<Self> {
        let random = Some(Pcg64Mcg::seed_from_u64(seed));
        let state = Mutex::new(State { random, ..State::default() });
        let shared = Shared { state, changed: watch::Sender::new(0), owners: <_>::default() };
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = Some(runtime.worker_threads(1).enable_all().build()?);
        Ok(Self { shared: Arc::new(shared), proxies: BTreeMap::new(), runtime })
    }

    /// Passes what comes to the port `from` on to the port of this node.
    pub(crate) fn add(&mut self, to: Number, from: u16, port: u16) -> io::Result<()> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", from))?;
        listener.set_nonblocking(true)?;
        let runtime = self.runtime.as_ref().expect("there until it is dropped");
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let shared = Arc::clone(&self.shared);
        let proxy = runtime.spawn(async move {
            // One that cannot be accepted is as good as one that was cut.
            loop {
                if let Ok((socket, dialer)) = listener.accept().await {
                    let shared = Arc::clone(&shared);
                    tokio::spawn(pass(shared, socket, (dialer.port(), from), (to, port)));
                }
            }
        });
        self.proxies.insert(to, proxy.abort_handle());
        Ok(())
    }

    /// Nobody reaches this node any more.
    pub(crate) fn remove(&mut self, number: Number) {
        if let Some(proxy) = self.proxies.remove(&number) {
            proxy.abort();
        }
    }

    /// Which process the node is, as long as it runs.
    pub(crate) fn set_process(&self, number: Number, process: Option<u32>) {
        let mut state = self.shared.lock();
        match process {
            Some(process) => state.processes.insert(number, process),
            None => state.processes.remove(&number),
        };
    }

    /// What these send to those is lost.
    pub(crate) fn cut(&self, links: impl IntoIterator<Item = (Number, Number)>) {
        self.shared.change(|state| state.cut.extend(links));
    }

    /// What is sent arrives so much later.
    pub(crate) fn slow(&self, delay: Duration) {
        self.shared.change(|state| state.delay = delay);
    }

    /// All is well again.
    pub(crate) fn mend(&self) {
        self.shared.change(|state| {
            state.cut.clear();
            state.delay = Duration::ZERO;
        });
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.send_modify(|version| *version += 1);
    }

    /// Returns when this connection may pass something on in this direction, or never will.
    async fn whole(&self, connection: &Connection, direction: Direction) -> Result<(), Gone> {
        let mut changed = self.changed.subscribe();
        while !self.lock().cut.is_empty() {
            let from = connection.owner(self).await.ok_or(Gone)?;
            let link = match direction {
                Direction::There => (from, connection.to),
                Direction::Back => (connection.to, from),
            };
            if !self.lock().cut.contains(&link) {
                break;
            }
            changed.changed().await.map_err(|_| Gone)?;
        }
        Ok(())
    }

    fn due(&self) -> Instant {
        let mut state = self.lock();
        let delay = state.delay;
        let late = match &mut state.random {
            Some(random) if !delay.is_zero() => {
                let jitter = delay.mul_f64(random.random_range(0.0..1.0));
                delay + if random.random_bool(STRAGGLER) { 10 * delay } else { jitter }
            }
            Some(_) | None => Duration::ZERO,
        };
        Instant::now() + late
    }
}

/// The way of what is sent on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// From who has dialled.
    There,
    Back,
}

/// Nobody is at the other end any more.
struct Gone;

/// A connection through a proxy.
struct Connection {
    /// Which port has dialled which.
    ports: (u16, u16),
    to: Number,
    began: Instant,
    /// Who has dialled, once it was asked; that takes time, and is asked only where a link is cut.
    from: OnceCell<Option<Number>>,
}

impl Connection {
    async fn owner(&self, shared: &Shared) -> Option<Number> {
        let ask = async || {
            let mut owners = shared.owners.lock().await;
            let processes = shared.lock().processes.clone();
            owners.find(self.ports, self.began, processes).await
        };
        *self.from.get_or_init(ask).await
    }
}

/// Passes one connection on, in both directions, until either end closes it.
async fn pass(
    shared: Arc<Shared>,
    socket: TcpStream,
    ports: (u16, u16),
    (to, port): (Number, u16),
) {
    let connection = Connection { ports, to, began: Instant::now(), from: OnceCell::new() };
    for direction in [Direction::There, Direction::Back] {
        if shared.whole(&connection, direction).await.is_err() {
            return;
        }
    }
    let Ok(target) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    // Without it everything is slower, and nothing else.
    let _ = (socket.set_nodelay(true), target.set_nodelay(true));
    let (near_read, near_write) = socket.into_split();
    let (far_read, far_write) = target.into_split();
    tokio::select! {
        () = pump(&shared, &connection, Direction::There, near_read, far_write) => {}
        () = pump(&shared, &connection, Direction::Back, far_read, near_write) => {}
    }
}

/// Passes on what comes, until an end closes.
async fn pump(
    shared: &Shared,
    connection: &Connection,
    direction: Direction,
    mut source: impl AsyncRead + Unpin,
    mut target: impl AsyncWrite + Unpin,
) {
    let (sender, mut receiver) = mpsc::channel::<(Instant, Bytes)>(CHUNKS_MAX);
    let read = async move {
        loop {
            let mut chunk = BytesMut::with_capacity(CHUNK_BYTES);
            match source.read_buf(&mut chunk).await {
                Ok(1..) if sender.send((shared.due(), chunk.freeze())).await.is_ok() => {}
                Ok(_) | Err(_) => return,
            }
        }
    };
    let write = async {
        while let Some((due, chunk)) = receiver.recv().await {
            if due > Instant::now() {
                sleep_until(due).await;
            }
            shared.whole(connection, direction).await?;
            target.write_all(&chunk).await.map_err(|_| Gone)?;
        }
        // The end is a message too.
        shared.whole(connection, direction).await
    };
    tokio::pin!(read, write);
    let mut is_read = false;
    loop {
        tokio::select! {
            Ok(()) | Err(Gone) = &mut write => return,
            () = &mut read, if !is_read => is_read = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ```text
    /// this process, node 1 ──▶ proxy ──▶ an echo, node 2
    /// ```
    #[tokio::test]
    async fn what_is_sent_over_a_cut_link_waits() {
        if Wires::check().is_err() {
            return;
        }
        let ports = kontiki_kv::ports::free(2);
        let echo = TcpListener::bind(("127.0.0.1", ports[1])).await.expect("free");
        tokio::spawn(async move {
            let (mut socket, _) = echo.accept().await.expect("accepted");
            let (mut read, mut write) = socket.split();
            tokio::io::copy(&mut read, &mut write).await
        });
        let mut wires = Wires::new(1).expect("a thread");
        wires.add(2, ports[0], ports[1]).expect("free");
        wires.set_process(1, Some(std::process::id()));
        let mut socket = TcpStream::connect(("127.0.0.1", ports[0])).await.expect("accepted");
        let mut answer = [0; 2];
        for link in [None, Some((1, 2)), Some((2, 1))] {
            wires.cut(link);
            socket.write_all(b"hi").await.expect("sent");
            let wait = Duration::from_millis(if link.is_none() { 20_000 } else { 100 });
            let read = tokio::time::timeout(wait, socket.read_exact(&mut answer)).await;
            assert_eq!(read.is_ok(), link.is_none(), "{link:?}");
            if link.is_some() {
                wires.mend();
                socket.read_exact(&mut answer).await.expect("it comes late");
            }
            assert_eq!(&answer, b"hi");
        }
        wires.slow(Duration::from_millis(30));
        let began = Instant::now();
        socket.write_all(b"hi").await.expect("sent");
        socket.read_exact(&mut answer).await.expect("it comes late");
        assert!(began.elapsed() >= Duration::from_millis(60), "{:?}", began.elapsed());
    }
}
