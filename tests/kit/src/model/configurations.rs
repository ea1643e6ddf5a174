//! The searches that there are, by name.

use raft_core::{Change, NewMember};

use super::bounds::{Bounds, Opening};
use crate::cluster::node;

/// A search by name.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Its name.
    pub name: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// How long it takes.
    pub size: Size,
    /// How much may happen.
    pub bounds: Bounds,
}

/// How long a search takes, in a release build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Size {
    /// A few seconds.
    Small,
    /// Minutes, and gigabytes.
    Large,
}

/// All searches, the small ones first.
pub fn configurations() -> Vec<Configuration> {
    let mut all = elections();
    all.extend(replication());
    all.extend(members());
    all.extend(requests());
    all.sort_by_key(|configuration| configuration.size);
    all
}

fn small(name: &'static str, about: &'static str, bounds: Bounds) -> Configuration {
    Configuration { name, about, size: Size::Small, bounds }
}

fn large(name: &'static str, about: &'static str, bounds: Bounds) -> Configuration {
    Configuration { name, about, size: Size::Large, bounds }
}

/// N1 leads term 1.
fn led() -> Bounds {
    Bounds { opening: Opening::Led, ..Bounds::default() }
}

fn elections() -> Vec<Configuration> {
    let three = Bounds::default;
    let polite = || Bounds { pre_vote: true, check_quorum: true, ..three() };
    vec![
        small(
            "elections",
            "three terms, one entry",
            Bounds { term_max: 3, last_max: 1, ..three() },
        ),
        small(
            "deposing",
            "PreVote and CheckQuorum, and a leader that is heard no more",
            Bounds { silence: true, timeouts: Some(2), opening: Opening::Led, ..polite() },
        ),
        small(
            "slow-elections",
            "votes and entries that take time to be durable",
            Bounds { stalls: 1, ..three() },
        ),
        small(
            "crashing-elections",
            "a crash in the middle of it",
            Bounds { crashes: 1, ..three() },
        ),
        large(
            "slow-crashing-elections",
            "a crash that leaves any part of what was being written",
            Bounds { crashes: 1, stalls: 1, ..three() },
        ),
        large("long-elections", "three terms, two entries", Bounds { term_max: 3, ..three() }),
        large(
            "polite-elections",
            "PreVote and CheckQuorum from the first start on",
            Bounds { last_max: 1, ..polite() },
        ),
        large(
            "five",
            "five nodes, two of which lose patience, in one term or in two",
            Bounds { founders: 5, last_max: 1, timeouts: Some(2), ..three() },
        ),
    ]
}

fn replication() -> Vec<Configuration> {
    let written = || Bounds { last_max: 3, proposals: 1, ..led() };
    vec![
        small("replication", "an entry, and a second leader", written()),
        small(
            "snapshots",
            "a snapshot is taken, sent and installed",
            Bounds { snapshots: 1, ..written() },
        ),
        large(
            "crashing-snapshots",
            "and somebody crashes meanwhile",
            Bounds { snapshots: 1, crashes: 1, timeouts: Some(1), ..written() },
        ),
        large(
            "damage",
            "the end of one log turns out to be damaged",
            Bounds { damages: 1, ..written() },
        ),
        large(
            "slow-crashing-replication",
            "an entry, a crash, and a disk that takes time",
            Bounds { stalls: 1, crashes: 1, timeouts: Some(1), ..written() },
        ),
        large(
            "overwriting",
            "entries of three terms",
            Bounds { term_max: 3, timeouts: Some(2), ..written() },
        ),
    ]
}

fn members() -> Vec<Configuration> {
    let remove = || vec![Change::Remove(node(3))];
    let add =
        |number| vec![Change::AddVoter(NewMember { id: node(number), address: String::new() })];
    let named = || Bounds { symmetry: false, ..led() };
    vec![
        small(
            "removal",
            "three voters become two, and another leader may be elected on the way",
            Bounds { last_max: 4, changes: vec![remove()], timeouts: Some(1), ..named() },
        ),
        large(
            "crashing-removal",
            "and somebody crashes on the way",
            Bounds {
                last_max: 4,
                changes: vec![remove()],
                timeouts: Some(1),
                crashes: 1,
                ..named()
            },
        ),
        small(
            "addition",
            "two voters become three, and another leader may be elected on the way",
            Bounds {
                founders: 2,
                others: 1,
                last_max: 5,
                changes: vec![add(3)],
                timeouts: Some(1),
                ..named()
            },
        ),
        large(
            "three-two-three",
            "three voters become two, and three again; no message comes twice",
            Bounds {
                repeats: false,
                others: 1,
                term_max: 1,
                last_max: 6,
                changes: vec![remove(), add(4)],
                ..named()
            },
        ),
    ]
}

fn requests() -> Vec<Configuration> {
    vec![
        small(
            "transfer",
            "leadership is handed over",
            Bounds { transfers: 1, timeouts: Some(1), symmetry: false, ..led() },
        ),
        large(
            "reads",
            "a read anywhere, while another leader is elected",
            Bounds { reads: 1, timeouts: Some(1), ..led() },
        ),
    ]
}
