//! Bad weather for a cluster: a seed becomes settings, faults and callers. First it storms, and
//! only safety is demanded; then the sky clears, and so must everything else.

mod clearing;
mod groups;
mod sieges;

use core::time::Duration;

use raft_core::{Config, Index, Lease, NodeId};
use raft_driver::trace::Sink;

pub(crate) use groups::survives_damage;
use sieges::Troubles;

use super::{Cluster, Conditions, Dice, DiskMood, Ending, Options, Wake, node};

/// What a storm came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many nodes there were.
    pub nodes: u64,
    /// How long it took from the clearing until a leader had committed something new.
    pub recovery: Duration,
    /// What was committed.
    pub committed: Index,
    /// How the requests ended.
    pub ending: Ending,
    /// How many reads were served under a lease.
    pub lease_reads: u64,
    /// How many snapshots took the place of a state.
    pub installed: u64,
    /// So many logs were damaged that no leader may be elected.
    pub stuck: bool,
}

/// How long a healed cluster may take, in election timeouts.
pub const RECOVERY_ELECTIONS_MAX: u32 = 8;

/// And one where nodes stand without asking: who cannot win then disturbs those who can.
pub const RECOVERY_ELECTIONS_IMPOLITE_MAX: u32 = 25;

/// A whole storm: safety always, and after it liveness.
///
/// # Panics
/// When a property is broken.
pub fn storm(seed: u64, trace: bool) -> Report {
    pass(seed, trace, None)
}

/// The same storm, every step of it recorded.
///
/// # Panics
/// When a property is broken.
pub fn recorded_storm(seed: u64, sink: Sink) -> Report {
    pass(seed, false, Some(sink))
}

fn pass(seed: u64, trace: bool, sink: Option<Sink>) -> Report {
    let mut dice = Dice::new(seed);
    let options = Options { sink, ..options(seed, trace, &mut dice) };
    let (nodes, config) = (options.nodes, options.config.clone());
    let leases = config.lease.is_some();
    let mut cluster = Cluster::new(options);
    drift(&mut cluster, &config, &mut dice);
    let mixed = dice.chance(200);
    let impolite = mixed || !config.pre_vote;
    if mixed {
        // Some nodes ask before they stand and some do not; some hand proposals on.
        for id in cluster.ids() {
            let (pre_vote, forward) = (dice.chance(500), dice.chance(500));
            cluster.configure(id, |config| {
                (config.pre_vote, config.forward_proposals) = (pre_vote, forward);
            });
            cluster.crash(id, 0);
            cluster.restart(id);
        }
    }
    if dice.chance(800) {
        cluster.run_for(Duration::from_secs(4)); // Usually there is a leader to lose.
    }
    let pause_max = dice.pick(&[20, 90, 90, 400]);
    let violent = dice.chance(300);
    let changes = dice.chance(700);
    let mild = dice.pick(&[0, 0, 700, 950]);
    let troubles = Troubles::new(&mut dice, leases);
    let mut storm = Storm {
        cluster,
        dice,
        proposed: 0,
        nodes,
        violent,
        mild,
        troubles,
        leases,
        changes,
        impolite,
    };
    for _ in 0..storm.dice.below(150) + 30 {
        let pause = storm.dice.below(pause_max);
        storm.cluster.run_for(Duration::from_millis(pause));
        storm.happen();
    }
    storm.clear(config.election_timeout)
}

fn options(seed: u64, trace: bool, dice: &mut Dice) -> Options {
    let mut config = Config::new(node(1));
    config.pre_vote = dice.chance(750);
    config.check_quorum = dice.chance(750);
    config.forward_proposals = dice.chance(800);
    config.commit_notice_delay = Duration::from_millis(dice.pick(&[0, 0, 2, 60]));
    config.snapshot_tail_entries = dice.pick(&[0, 0, 1, 4, 20]);
    config.disk_stall_timeout = Duration::from_millis(dice.pick(&[300, 3000]));
    if config.check_quorum && dice.chance(400) {
        let margin = Duration::from_millis(dice.pick(&[0, 0, 100, 600]));
        let clock_error_ppm = dice.pick(&[0, 500, 100_000, 100_000]);
        config.lease = Some(Lease { clock_error_ppm, margin });
    }
    if dice.chance(600) {
        // Tight: everything that has a bound meets it.
        config.append_bytes_max = dice.pick(&[1, 150, 400, 1 << 20]);
        config.inflight_appends_max = dice.pick(&[1, 2, 5, 256]);
        config.inflight_bytes_max = dice.pick(&[1, 300, 1000, 16 << 20]);
        config.uncommitted_bytes_max = dice.pick(&[1, 500, 3000, 64 << 20]);
        config.recent_bytes_max = dice.pick(&[1, 100, 500, 32 << 20]);
        config.entry_bytes_max = dice.pick(&[6, 1 << 20]);
    }
    let nodes = dice.pick(&[1, 2, 3, 3, 3, 4, 5, 5, 7]);
    let snapshot_every = dice.pick(&[None, Some(1), Some(4), Some(4), Some(15)]);
    Options { nodes, seed, config, conditions: conditions(dice), snapshot_every, trace, sink: None }
}

/// Clocks run unevenly, within what a lease allows for.
fn drift(cluster: &mut Cluster, config: &Config, dice: &mut Dice) {
    let Some(lease) = config.lease else { return };
    let most = i64::from(lease.clock_error_ppm);
    for id in cluster.ids() {
        let ppm = dice.pick(&[-most, -most, 0, most, most]);
        cluster.set_clock_rate(id, ppm);
    }
}

fn conditions(dice: &mut Dice) -> Conditions {
    let mut span = |most: &[u64]| {
        let most = Duration::from_micros(dice.pick(most));
        (most / 10, most)
    };
    Conditions {
        latency: span(&[0, 1_000, 20_000, 150_000]),
        sync: span(&[0, 2_000, 30_000, 300_000]),
        load: span(&[0, 1_000, 50_000, 400_000, 2_000_000]),
        apply: span(&[0, 1_000, 100_000]),
        build: span(&[0, 10_000, 400_000]),
        transfer: span(&[1_000, 50_000, 800_000, 3_000_000]),
        late: dice.pick(&[0, 500]),
        broken: dice.pick(&[0, 0, 300]),
        lost: dice.pick(&[0, 0, 10, 100, 300]),
        repeated: dice.pick(&[0, 0, 10, 300]),
    }
}

struct Storm {
    cluster: Cluster,
    dice: Dice,
    proposed: u64,
    nodes: u64,
    /// Whether there is never a calm moment.
    violent: bool,
    /// How many faults in a thousand do not happen.
    mild: u64,
    /// What there is more of than usual.
    troubles: Troubles,
    /// Whether leases are on: then clocks run alike.
    leases: bool,
    /// Whether some nodes stand without asking.
    impolite: bool,
    /// Whether the members change.
    changes: bool,
}

impl Storm {
    fn someone(&mut self) -> NodeId {
        let ids = self.cluster.ids();
        self.dice.pick(&ids)
    }

    /// Someone, but rather the leader.
    fn important(&mut self) -> NodeId {
        let leader = self.cluster.leader().filter(|_| self.dice.chance(500));
        leader.unwrap_or_else(|| self.someone())
    }

    /// The leader, but sometimes somebody else.
    fn leader(&mut self) -> NodeId {
        let leader = self.cluster.leader().filter(|_| self.dice.chance(900));
        leader.unwrap_or_else(|| self.someone())
    }

    fn propose(&mut self, id: NodeId) {
        let count = self.dice.pick(&[1, 1, 1, 2, 5]);
        let numbers = self.proposed..self.proposed + count;
        self.proposed += count;
        self.cluster.propose(id, numbers.map(|number| format!("x{number}")));
    }

    /// One thing happens.
    fn happen(&mut self) {
        let id = self.important();
        if self.trouble(id) {
            return;
        }
        let what = self.dice.below(1300);
        if (560..1000).contains(&what) && self.dice.chance(self.mild) {
            return self.propose(id);
        }
        match what {
            0..350 => self.propose(id),
            350..450 => drop(self.cluster.read(id)),
            450..500 => {
                let id = self.leader();
                self.cluster.lease_read(id);
            }
            500..560 => self.repeat(),
            560..620 => self.crash(id),
            620..700 => self.cluster.restart(id),
            700..730 => self.isolate(id),
            730..760 => self.split(),
            760..870 => self.change_link(id),
            870..890 if self.violent => self.cluster.network().mend_all(),
            870..890 => self.calm(),
            890..905 => self.cluster.pause(id),
            905..930 => self.wake(id),
            930..945 => self.cluster.set_disk(id, DiskMood::Stalled),
            945..965 => self.cluster.set_disk(id, DiskMood::Working),
            965..975 if self.leases => {}
            965..975 => {
                let by = Duration::from_millis(self.dice.below(1500));
                self.cluster.skip_clock(id, by);
            }
            975..990 if self.leases => {}
            975..990 => self.cluster.campaign(id),
            990..995 => self.cluster.fail_storage(id),
            995..1000 => {
                let conditions = conditions(&mut self.dice);
                self.cluster.set_conditions(conditions);
            }
            1000..1050 => drop(self.cluster.take_snapshot(id)),
            1050..1200 if self.changes => self.change_members(),
            1200..1250 => self.hand_over(),
            1250..1270 => self.damage(id),
            1270..1290 => self.identify(),
            _ => {}
        }
    }

    /// Everything works, for a moment.
    fn calm(&mut self) {
        self.cluster.network().mend_all();
        for id in self.cluster.ids() {
            self.cluster.resume(id, Wake::EarsFirst);
            self.cluster.set_disk(id, DiskMood::Working);
            self.cluster.restart(id);
        }
        if self.dice.chance(500) {
            self.cluster.run_for(Duration::from_millis(1500));
        }
    }

    /// The node loses what was not durable; its state machine may lose some of what was.
    fn crash(&mut self, id: NodeId) {
        let kept = self.dice.below(4) as usize;
        self.cluster.crash(id, kept);
        let known = self.cluster.member(id).applied().0 + 1;
        if self.dice.chance(500) && self.cluster.member(id).raft().is_none() {
            let kept = self.dice.below(known) as usize;
            self.cluster.forget_applied(id, kept);
        }
    }

    fn change_link(&mut self, id: NodeId) {
        let other = self.someone();
        let link = self.dice.pick(&[(id, other), (other, id)]);
        match self.dice.below(10) {
            0..3 => self.cluster.network().cut(link),
            3..6 => self.cluster.network().hold(link),
            _ => self.cluster.network().mend(link),
        }
    }

    fn isolate(&mut self, id: NodeId) {
        for other in self.cluster.ids() {
            self.cluster.network().cut((id, other));
            self.cluster.network().cut((other, id));
        }
    }

    fn split(&mut self) {
        let (left, right): (Vec<_>, Vec<_>) =
            self.cluster.ids().into_iter().partition(|_| self.dice.chance(500));
        for &one in &left {
            for &other in &right {
                self.cluster.network().cut((one, other));
                self.cluster.network().cut((other, one));
            }
        }
    }

    fn wake(&mut self, id: NodeId) {
        let wake = self.dice.pick(&[Wake::EarsFirst, Wake::ClockFirst]);
        self.cluster.resume(id, wake);
    }

    /// Some of the newest messages come again, however old they are, and however often.
    fn repeat(&mut self) {
        if self.dice.chance(300) && self.cluster.sent_snapshots() > 0 {
            let number = self.dice.below(self.cluster.sent_snapshots() as u64) as usize;
            return self.cluster.arrive_late(number);
        }
        for _ in 0..self.dice.below(6) {
            let known = self.cluster.network().archive().len() as u64;
            let number = self.dice.below(known) as usize;
            let copy = self.cluster.network().archive().get(number).cloned();
            if let Some(copy) = copy {
                self.cluster.deliver(copy);
            }
        }
    }
}
