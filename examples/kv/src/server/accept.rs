//! Takes clients' connections, and waits where the system gives no more of them: asking again at
//! once would keep a processor busy, and take it from the node.

use std::io;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;

/// How many connections wait to be served; the system keeps more.
const WAITING_MAX: usize = 16;
/// How long to wait after a connection could not be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// The connections of all listeners. They close when it is dropped.
pub(super) fn connections(
    listeners: Vec<TcpListener>,
) -> ReceiverStream<Result<TcpStream, io::Error>> {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    for listener in listeners {
        tokio::spawn(accept(listener, sender.clone()));
    }
    ReceiverStream::new(receiver)
}

async fn accept(listener: TcpListener, connections: mpsc::Sender<Result<TcpStream, io::Error>>) {
    let mut is_failing = false;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = connections.closed() => return,
        };
        // Small answers must not wait for more of them. Where the client has gone already it
        // fails, and serving it will.
        let accepted = accepted.map(|(connection, _)| {
            let _ = connection.set_nodelay(true);
            connection
        });
        match accepted {
            Ok(connection) => {
                is_failing = false;
                if connections.send(Ok(connection)).await.is_err() {
                    return;
                }
            }
            // That client alone has gone.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                if !is_failing {
                    tracing::warn!(%error, "cannot take a client's connection; are too many open?");
                }
                is_failing = true;
                sleep(PAUSE).await;
            }
        }
    }
}
