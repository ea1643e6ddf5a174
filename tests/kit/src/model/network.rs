//! What was sent, and to whom it can still arrive. Nothing is lost, and nothing is used up, unless
//! the bounds say so: what never arrives is as good as lost, and what arrives again is repeated.

use raft_core::Message;

use super::act::Packet;
use super::intern::{Map, Pool, scramble};
use super::text::mix;

/// Packets, sorted.
type Inbox = Box<[u32]>;

/// All packets, and all sets of them that wait somewhere.
#[derive(Debug, Default)]
pub(super) struct Network {
    pub(super) packets: Pool<Packet>,
    pub(super) inboxes: Pool<Inbox>,
    unions: Map<(u32, u32), u32>,
    remainders: Map<(u32, u32), u32>,
    pruned: Map<(u32, u32), u32>,
}

/// Whose inbox it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receiver {
    /// Its durable term.
    pub(super) term: u64,
    /// Which nodes are in the last term for good, as bits.
    pub(super) settled: u32,
    /// How many fingerprints everything has.
    pub(super) names: usize,
}

impl Network {
    /// The inbox that holds these.
    pub(super) fn inbox(&mut self, sorted: Vec<u32>, names: usize) -> u32 {
        let sum = |at: usize| {
            let prints = sorted.iter().map(|&packet| self.packets.prints(packet, names)[at]);
            prints.fold(1, |sum: u64, print| sum.wrapping_add(scramble(print)))
        };
        let prints: Vec<u64> = (0..names).map(sum).collect();
        let key = sorted.iter().fold(29, |key, &packet| mix(key, packet.into()));
        if let Some(known) = self.inboxes.known(key) {
            return known;
        }
        self.inboxes.add(key, sorted.into(), prints.into_iter())
    }

    /// The inbox after this packet was sent to it.
    pub(super) fn with(&mut self, before: u32, packet: u32, receiver: Receiver) -> u32 {
        let Receiver { term, settled, names } = receiver;
        if is_dead(self.packets.get(packet), term, settled) {
            return before;
        }
        let key = (before, packet);
        if let Some(&known) = self.unions.get(&key) {
            return known;
        }
        let mut sorted = self.inboxes.get(before).to_vec();
        let inbox = match sorted.binary_search(&packet) {
            Ok(_) => before,
            Err(at) => {
                sorted.insert(at, packet);
                self.inbox(sorted, names)
            }
        };
        self.unions.insert(key, inbox);
        inbox
    }

    /// The inbox without a packet that has arrived.
    pub(super) fn without(&mut self, before: u32, packet: u32, names: usize) -> u32 {
        let key = (before, packet);
        if let Some(&known) = self.remainders.get(&key) {
            return known;
        }
        let all = self.inboxes.get(before).iter().copied();
        let kept = all.filter(|&other| other != packet).collect();
        let inbox = self.inbox(kept, names);
        self.remainders.insert(key, inbox);
        inbox
    }

    /// The inbox without what is dead.
    pub(super) fn prune(&mut self, before: u32, receiver: Receiver) -> u32 {
        let Receiver { term, settled, names } = receiver;
        let key = (before, (term as u32) << 8 | settled);
        if let Some(&known) = self.pruned.get(&key) {
            return known;
        }
        let all = self.inboxes.get(before).iter().copied();
        let is_alive = |packet: &u32| !is_dead(self.packets.get(*packet), term, settled);
        let kept = all.filter(is_alive).collect();
        let inbox = self.inbox(kept, names);
        self.pruned.insert(key, inbox);
        inbox
    }
}

/// Whether a packet can do nothing any more, whatever comes: an answer, or a word to a leader's
/// follower, of a term that the receiver has left for good (its durable term never falls); or a
/// question from a node that is in the last term there is, for good (`settled`), and asked in an
/// older one: the answer could only tell it of a newer term.
fn is_dead(packet: &Packet, durable: u64, settled: u32) -> bool {
    let Packet::Message(envelope) = packet else { return false };
    let term = envelope.term.0;
    let is_settled = settled >> (envelope.from.get() - 1) & 1 == 1;
    match envelope.message {
        Message::PreVoteReply { asked, granted: true } => asked.0 < durable,
        // They count for nothing but the term that they carry.
        Message::PreVoteReply { granted: false, .. } | Message::VoteReply { granted: false } => {
            term <= durable
        }
        Message::VoteReply { granted: true }
        | Message::AppendReply(_)
        | Message::HeartbeatReply { .. }
        | Message::Commit { .. }
        | Message::TimeoutNow
        | Message::Read { .. }
        | Message::ReadReply { .. } => term < durable,
        Message::PreVote { .. } => is_settled,
        Message::Vote { .. } => term < durable && is_settled,
        Message::Append(_)
        | Message::Heartbeat { .. }
        | Message::Propose { .. }
        | Message::ProposeReply { .. } => false,
    }
}
