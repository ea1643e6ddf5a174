//! Leaders that others have left behind, or will: cut off, they are asked for reads all the while;
//! what was on its way comes late; some come back to lead again, and so does what they once said.

use core::time::Duration;

use raft_core::{Envelope, Message, NodeId};

use super::Storm;
use crate::cluster::Dice;

const MOMENT: Duration = Duration::from_millis(40);
/// As long as it takes others to elect a leader.
const SIEGE: Duration = Duration::from_millis(2400);

/// How many things in a thousand are of these kinds: none, in most storms.
#[derive(Clone, Copy)]
pub(super) struct Troubles {
    /// Messages that come again.
    haunted: u64,
    /// Nodes that lose their patience, where clocks may leap.
    restless: u64,
    /// Reads under a lease, where there are leases.
    thirsty: u64,
    /// Leaders that are left behind.
    besieged: u64,
}

impl Troubles {
    pub(super) fn new(dice: &mut Dice, leases: bool) -> Self {
        Self {
            haunted: dice.pick(&[0, 0, 0, 0, 400]),
            restless: if leases { 0 } else { dice.pick(&[0, 0, 0, 0, 150]) },
            thirsty: if leases { dice.pick(&[0, 200]) } else { 0 },
            besieged: dice.pick(if leases { &[0, 30] } else { &[0, 0, 0, 20] }),
        }
    }
}

impl Storm {
    /// Something that there is more of than usual happens; or it does not.
    pub(super) fn trouble(&mut self, id: NodeId) -> bool {
        let Troubles { haunted, restless, thirsty, besieged } = self.troubles;
        if self.dice.chance(haunted) {
            self.repeat();
        } else if self.dice.chance(restless) {
            self.cluster.campaign(id);
        } else if self.dice.chance(thirsty) {
            let id = self.leader();
            self.cluster.lease_read(id);
        } else if self.dice.chance(besieged) {
            self.besiege();
        } else if !self.leases && self.dice.chance(besieged) {
            self.relapse();
        } else {
            return false;
        }
        true
    }

    /// The leader is cut off. What the others have answered comes late, and then nothing more.
    fn besiege(&mut self) {
        let Some(leader) = self.cluster.leader() else { return };
        let others = self.others(leader);
        for &other in &others {
            self.cluster.network().hold((other, leader));
        }
        self.ask_during(leader, MOMENT * 5);
        for &other in &others {
            self.cluster.network().cut((leader, other));
        }
        let late = Duration::from_millis(self.dice.below(1200));
        self.ask_during(leader, late);
        for &other in &others {
            self.cluster.network().mend((other, leader));
        }
        self.cluster.run_for(Duration::from_millis(1));
        for &other in &others {
            self.cluster.network().cut((other, leader));
        }
        self.ask_during(leader, SIEGE);
        self.cluster.network().mend_all();
    }

    /// A leader is followed by another, and then leads again: what it said as the first arrives once
    /// more when it is the third. Then others leave it behind.
    fn relapse(&mut self) {
        let Some(leader) = self.cluster.leader() else { return };
        let others = self.others(leader);
        if others.len() < 2 {
            return;
        }
        let next = self.dice.pick(&others);
        self.ask_during(leader, MOMENT * 5);
        for (from, to) in [(leader, next), (next, leader)] {
            self.cluster.transfer(from, Some(to));
            self.cluster.run_for(MOMENT * 5);
        }
        let term = self.cluster.term();
        for &other in &others {
            let is_old = |it: &&Envelope| {
                let is_heartbeat = matches!(it.message, Message::Heartbeat { .. });
                (it.from, it.to) == (leader, other) && it.term < term && is_heartbeat
            };
            let old = self.cluster.network().archive().iter().rev().find(is_old).cloned();
            old.into_iter().for_each(|old| self.cluster.deliver(old));
        }
        self.cluster.run_for(MOMENT);
        for other in others {
            self.cluster.network().cut((leader, other));
            self.cluster.network().cut((other, leader));
        }
        self.cluster.campaign(next);
        self.ask_during(leader, SIEGE);
        self.cluster.network().mend_all();
    }

    fn others(&self, leader: NodeId) -> Vec<NodeId> {
        self.cluster.ids().into_iter().filter(|&id| id != leader).collect()
    }

    /// Again and again somebody wants to read at this node, and others to write elsewhere.
    fn ask_during(&mut self, id: NodeId, time: Duration) {
        let end = self.cluster.clock() + time;
        while self.cluster.clock() < end {
            self.cluster.run_for(MOMENT);
            self.cluster.lease_read(id);
            if self.dice.chance(300) {
                self.cluster.read(id);
            }
            if self.dice.chance(200) {
                let elsewhere = self.someone();
                self.propose(elsewhere);
            }
        }
    }
}
