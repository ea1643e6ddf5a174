//! Letting time pass: first the bad time of the plan, then a good one, in which everything that was
//! promised must come in bounded time.

use core::time::Duration;

use raft_core::{Instant, NodeId, Raft};
use raft_driver::StateMachine;

use super::run::{Report, Violation};
use super::{Cluster, Due, Weather};
use crate::cluster::weather::{RECOVERY_ELECTIONS_IMPOLITE_MAX, RECOVERY_ELECTIONS_MAX};
use crate::oracles::Seen as _;

impl<S: StateMachine> Cluster<S> {
    /// Lets everything happen that the plan says, and all that must follow.
    ///
    /// # Errors
    /// What was found wrong.
    ///
    /// # Panics
    /// When a property of the core is broken: [`run`](super::run()) makes a violation of that.
    pub fn run(mut self) -> Result<Report, Violation> {
        self.run_to_end().map_err(|reason| self.violation(reason))?;
        Ok(self.report())
    }

    pub(super) fn run_to_end(&mut self) -> Result<(), String> {
        for (number, (at, _)) in self.plan.acts.iter().enumerate().rev().collect::<Vec<_>>() {
            let at = Instant(0) + Duration::from_millis(*at);
            self.agenda.insert((at, number as u64), (Due::Act(number), None));
        }
        self.begin_calls();
        let last = self.plan.acts.last().map_or(0, |(at, _)| *at);
        let storm = Duration::from_millis(self.plan.settings.storm_ms.max(last));
        self.run_until(storm, |_| false)?;
        self.clear()
    }

    /// Lets time pass until `done`, at most so much. Returns whether it is done.
    fn run_until(
        &mut self,
        most: Duration,
        mut done: impl FnMut(&Self) -> bool,
    ) -> Result<bool, String> {
        let limit = self.now + most;
        while !done(self) {
            if !self.step(limit) {
                self.now = limit;
                self.court.bench().now = limit;
                return self.verdict().map(|()| done(self));
            }
            self.verdict()?;
        }
        Ok(true)
    }

    fn verdict(&mut self) -> Result<(), String> {
        self.broken.take().map_or(Ok(()), Err)
    }

    /// What is due next happens; `false` where nothing is due up to `limit`.
    fn step(&mut self, limit: Instant) -> bool {
        let timer = self.next_timer();
        let slot = self.agenda.keys().next().copied();
        let times = [timer.map(|it| it.0), slot.map(|it| it.0)];
        let Some(next) = times.into_iter().flatten().min().filter(|next| *next <= limit) else {
            return false;
        };
        self.now = self.now.max(next);
        self.court.bench().now = self.now;
        self.figures.steps += 1;
        match slot.filter(|slot| slot.0 <= next).and_then(|slot| self.agenda.remove(&slot)) {
            Some((Due::Act(number), _)) => self.act(number),
            Some((Due::Client(client), _)) => self.on_client(client),
            Some((Due::GiveUp(client, attempt), _)) => self.on_give_up(client, attempt),
            Some((Due::Node(id, what), run)) => {
                // What an earlier run began has died with it.
                let is_current = run.is_none_or(|run| self.nodes[&id].run == run);
                if is_current && self.nodes.contains_key(&id) {
                    self.arrive(id, what);
                }
            }
            None => {
                if let Some((_, id)) = timer {
                    self.fire(id);
                }
            }
        }
        true
    }

    /// **After healing, a leader and commits within k election timeouts; every call ends; all
    /// replicas are equal.**
    fn clear(&mut self) -> Result<(), String> {
        self.heal();
        let timeout = Duration::from_secs(1);
        let settings = &self.plan.settings;
        let elections = if settings.pre_vote {
            RECOVERY_ELECTIONS_MAX
        } else {
            RECOVERY_ELECTIONS_IMPOLITE_MAX
        };
        let most = timeout * elections;
        let began = self.now;
        if !self.run_until(most, |cluster| cluster.commits().is_some())? {
            if self.may_have_no_leader() {
                self.is_stuck = true;
                return Ok(());
            }
            return Err(format!("liveness: no leader commits {most:?} after everything works"));
        }
        self.recovery = self.now.since(began);
        self.run_until(timeout * 4, |_| false)?;
        self.is_over = true;
        let quiet = |cluster: &Self| cluster.open.is_empty() && cluster.is_idle();
        if !self.run_until(Duration::from_secs(120), quiet)? {
            let open = self.open.len();
            return Err(format!("liveness: {open} calls have no end after two minutes"));
        }
        self.run_until(timeout * 10, |cluster| cluster.are_equal().is_ok())?;
        self.are_equal().map_err(|reason| format!("liveness: {reason}"))?;
        self.judgement = self.workload.judge().map_err(|reason| format!("clients: {reason}"))?;
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.callers.iter().all(|caller| !caller.is_busy())
    }

    /// Everything works again. What was promised to the old disks stays promised.
    fn heal(&mut self) {
        self.tell_story(|| "> everything works again".into());
        self.network.mend_all();
        self.weather = Weather { lost: 0, repeated: 0, latency_ms: 1 };
        for id in self.ids() {
            self.resume(id);
            self.work(id);
            let node = self.get(id);
            node.disk.limit_growth(None);
            node.disk.forget_faults();
            self.restart(id);
        }
    }

    /// The leader that has committed an entry of the newest term that a member knows.
    fn commits(&self) -> Option<NodeId> {
        let leader = self.leader()?;
        let raft = self.nodes[&leader].raft()?;
        let members = raft.membership().members().iter().map(|member| member.id);
        let rafts = members.filter_map(|id| self.nodes.get(&id)?.raft());
        let newest = rafts.map(Raft::term).max();
        let is_newest = newest.is_none_or(|newest| newest <= raft.term());
        let commit = raft.commit_index();
        (raft.term_at(commit) == Some(raft.term()) && is_newest).then_some(leader)
    }

    /// Whether all members that are up hold the same log and the same state.
    fn are_equal(&self) -> Result<(), String> {
        let leader = self.leader().ok_or("there is no leader any more")?;
        let raft = self.nodes[&leader].raft().ok_or("the leader is gone")?;
        let last = raft.last();
        if raft.applied_index() != last.index {
            return Err(format!("{leader:?} has not applied all of its log"));
        }
        for member in raft.membership().members() {
            let Some(node) = self.nodes.get(&member.id) else { continue };
            let Some(running) = &node.running else { continue };
            let disk = raft_core::Incarnation::new(node.incarnation);
            if member.incarnation.is_some_and(|known| Some(known) != disk) {
                continue; // With an empty disk it may call only those who are gone, and wait.
            }
            let other = running.driver.raft();
            if other.last() != last || other.applied_index() != last.index {
                return Err(format!("{:?} does not catch up with {leader:?}", member.id));
            }
            running.applier.look(|judged| judged.compare())?;
        }
        Ok(())
    }

    /// How much was committed.
    pub(super) fn committed(&self) -> u64 {
        let bench = self.court.bench();
        debug_assert!(bench.shadows.values().all(|it| it.run() > 0), "all have started");
        bench.oracles.ledger().committed().0
    }
}
