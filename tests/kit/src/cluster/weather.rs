//! Bad weather for a cluster: a seed becomes settings, faults and callers. First it storms, and
//! only safety is demanded; then the sky clears, and so must everything else.

use core::time::Duration;

use raft_core::{Config, Index, NodeId};

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
}

/// How long a healed cluster may take, in election timeouts.
pub const RECOVERY_ELECTIONS_MAX: u32 = 8;

/// A whole storm: safety always, and after it liveness.
///
/// # Panics
/// When a property is broken.
pub fn storm(seed: u64, trace: bool) -> Report {
    let mut dice = Dice::new(seed);
    let options = options(seed, trace, &mut dice);
    let (nodes, config) = (options.nodes, options.config.clone());
    let mut cluster = Cluster::new(options);
    if dice.chance(200) {
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
    let mut storm = Storm { cluster, dice, proposed: 0, nodes, violent };
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
    config.commit_notice_delay = Duration::from_millis(dice.pick(&[0, 2]));
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
    Options { nodes, seed, config, conditions: conditions(dice), trace }
}

fn conditions(dice: &mut Dice) -> Conditions {
    let mut span = |most: &[u64]| {
        let most = Duration::from_micros(dice.pick(most));
        (most / 10, most)
    };
    Conditions {
        latency: span(&[0, 1_000, 20_000, 150_000]),
        sync: span(&[0, 2_000, 30_000, 300_000]),
        load: span(&[0, 1_000, 50_000, 400_000]),
        apply: span(&[0, 1_000, 100_000]),
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
}

impl Storm {
    fn someone(&mut self) -> NodeId {
        node(self.dice.below(self.nodes) + 1)
    }

    /// Someone, but rather the leader.
    fn important(&mut self) -> NodeId {
        let leader = self.cluster.leader().filter(|_| self.dice.chance(500));
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
        match self.dice.below(1000) {
            0..350 => self.propose(id),
            350..500 => drop(self.cluster.read(id)),
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
            965..975 => {
                let by = Duration::from_millis(self.dice.below(1500));
                self.cluster.skip_clock(id, by);
            }
            975..990 => self.cluster.campaign(id),
            990..995 => self.cluster.fail_storage(id),
            _ => {
                let conditions = conditions(&mut self.dice);
                self.cluster.set_conditions(conditions);
            }
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
        for _ in 0..self.dice.below(6) {
            let known = self.cluster.network().archive().len() as u64;
            let number = self.dice.below(known) as usize;
            let copy = self.cluster.network().archive().get(number).cloned();
            if let Some(copy) = copy {
                self.cluster.deliver(copy);
            }
        }
    }

    /// The sky clears. In bounded time there is a leader, it commits, every request has ended,
    /// and all logs and state machines are equal.
    fn clear(mut self, election_timeout: Duration) -> Report {
        let cluster = &mut self.cluster;
        cluster.network().mend_all();
        cluster.set_conditions(Conditions::default());
        for id in cluster.ids() {
            cluster.resume(id, Wake::EarsFirst);
            cluster.set_disk(id, DiskMood::Working);
            let failed = cluster.member(id).raft().is_some_and(|raft| raft.deadline().is_none());
            if failed {
                cluster.crash(id, 0); // Its storage is replaced by one that works.
            }
            cluster.restart(id);
        }
        let floor = cluster.oracles().ledger().committed();
        let term = |cluster: &Cluster| cluster.term();
        let committed = |cluster: &Cluster| {
            let leader = cluster.leader()?;
            let raft = cluster.member(leader).raft()?;
            let commit = raft.commit_index();
            (raft.term_at(commit) == Some(raft.term()) && raft.term() == term(cluster))
                .then_some(leader)
        };
        let most = election_timeout * RECOVERY_ELECTIONS_MAX;
        let recovery = cluster.run_until(most, |cluster| committed(cluster).is_some());
        let recovery = recovery.unwrap_or_else(|| panic!("no leader commits after {most:?}"));
        cluster.run_for(election_timeout * 6);
        let late: Vec<_> = cluster.oracles().requests().open().collect();
        assert!(late.is_empty(), "requests without an end: {late:?}");
        let leader = cluster.leader().expect("the leader stays");
        cluster.propose(leader, ["end"]);
        cluster.read(leader);
        cluster.run_for(election_timeout * 2);
        assert_eq!(cluster.leader(), Some(leader), "the leader stays");
        let open = cluster.oracles().requests().open().len();
        assert_eq!(open, 0, "a healthy cluster answers");
        let (log, machine) =
            (cluster.member(leader).store().durable().log(), cluster.member(leader).machine());
        assert!(cluster.oracles().ledger().committed() > floor, "something new is committed");
        assert_eq!(log.len(), machine.len(), "everything is applied");
        for (id, member) in cluster.members() {
            assert!(member.store().durable().log() == log, "{id:?} has another log");
            assert!(member.machine() == machine, "{id:?} has another state");
        }
        Report {
            nodes: self.nodes,
            recovery,
            committed: cluster.oracles().ledger().committed(),
            ending: cluster.oracles().requests().ending(),
        }
    }
}
