//! The sky clears. In bounded time there is a leader, it commits, every request has ended, every
//! change of the members is over, and all logs and state machines are equal.

use core::time::Duration;

use raft_core::{Entry, NodeId};

use super::groups::is_changing;
use super::{RECOVERY_ELECTIONS_IMPOLITE_MAX, RECOVERY_ELECTIONS_MAX, Report, Storm};
use crate::cluster::DiskMood;
use crate::cluster::{Cluster, Conditions, Member, Wake};

impl Storm {
    pub(super) fn clear(mut self, election_timeout: Duration) -> Report {
        self.heal();
        let cluster = &mut self.cluster;
        let floor = cluster.oracles().ledger().committed();
        let elections =
            if self.impolite { RECOVERY_ELECTIONS_IMPOLITE_MAX } else { RECOVERY_ELECTIONS_MAX };
        let most = election_timeout * elections;
        let recovery = cluster.run_until(most, |cluster| commits(cluster).is_some());
        if recovery.is_none() && may_have_no_leader(cluster) {
            return self.report(most, true);
        }
        let recovery = recovery.unwrap_or_else(|| panic!("no leader commits after {most:?}"));
        // Changes end, and a leader may be tried that has a higher priority.
        cluster.run_for(election_timeout * 10);
        self.keep_out_strangers();
        let cluster = &mut self.cluster;
        cluster.run_for(election_timeout * 10);
        let late: Vec<_> = cluster.oracles().requests().open().collect();
        assert!(late.is_empty(), "requests without an end: {late:?}");
        let leader = cluster.leader().expect("the leader stays");
        let membership = cluster.member(leader).raft().expect("it leads").membership().clone();
        let changing = membership.members().iter().filter(|it| is_changing(it.standing));
        assert_eq!(changing.count(), 0, "changes come to an end: {membership:?}");

        cluster.propose(leader, ["end"]);
        cluster.read(leader);
        cluster.run_for(election_timeout * 2);
        assert_eq!(cluster.leader(), Some(leader), "the leader stays");
        let open = cluster.oracles().requests().open().len();
        assert_eq!(open, 0, "a healthy cluster answers");
        assert!(cluster.oracles().ledger().committed() > floor, "something new is committed");
        let best = cluster.member(leader);
        assert_eq!(best.store().durable().last_index(), best.applied(), "everything is applied");
        for member in membership.members() {
            assert_equal((leader, best), (member.id, cluster.member(member.id)));
        }
        self.report(recovery, false)
    }

    /// Everything works again. What was promised to the old disks stays promised.
    fn heal(&mut self) {
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
    }

    /// Who is no member and does not know it disturbs nobody where all ask before they stand, and
    /// nobody helps to depose a leader that lives. Elsewhere it had better be switched off.
    fn keep_out_strangers(&mut self) {
        let ledger = self.cluster.oracles().ledger();
        let members = ledger.membership_at(ledger.committed()).1.clone();
        for id in self.cluster.ids() {
            let config = self.cluster.member(id).config();
            let is_polite = config.pre_vote && config.check_quorum;
            if members.member(id).is_none() && !is_polite {
                self.cluster.crash(id, 0);
            }
        }
    }

    fn report(&self, recovery: Duration, stuck: bool) -> Report {
        let oracles = self.cluster.oracles();
        Report {
            nodes: self.nodes,
            recovery,
            committed: oracles.ledger().committed(),
            ending: oracles.requests().ending(),
            lease_reads: oracles.lease_reads(),
            installed: oracles.installed(),
            stuck,
        }
    }
}

/// The leader that has committed an entry of the newest term that a member knows.
fn commits(cluster: &Cluster) -> Option<NodeId> {
    let leader = cluster.leader()?;
    let raft = cluster.member(leader).raft()?;
    let commit = raft.commit_index();
    let members = raft.membership().members().iter().map(|member| member.id);
    let rafts = members.filter_map(|id| cluster.member(id).raft());
    let newest = rafts.map(raft_core::Raft::term).max();
    let is_newest = newest.is_none_or(|newest| newest <= raft.term());
    (raft.term_at(commit) == Some(raft.term()) && is_newest).then_some(leader)
}

/// Whether the logs that are whole belong to no majority of the voters, in some configuration
/// that is in force somewhere.
fn may_have_no_leader(cluster: &Cluster) -> bool {
    let is_whole = |id: NodeId| {
        let raft = cluster.member(id).raft();
        raft.is_some_and(|raft| raft.claim().is_none())
    };
    let mut rafts = cluster.members().filter_map(|(_, member)| member.raft());
    rafts.any(|raft| {
        let membership = raft.membership();
        membership.voters().len() > 0 && !membership.has_quorum(is_whole)
    })
}

fn assert_equal((leader, best): (NodeId, &Member), (id, member): (NodeId, &Member)) {
    let (log, other) = (best.store().durable(), member.store().durable());
    assert_eq!(log.last(), other.last(), "{leader:?} and {id:?} have other logs");
    let first = log.base().index.max(other.base().index).next();
    let of = |image: &'_ crate::cluster::Image| -> Vec<Entry> {
        image.entries(first, image.last_index()).to_vec()
    };
    assert!(of(log) == of(other), "{leader:?} and {id:?} have other logs");
    assert!(best.machine() == member.machine(), "{leader:?} and {id:?} have other states");
    assert!(member.store().durable().claim().is_none(), "{id:?} is whole again");
}
