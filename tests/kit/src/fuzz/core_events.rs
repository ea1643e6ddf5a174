//! The core under any sequence of events: the input says which message arrives next, which is lost
//! or comes again, who crashes, whose sync ends. All oracles look on, after every step.

use core::time::Duration;

use raft_core::{Change, ChangeSet, Config, Incarnation, Lease, NewMember, NodeId};

use super::Input;
use crate::cluster::weather::survives_damage;
use crate::cluster::{Cluster, DiskMood, Options, Wake, node};

const EVENTS_MAX: usize = 400;
const NODES_MAX: u64 = 7;
/// No message is older than this when time is asked to pass.
const SOON: Duration = Duration::from_secs(10);

/// Plays the events that the bytes say.
///
/// # Panics
/// When an oracle sees a rule broken, or the core an invariant.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut play = Play::new(&mut input);
    for _ in 0..EVENTS_MAX {
        if input.is_empty() {
            break;
        }
        play.event(&mut input);
    }
}

struct Play {
    cluster: Cluster,
    proposed: u64,
    /// Leases are on: then clocks run alike.
    has_leases: bool,
}

impl Play {
    fn new(input: &mut Input<'_>) -> Self {
        let mut config = Config::new(node(1));
        let choices = input.byte();
        let is_chosen = |bit: u8| choices >> bit & 1 == 1;
        // What is on by default is on unless the input says no.
        (config.pre_vote, config.check_quorum) = (!is_chosen(0), !is_chosen(1));
        config.forward_proposals = !is_chosen(2);
        let has_leases = is_chosen(3) && config.check_quorum;
        if has_leases {
            config.lease = Some(Lease { clock_error_ppm: 500, margin: Duration::ZERO });
        }
        if is_chosen(4) {
            config.append_bytes_max = 150;
            (config.inflight_appends_max, config.inflight_bytes_max) = (2, 300);
            (config.uncommitted_bytes_max, config.recent_bytes_max) = (500, 100);
        }
        config.snapshot_tail_entries = if is_chosen(5) { 0 } else { 2 };
        let snapshot_every = is_chosen(6).then_some(3);
        let nodes = input.pick(&[3, 3, 3, 1, 2, 4, 5]);
        let seed = u64::from(input.byte());
        let options = Options { nodes, seed, config, snapshot_every, ..Options::default() };
        let mut cluster = Cluster::new(options);
        if is_chosen(7) {
            // Every sync is an event of its own.
            cluster.ids().into_iter().for_each(|id| cluster.set_disk(id, DiskMood::Stalled));
        }
        Self { cluster, proposed: 0, has_leases }
    }

    /// Somebody, or the leader.
    fn someone(&self, input: &mut Input<'_>) -> NodeId {
        let ids = self.cluster.ids();
        match input.place(ids.len() + 1) {
            0 => self.cluster.leader().unwrap_or(ids[0]),
            other => ids[other - 1],
        }
    }

    fn event(&mut self, input: &mut Input<'_>) {
        match input.below(32) {
            0..8 => self.message(input),
            8..12 => drop(self.cluster.step(self.cluster.clock() + SOON)),
            12..14 => {
                let time = Duration::from_millis(input.pick(&[1, 20, 150, 1000]));
                self.cluster.run_for(time);
            }
            14 => {
                let id = self.someone(input);
                if !self.has_leases {
                    self.cluster.campaign(id);
                }
            }
            15..18 => self.propose(input),
            18 => drop(self.cluster.read(self.someone(input))),
            19 => drop(self.cluster.lease_read(self.someone(input))),
            20..22 => self.life(input),
            22..24 => self.disk(input),
            24 => drop(self.cluster.take_snapshot(self.someone(input))),
            25..27 => self.change(input),
            27 => {
                let (from, to) = (self.someone(input), self.someone(input));
                self.cluster.transfer(from, input.flag().then_some(to));
            }
            28..30 => self.link(input),
            30 => self.damage(input),
            _ => self.identify(input),
        }
    }

    /// A message arrives, is lost, or comes again.
    fn message(&mut self, input: &mut Input<'_>) {
        let kind = input.below(8);
        if kind == 7 {
            let known = self.cluster.network().archive().len();
            let number = input.place(known);
            let copy = self.cluster.network().archive().get(number).cloned();
            return copy.map_or((), |copy| self.cluster.deliver(copy));
        }
        let slots = self.cluster.network().slots(|_| true);
        let Some(&slot) = slots.get(input.place(slots.len())) else { return };
        match kind {
            6 => drop(self.cluster.network().take(slot)),
            _ => self.cluster.deliver_slot(slot),
        }
    }

    fn propose(&mut self, input: &mut Input<'_>) {
        let (id, count) = (self.someone(input), 1 + input.below(3));
        let numbers = self.proposed..self.proposed + count;
        self.proposed += count;
        self.cluster.propose(id, numbers.map(|number| format!("x{number}")));
    }

    /// A node crashes, starts, sleeps or wakes.
    fn life(&mut self, input: &mut Input<'_>) {
        let id = self.someone(input);
        match input.below(6) {
            0..2 => {
                self.cluster.crash(id, input.place(4));
                if self.cluster.member(id).raft().is_none() && input.flag() {
                    let known = self.cluster.member(id).applied().0 + 1;
                    self.cluster.forget_applied(id, input.below(known) as usize);
                }
            }
            2..4 => self.cluster.restart(id),
            4 => self.cluster.pause(id),
            _ => {
                let wake = input.pick(&[Wake::EarsFirst, Wake::ClockFirst]);
                self.cluster.resume(id, wake);
            }
        }
    }

    fn disk(&mut self, input: &mut Input<'_>) {
        let id = self.someone(input);
        match input.below(8) {
            0..5 => drop(self.cluster.sync_one(id)),
            5 => self.cluster.set_disk(id, DiskMood::Stalled),
            6 => self.cluster.set_disk(id, DiskMood::Working),
            _ if self.cluster.sent_snapshots() > 0 => {
                let number = input.place(self.cluster.sent_snapshots());
                self.cluster.arrive_late(number);
            }
            _ => {}
        }
    }

    fn change(&mut self, input: &mut Input<'_>) {
        let id = self.someone(input);
        let changes = (0..=input.below(3)).map(|_| self.some_change(input)).collect();
        let force = input.flag();
        self.cluster.change(id, ChangeSet { changes, expected: None, force });
    }

    fn some_change(&mut self, input: &mut Input<'_>) -> Change {
        let id = self.someone(input);
        match input.below(8) {
            0..2 => Change::AddVoter(self.newcomer(input)),
            2 => Change::AddLearner(self.newcomer(input)),
            3 => Change::Promote(id),
            4 => Change::Demote(id),
            5 => Change::Remove(id),
            6 => Change::SetPriority(id, input.byte()),
            _ => Change::Cancel,
        }
    }

    /// A node that has never been there, or one that is.
    fn newcomer(&mut self, input: &mut Input<'_>) -> NewMember {
        let known = self.cluster.ids().len() as u64;
        let mut id = self.someone(input);
        if known < NODES_MAX && input.flag() {
            id = node(known + 1);
            self.cluster.add_node(id);
        }
        NewMember { id, address: String::new() }
    }

    fn link(&mut self, input: &mut Input<'_>) {
        let link = (self.someone(input), self.someone(input));
        let network = self.cluster.network();
        match input.below(6) {
            0 => network.cut(link),
            1 => network.hold(link),
            2..5 => network.mend(link),
            _ => network.mend_all(),
        }
    }

    /// A node crashes and finds its log damaged.
    fn damage(&mut self, input: &mut Input<'_>) {
        let id = self.someone(input);
        if !survives_damage(&self.cluster, id) {
            return;
        }
        self.cluster.crash(id, input.place(3));
        let last = self.cluster.member(id).store().durable().last_index();
        self.cluster.damage(id, raft_core::Index(input.below(last.0 + 1)));
    }

    fn identify(&mut self, input: &mut Input<'_>) {
        let (at, peer) = (self.someone(input), self.someone(input));
        let incarnation = Incarnation::new(peer.get()).expect("not zero");
        self.cluster.identify(at, peer, incarnation);
    }
}
