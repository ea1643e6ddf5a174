//! cargo run --example sans_io
//!
//! Three cores driven by hand: no clock, no disk, no network. An election, one command, and
//! the loss of the leader, printed as they happen.

use std::collections::VecDeque;

use bytes::Bytes;
use raft_core::{
    Config, Effect, Entries, Envelope, Event, Instant, Membership, NodeId, Payload, Raft,
    RequestId, Requests, RestoreError, Saved,
};

struct Node {
    raft: Raft,
    up: bool,
}

fn main() -> Result<(), RestoreError> {
    let ids: Vec<NodeId> = (1..=3).filter_map(NodeId::new).collect();
    let membership = Membership::new(ids.iter().copied()).expect("three voters");
    let start = |&id: &NodeId| {
        let saved = Saved::first_start(membership.clone());
        let raft = Raft::restore(Config::new(id), saved, id.get(), Instant(0))?;
        Ok(Node { raft, up: true })
    };
    let mut nodes = ids.iter().map(start).collect::<Result<Vec<_>, RestoreError>>()?;

    println!("-- the first timer fires, and a leader is elected");
    let leader = fire_first_timer(&mut nodes);
    println!("-- a command is proposed to it");
    let entries = Entries::proposal([Bytes::from_static(b"x = 1")]);
    let propose = Event::Propose { requests: Requests::one(RequestId(1)), entries };
    step(&mut nodes, leader, Instant(0), propose);
    println!("-- it vanishes, and the others go on");
    nodes[leader].up = false;
    let successor = fire_first_timer(&mut nodes);
    assert_ne!(leader, successor, "one of the others leads");
    Ok(())
}

/// Lets time pass for the node whose timer is due first. Who then leads?
fn fire_first_timer(nodes: &mut [Node]) -> usize {
    let due = |node: &Node| node.raft.deadline().filter(|_| node.up).unwrap_or(Instant(u64::MAX));
    let first = (0..nodes.len()).min_by_key(|&at| due(&nodes[at])).expect("three nodes");
    // The others have not heard of a leader for as long.
    let now = due(&nodes[first]);
    step(nodes, first, now, Event::Timer);
    let leads = |node: &Node| node.up && node.raft.leader() == Some(node.raft.id());
    nodes.iter().position(leads).expect("somebody leads")
}

/// Hands one event to a node, then performs effects until there are none: writes are durable
/// at once, messages arrive at once.
fn step(nodes: &mut [Node], at: usize, now: Instant, event: Event) {
    let mut queue = VecDeque::from([(at, event)]);
    let mut effects = Vec::new();
    while let Some((at, event)) = queue.pop_front() {
        nodes[at].raft.handle(now, event, &mut effects);
        let raft = &nodes[at].raft;
        for effect in effects.drain(..) {
            match effect {
                Effect::Persist(write) => queue.push_back((at, Event::Persisted(write.ticket))),
                Effect::Apply { first, last } => {
                    let entries = raft.recent_entries(first, last, usize::MAX);
                    for entry in entries.expect("nothing is old here").iter() {
                        if let Payload::Command(command) = &entry.payload {
                            println!("{:?} applies {:?}: {command:?}", raft.id(), entry.index);
                        }
                    }
                    queue.push_back((at, Event::Applied(last)));
                }
                Effect::Send(Envelope { to, .. }) if !nodes[to.get() as usize - 1].up => {}
                Effect::Send(envelope) => {
                    queue.push_back((envelope.to.get() as usize - 1, Event::Receive(envelope)));
                }
                Effect::RoleChanged(change) => {
                    println!("{:?} is {:?} in {:?}", raft.id(), change.role, change.term);
                }
                other => println!("{:?}: {other:?}", raft.id()),
            }
        }
    }
}
