//! The suite for [`Transport`]: what arrives, in which order, at whom; how much it holds, that it
//! never blocks, and that it comes back.
//!
//! An adapter, and all that its test has to say:
//!
//! ```
//! use std::collections::{BTreeMap, VecDeque};
//! use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
//!
//! use raft_core::{Envelope, NodeId, Transport};
//! use raft_testkit::conformance::transport::{self, Who};
//!
//! /// A network in one process: an inbox for each node that is there.
//! #[derive(Clone, Default)]
//! struct Network(Arc<Mutex<BTreeMap<NodeId, Inbox>>>);
//!
//! struct Inbox {
//!     owner: Who,
//!     waiting: VecDeque<Envelope>,
//! }
//!
//! struct End {
//!     place: NodeId,
//!     channel: Arc<Channel>,
//! }
//!
//! struct Channel {
//!     owner: Who,
//!     network: Network,
//! }
//!
//! const MESSAGES_MAX: usize = 10_000;
//!
//! impl Network {
//!     fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, Inbox>> {
//!         self.0.lock().unwrap_or_else(PoisonError::into_inner)
//!     }
//! }
//!
//! impl Transport for Channel {
//!     fn send(&self, envelopes: &mut Vec<Envelope>) {
//!         let mut network = self.network.lock();
//!         for envelope in envelopes.drain(..) {
//!             let wanted = Who { node: envelope.to, ..self.owner };
//!             let inbox = network.get_mut(&envelope.to).filter(|it| it.owner == wanted);
//!             if let Some(inbox) = inbox.filter(|it| it.waiting.len() < MESSAGES_MAX) {
//!                 inbox.waiting.push_back(envelope);
//!             }
//!         }
//!     }
//! }
//!
//! impl transport::Harness for Network {
//!     type End = End;
//!
//!     fn start(&self, place: NodeId, owner: Who) -> Option<End> {
//!         self.lock().insert(place, Inbox { owner, waiting: VecDeque::new() });
//!         let channel = Arc::new(Channel { owner, network: self.clone() });
//!         Some(End { place, channel })
//!     }
//!
//!     fn stop(&self, end: End) {
//!         self.lock().remove(&end.place);
//!     }
//!
//!     fn transport(&self, end: &End) -> Arc<dyn Transport> {
//!         Arc::clone(&end.channel) as Arc<dyn Transport>
//!     }
//!
//!     // What was sent is there at once: there is nothing to wait for.
//!     fn take(&self, end: &mut End, _count: usize) -> Vec<Envelope> {
//!         let mut network = self.lock();
//!         network.get_mut(&end.place).map_or(Vec::new(), |it| it.waiting.drain(..).collect())
//!     }
//!
//!     fn until(&self, done: &mut dyn FnMut() -> bool) -> bool {
//!         // Other threads have a thousand turns.
//!         (0..1000).any(|_| {
//!             std::thread::yield_now();
//!             done()
//!         })
//!     }
//!
//!     fn bytes_max(&self) -> usize {
//!         0 // Nothing is kept for a node that is not there.
//!     }
//! }
//!
//! let figures = transport::check(&Network::default())?;
//! println!("{figures}");
//! # Ok::<(), transport::Violation>(())
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use raft_core::{Envelope, NodeId, Transport};

mod bench;
mod flood;
mod messages;
mod rules;

/// How the suite reaches a transport. All waiting is the harness's.
pub trait Harness {
    /// The end of one node: its transport, and what has arrived there.
    type End;

    /// Starts the end of a node where all others look for the node `place`: the same address each
    /// time. Its peers are the nodes 1, 2 and 3 of its own cluster. `None` where an end has no
    /// place of its own, so that a stranger cannot take another's.
    fn start(&self, place: NodeId, who: Who) -> Option<Self::End>;

    /// Ends it, as if its process had died.
    fn stop(&self, end: Self::End);

    /// Its transport.
    fn transport(&self, end: &Self::End) -> Arc<dyn Transport>;

    /// Takes what has arrived since the last time, in order on each lane. Waits until there are
    /// `count`, or until it is as good as sure that no more come.
    fn take(&self, end: &mut Self::End, count: usize) -> Vec<Envelope>;

    /// Asks again and again until it is so, or patience ends; says whether it is.
    fn until(&self, done: &mut dyn FnMut() -> bool) -> bool;

    /// The most bytes of entries that a transport may hold for a peer that takes nothing.
    fn bytes_max(&self) -> usize;

    /// How large an append can be that must arrive, whole or in parts.
    fn append_bytes(&self) -> usize {
        6 << 20
    }
}

/// Who an end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    /// Its cluster.
    pub cluster: u64,
    /// Its node.
    pub node: NodeId,
}

/// A rule that a transport breaks.
pub type Violation = super::Violation<Rule>;

/// What a transport must keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// With a way and with room, what is sent arrives.
    Arrives,
    /// Every kind of message arrives as it was sent.
    AsSent,
    /// What arrives on one lane keeps its order.
    Order,
    /// A message arrives at its receiver, and nowhere else.
    Receiver,
    /// A large append arrives, whole or in parts that say the same.
    Large,
    /// `send` takes or drops all that it is handed.
    TakesAll,
    /// `send` never blocks.
    NeverBlocks,
    /// What cannot leave is bounded.
    Bounded,
    /// A node that comes back is reached again, from both sides.
    ComesBack,
    /// Nothing passes between clusters.
    Cluster,
    /// Nothing is handed to a node that stands where another one should.
    Impostor,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Arrives => "with a way and with room, what is sent arrives",
            Self::AsSent => "every kind of message arrives as it was sent",
            Self::Order => "what arrives on one lane keeps its order",
            Self::Receiver => "a message arrives at its receiver, and nowhere else",
            Self::Large => "a large append arrives, whole or in parts that say the same",
            Self::TakesAll => "send takes or drops all that it is handed",
            Self::NeverBlocks => "send never blocks",
            Self::Bounded => "what cannot leave is bounded",
            Self::ComesBack => "a node that comes back is reached again",
            Self::Cluster => "nothing passes between clusters",
            Self::Impostor => "nothing is handed to a node that stands where another should",
        })
    }
}

/// What was tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Messages that were sent.
    pub sent: u64,
    /// Messages that arrived.
    pub arrived: u64,
    /// Rules that were not tried, for the harness cannot show them.
    pub left_out: BTreeSet<Rule>,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} messages, {} of them arrived", self.sent, self.arrived)?;
        self.left_out.iter().try_for_each(|rule| write!(f, "\n  not shown: {rule}"))
    }
}

/// Tries every rule.
///
/// # Errors
/// The first rule that was found broken.
pub fn check<H: Harness>(harness: &H) -> Result<Figures, Violation> {
    let mut figures = Figures::default();
    rules::check(harness, &mut figures)?;
    Ok(figures)
}
