//! Sessions, elections, locks and fencing, for any store that speaks the etcd v3 API.
//!
//! | recipe | for | token | hand-over |
//! |---|---|---|---|
//! | [`Election`] | one leader, candidates in a queue | revision of its key | at once |
//! | [`Mutex`] | one holder, waiters in a queue | revision of its key | at once |
//! | [`LeaseElector`] | the way of Kubernetes: one record, renewed | revision of the acquisition | by polling |
//! | [`TtlLock`] | the way of Redis: set if absent, with a time to live | a counter | by polling |
//! | [`inline`] | a service that embeds Kontiki | the term | by Raft |
//!
//! None of them alone keeps two writers apart: a process may be paused between any two
//! instructions, and wake up with an old belief. What does is the token, checked where the write
//! is done: by the cluster ([`Fence`]) or by the resource ([`Protected`]).
//!
//! ```no_run
//! use std::time::Duration;
//! use kontiki_client::proto::etcdserverpb::{PutRequest, TxnRequest};
//! use kontiki_client::{Client, Timeouts};
//! use kontiki_election::{Election, Session, SessionOptions};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new(vec!["127.0.0.1:2379".parse()?], Timeouts::default());
//! let session = Session::open(&client, SessionOptions::new(Duration::from_secs(5))).await?;
//! let leadership = Election::new(&session, "billing").campaign("host-1").await?;
//! let work = async {
//!     // A guarded write: done only while this leader's token is in force.
//!     let write = TxnRequest::default().then(PutRequest::new("billed", "42"));
//!     leadership.fence().write(&client, write).await
//! };
//! session.run(work).await??;
//! leadership.resign().await?;
//! # Ok(())
//! # }
//! ```

pub mod clock;
mod connect;
pub mod election;
pub mod elector;
pub mod fence;
pub mod inline;
pub mod mutex;
pub mod observe;
pub mod protected;
pub mod proxy;
mod queue;
pub mod session;
mod store;
pub mod ttl_lock;

pub use connect::Connect;
pub use election::{Election, Leadership};
pub use elector::LeaseElector;
pub use fence::{Fence, FencedError, Token};
pub use mutex::Mutex;
pub use protected::Protected;
pub use queue::AcquireError;
pub use session::{Session, SessionError, SessionLost, SessionOptions};
pub use ttl_lock::TtlLock;
