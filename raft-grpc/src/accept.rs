//! Takes connections, and waits where the system gives no more of them: asking again at once
//! would keep a processor busy, and take it from the node.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Sleep, sleep};
use tokio_stream::Stream;

/// How long to wait after a connection could not be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// The connections that come to a listener, for [`serve_with_incoming`]; it never ends. Where
/// one cannot be taken, because too many files are open, that is logged, and tried again every
/// 100 ms. Dropping it closes the listener.
///
/// [`serve_with_incoming`]: tonic::transport::server::Router::serve_with_incoming
#[derive(Debug)]
pub struct Connections {
    listener: TcpListener,
    /// Set from a failure on until a connection was taken.
    pause: Option<Pin<Box<Sleep>>>,
}

impl From<TcpListener> for Connections {
    fn from(listener: TcpListener) -> Self {
        Self { listener, pause: None }
    }
}

impl Stream for Connections {
    type Item = io::Result<TcpStream>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(context));
            }
            match ready!(self.listener.poll_accept(context)) {
                Ok((connection, _)) => {
                    self.pause = None;
                    // Small messages must not wait for more of them. Where the caller has gone
                    // already it fails, and serving it will.
                    let _ = connection.set_nodelay(true);
                    return Poll::Ready(Some(Ok(connection)));
                }
                // That caller alone has gone.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => self.wait(&error),
            }
        }
    }
}

impl Connections {
    fn wait(&mut self, error: &io::Error) {
        if self.pause.is_none() {
            tracing::warn!(%error, "cannot take a connection; are too many files open?");
        }
        self.pause = Some(Box::pin(sleep(PAUSE)));
    }
}
