//! What happens to a group: changes of its members, transfers of leadership, snapshots, damage.

use raft_core::{
    Change, ChangeSet, Entry, Incarnation, Index, NewMember, NodeId, Payload, PeerView,
};

use crate::teller::{Teller, id};
use crate::words;

/// The group.
impl Teller {
    pub(super) fn group(&mut self, verb: &str, words: &[&str]) -> Vec<String> {
        if verb == "arrive" {
            let number: usize = words[0].parse().expect("a number");
            self.cluster().arrive_late(number - 1);
            return Vec::new();
        }
        let at = id(words[0]);
        let mut output = Vec::new();
        match verb {
            "change" => {
                self.name_next(at, words[1].into());
                self.cluster().change(at, change_set(&words[2..])).expect("the node is up");
            }
            "transfer" => {
                self.name_next(at, words[1].into());
                let to = words.get(2).map(|word| id(word));
                self.cluster().transfer(at, to).expect("the node is up");
            }
            "lease" => {
                self.name_next(at, format!("read {}", words[1]));
                self.cluster().lease_read(at).expect("the node is up");
            }
            "snapshot" => {
                for id in self.chosen(words) {
                    self.cluster().settle_disks();
                    if !self.cluster().take_snapshot(id) {
                        output.push(format!("{id:?} takes no snapshot"));
                    }
                }
            }
            "forget" => {
                let kept = words[1].parse().expect("a number of entries");
                self.cluster().forget_applied(at, kept);
            }
            "damage" => {
                let last = Index(words[1].parse().expect("an index"));
                self.cluster().damage(at, last);
            }
            _ => {
                let (peer, number) = words[1].split_once('=').expect("a node and its disk");
                let number = number.parse().ok().and_then(Incarnation::new);
                self.cluster().identify(at, id(peer), number.expect("a disk has a number"));
            }
        }
        output
    }

    pub(super) fn chosen_new(&mut self, words: &[&str]) {
        for word in words {
            self.cluster().add_node(id(word));
        }
    }

    /// The members as this node knows them.
    pub(super) fn members(&mut self, id: NodeId) -> String {
        let Some(raft) = self.cluster().member(id).raft() else { return format!("{id:?} down") };
        let (index, members) = (raft.membership_index(), words::members(raft.membership()));
        let gone: Vec<_> = raft.membership().removed().iter().map(|id| format!("{id:?}")).collect();
        let gone =
            if gone.is_empty() { String::new() } else { format!(", not {}", gone.join("+")) };
        format!("{id:?} at {index}: {members}{gone}")
    }

    /// The peers as this leader knows them.
    pub(super) fn peers(&mut self, id: NodeId) -> Vec<String> {
        let raft = self.cluster().member(id).raft().expect("it is up");
        let peer = |peer: PeerView| {
            let live = if peer.is_live { "live" } else { "silent" };
            let keeps_up = if peer.keeps_up { "" } else { ", lags" };
            let snapshot = if peer.needs_snapshot { ", needs a snapshot" } else { "" };
            format!("{:?} {live}, has {}{keeps_up}{snapshot}", peer.id, peer.matched)
        };
        raft.peers().map(peer).collect()
    }

    /// The state machine: what it has applied, in order.
    pub(super) fn state(&mut self, id: NodeId) -> String {
        let machine = self.cluster().member(id).machine();
        let command = |entry: &Entry| match &entry.payload {
            Payload::Command(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            Payload::Empty | Payload::Membership(_) => None,
        };
        let commands: Vec<_> = machine.iter().filter_map(command).collect();
        format!("{id:?} has applied {}: {}", machine.len(), commands.join(" ")).trim_end().into()
    }
}

/// `+N4 +N5-learner -N2 N3=learner N6=voter N1=priority:2 N1=at:x cancel expect=7 force`.
fn change_set(words: &[&str]) -> ChangeSet {
    let mut set = ChangeSet::default();
    for word in words {
        match *word {
            "force" => set.force = true,
            "cancel" => set.changes.push(Change::Cancel),
            _ => match word.strip_prefix("expect=") {
                Some(index) => set.expected = Some(Index(index.parse().expect("an index"))),
                None => set.changes.push(change(word)),
            },
        }
    }
    set
}

fn change(word: &str) -> Change {
    let new = |word| NewMember { id: id(word), address: String::new() };
    if let Some(word) = word.strip_prefix('+') {
        return match word.strip_suffix("-learner") {
            Some(word) => Change::AddLearner(new(word)),
            None => Change::AddVoter(new(word)),
        };
    }
    if let Some(word) = word.strip_prefix('-') {
        return Change::Remove(id(word));
    }
    let (name, value) = word.split_once('=').unwrap_or_else(|| panic!("what is `{word}`?"));
    let name = id(name);
    match value {
        "voter" => Change::Promote(name),
        "learner" => Change::Demote(name),
        _ => match value.split_once(':') {
            Some(("priority", number)) => {
                Change::SetPriority(name, number.parse().expect("a priority"))
            }
            Some(("at", address)) => Change::SetAddress(name, address.into()),
            _ => panic!("what is `{value}`?"),
        },
    }
}
