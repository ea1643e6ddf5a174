//! A client of the etcd v3 API, for Kontiki and for etcd itself.
//!
//! It asks one endpoint, keeps to it while it answers, and moves on to the next where that is
//! safe. A call ends at its deadline, however many endpoints it tries:
//!
//! | what happens | safe to repeat ([`Retry::Safe`]: reads) | not safe ([`Retry::Never`]: writes) |
//! |---|---|---|
//! | no connection | next endpoint | next endpoint: nothing was sent |
//! | no connection anywhere | [`ClientError::Unreachable`] at once | the same |
//! | no answer, or one that leaves it open | next endpoint, until the deadline | [`ClientError::Unknown`], never sent twice |
//! | a definite refusal | [`ClientError::Refused`] | [`ClientError::Refused`] |
//!
//! An answer leaves it open when its code is one that a server also gives for what it has already
//! proposed, or that a client makes up for a connection that broke: Unavailable, Cancelled,
//! DeadlineExceeded, Unknown, Internal. So whoever gets `Unreachable` or `Refused` from a write
//! knows that nothing was executed, and whoever gets `Unknown` has to read before doing it again.
//!
//! ```no_run
//! use kontiki_client::proto::etcdserverpb::{Compare, PutRequest, RangeRequest, TxnRequest};
//! use kontiki_client::{Client, Timeouts};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let endpoints = vec!["127.0.0.1:2379".parse()?, "127.0.0.1:22379".parse()?];
//! let client = Client::new(endpoints, Timeouts::default());
//! let absent = Compare::create_revision("stage", 0);
//! let txn = TxnRequest::when([absent])
//!     .then(PutRequest::new("stage", "one"))
//!     .otherwise(RangeRequest::key("stage"));
//! println!("written: {}", client.txn(txn).await?.succeeded);
//! # Ok(())
//! # }
//! ```
//!
//! Nothing runs in the background but the connections, and they end with the last clone of the
//! client. A call that is dropped half way is like one whose answer is lost.

mod client;
mod endpoint;
mod error;
pub mod proto;
mod requests;
mod url;
mod verbs;
mod watch;

pub use client::{Client, Retry, Timeouts};
pub use error::{ClientError, Refusal};
pub use requests::prefix_end;
pub use url::{ClientUrl, HttpUrl, UrlError};
pub use verbs::{KeptAlive, kv};
pub use watch::{Changes, WatchError, Watcher};
