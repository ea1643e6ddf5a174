//! A proxy in front of one server, to rehearse what networks do: it passes bytes on, holds them,
//! or cuts. It never loses, reorders or changes a byte of a connection that goes on.
//!
//! | mode | open connections | new ones |
//! |---|---|---|
//! | open | pass bytes | reach the server |
//! | held | stand, and nothing passes | are taken, and hear nothing |
//! | mute | requests pass, answers do not | reach the server, and hear nothing |
//! | cut | are closed | are closed at once |

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Open,
    Held,
    Mute,
    Cut,
}

/// Listens on a port of this machine, and passes on what it hears. Dropped, it cuts.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    mode: watch::Sender<Mode>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// A proxy before `target`, HOST:PORT, on a free port.
    ///
    /// # Errors
    /// When there is none.
    pub async fn before(target: impl Into<String>) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let port = listener.local_addr()?.port();
        let (mode, heard) = watch::channel(Mode::Open);
        let task = tokio::spawn(accept(listener, target.into(), heard));
        Ok(Self { port, mode, task })
    }

    /// Where it listens, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Nothing passes from now on, and nobody is told.
    pub fn hold(&self) {
        self.mode.send_replace(Mode::Held);
    }

    /// Requests pass from now on, and no answer does.
    pub fn mute(&self) {
        self.mode.send_replace(Mode::Mute);
    }

    /// Closes all connections, and those to come.
    pub fn cut(&self) {
        self.mode.send_replace(Mode::Cut);
    }

    /// All is well again.
    pub fn open(&self) {
        self.mode.send_replace(Mode::Open);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, target: String, mode: watch::Receiver<Mode>) {
    loop {
        match listener.accept().await {
            Ok((near, _)) => {
                tokio::spawn(pass(near, target.clone(), mode.clone()));
            }
            // Too many files are open: fewer may be soon.
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
        }
    }
}

/// One connection, until one of its sides ends it or it is cut.
async fn pass(near: TcpStream, target: String, mut mode: watch::Receiver<Mode>) {
    if until(&mut mode, |mode| mode != Mode::Held).await.is_none() {
        return;
    }
    let Ok(far) = TcpStream::connect(target).await else { return };
    // A proxy that waits for more bytes would be a slower network than the one it stands for.
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    let mut cut = mode.clone();
    tokio::select! {
        _ = cut.wait_for(|mode| *mode == Mode::Cut) => {}
        () = pump(near_read, far_write, mode.clone(), |mode| mode != Mode::Held) => {}
        () = pump(far_read, near_write, mode, |mode| !matches!(mode, Mode::Held | Mode::Mute)) => {}
    }
}

async fn pump(
    mut source: OwnedReadHalf,
    mut target: OwnedWriteHalf,
    mut mode: watch::Receiver<Mode>,
    passes: fn(Mode) -> bool,
) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(count @ 1..) = source.read(&mut buffer).await {
        if until(&mut mode, passes).await.is_none()
            || target.write_all(&buffer[..count]).await.is_err()
        {
            return;
        }
    }
}

/// Waits until bytes pass; `None` when it is cut.
async fn until(mode: &mut watch::Receiver<Mode>, passes: fn(Mode) -> bool) -> Option<()> {
    let mode = *mode.wait_for(|mode| passes(*mode)).await.ok()?;
    (mode != Mode::Cut).then_some(())
}
