//! What happens to a group in a storm: members come and go, leadership is handed over, disks lose
//! what they had.

use raft_core::{After, Change, ChangeSet, Incarnation, Index, NewMember, NodeId, Standing};

use super::Storm;
use crate::cluster::{Cluster, node};

/// More nodes than any storm has.
const NODES_MAX: u64 = 10;

impl Storm {
    /// Somebody asks for a change that may be made or may not.
    pub(super) fn change_members(&mut self) {
        let id = self.leader();
        let mut changes = vec![self.some_change()];
        if self.dice.chance(300) {
            changes.push(self.some_change());
        }
        if self.dice.chance(100) {
            changes.push(self.some_change());
        }
        let expected = self.dice.chance(50).then_some(Index(self.dice.below(30)));
        let force = self.dice.chance(150);
        self.cluster.change(id, ChangeSet { changes, expected, force });
    }

    fn some_change(&mut self) -> Change {
        let id = self.someone();
        match self.dice.below(100) {
            0..30 => Change::AddVoter(self.newcomer()),
            30..38 => Change::AddLearner(self.newcomer()),
            38..50 => Change::Promote(id),
            50..60 => Change::Demote(id),
            60..80 => Change::Remove(id),
            80..86 => Change::SetPriority(id, self.dice.below(3) as u8),
            86..92 => Change::SetAddress(id, format!("{}", self.dice.below(5))),
            _ => Change::Cancel,
        }
    }

    /// A node that has never been there, or one that is waiting; it may start later, or never.
    fn newcomer(&mut self) -> NewMember {
        let known = self.cluster.ids().len() as u64;
        let mut id = self.someone();
        if known < NODES_MAX && self.dice.chance(700) {
            id = node(known + 1);
            self.cluster.add_node(id);
        }
        NewMember { id, address: String::new() }
    }

    pub(super) fn hand_over(&mut self) {
        let id = self.leader();
        let to = self.someone();
        let to = self.dice.chance(700).then_some(to);
        self.cluster.transfer(id, to);
    }

    pub(super) fn identify(&mut self) {
        let id = self.leader();
        let peer = self.someone();
        let incarnation = Incarnation::new(peer.get()).expect("not zero");
        self.cluster.identify(id, peer, incarnation);
    }

    /// A node crashes, and finds its log damaged.
    pub(super) fn damage(&mut self, id: NodeId) {
        if !survives_damage(&self.cluster, id) {
            return;
        }
        let kept = self.dice.below(3) as usize;
        self.cluster.crash(id, kept);
        let last = self.cluster.member(id).store().durable().last_index();
        let left = Index(self.dice.below(last.0 + 1));
        self.cluster.damage(id, left);
    }
}

/// Whether the log of a node that runs may be damaged: only one at a time, and only where others
/// make a majority; more may be more than a group survives.
pub(crate) fn survives_damage(cluster: &Cluster, id: NodeId) -> bool {
    let one_at_a_time = cluster.members().all(|(_, member)| {
        let image = member.store().durable();
        let claims =
            image.claim().is_some() || member.raft().is_some_and(|it| it.claim().is_some());
        !claims && !(1..3).contains(&image.membership().1.voters().len())
    });
    let is_up = cluster.member(id).raft().is_some();
    one_at_a_time && is_up && cluster.ids().len() >= 3
}

/// Whether somebody leaves, or joins, and has not yet.
pub(super) fn is_changing(standing: Standing) -> bool {
    match standing {
        Standing::Learner { promote } => promote,
        Standing::Voter { retiring } => retiring.is_some(),
        Standing::Joining | Standing::Leaving(After::Gone | After::Learner) => true,
    }
}
