//! How the log, the configurations in it and the snapshots below it change together.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::Node;
use crate::log::Change;
use crate::{Effect, Index, Membership, Payload, Snapshot, SnapshotMark, Ticket, seeded};

impl Node {
    /// Notes what is to be written at the end of this event. A configuration is in force from
    /// here on, and one that is cut off is no more (Raft §6).
    pub(crate) fn change(&mut self, change: Change) {
        if change.truncate.is_none() && change.entries.is_empty() {
            return;
        }
        if let Some(last) = change.truncate.filter(|_| !seeded!(ConfigSurvivesTruncation)) {
            self.configurations.truncate(last);
        }
        for entry in change.entries.iter() {
            if let Payload::Membership(membership) = &entry.payload {
                self.configurations.push(entry.index, Arc::clone(membership));
            }
        }
        self.reconfigure();
        assert!(self.change.is_none(), "an event changes the log once");
        self.change = Some(change);
    }

    /// Puts the newest configuration in force.
    fn reconfigure(&mut self) {
        let (index, newest) = self.configurations.newest();
        if seeded!(ConfigAtApplyTime) && index > self.applied {
            return;
        }
        if !Arc::ptr_eq(&self.membership, newest) {
            self.membership = Arc::clone(newest);
            let membership = Arc::clone(newest);
            self.effects.push(Effect::MembershipChanged { index, membership });
        }
    }

    /// What a snapshot taken at `index` covers; `None` where the log does not know, or a node that
    /// is new does not know yet who the members were there.
    pub(crate) fn snapshot_at(&self, index: Index) -> Option<Snapshot> {
        let last = self.log.position_at(index)?;
        let known = |(_, membership): &(_, &Arc<Membership>)| membership.voters().len() > 0;
        let (membership_index, membership) = self.configurations.at(index).filter(known)?;
        Some(Snapshot { last, membership: Arc::clone(membership), membership_index })
    }

    /// The state up to `snapshot` is durable here: the log is cut behind it, but for a tail, and
    /// for what is needed after `keep_after`.
    pub(crate) fn on_snapshot_taken(&mut self, snapshot: Snapshot, keep_after: Option<Index>) {
        let (last, tail) = (snapshot.last, self.config.snapshot_tail_entries);
        if last.index <= self.snapshot.index || self.log.term_at(last.index) != Some(last.term) {
            return; // Overtaken by a newer one.
        }
        assert!(last.index <= self.applying, "a snapshot shows what was handed out");
        let kept = Index(last.index.0.saturating_sub(tail));
        let base = keep_after.map_or(kept, |after| after.min(kept));
        let base = base.max(self.log.base().index).min(self.log.durable());
        let base = self.log.position_at(base).expect("the base lies in the log");
        self.log.compact(base);
        self.configurations.compact(last.index);
        self.snapshot = last;
        self.mark = Some(Box::new(SnapshotMark { snapshot, base }));
    }

    /// A snapshot from the leader takes the place of the log, which ends before it or differs.
    /// The state machine follows once that is durable.
    pub(crate) fn install(&mut self, snapshot: Snapshot) {
        let last = snapshot.last;
        let is_new = last.index > self.commit || seeded!(SnapshotGoesBack);
        assert!(is_new, "what is committed here is not replaced");
        self.log.reset(last);
        self.proposals.on_commit(last.index, &self.log, &mut self.effects);
        if !seeded!(ConfigSurvivesSnapshot) {
            let members = Arc::clone(&snapshot.membership);
            self.configurations.reset(snapshot.membership_index, members);
        }
        self.reconfigure();
        (self.snapshot, self.commit) = (last, last.index);
        self.mark = Some(Box::new(SnapshotMark { snapshot, base: last }));
        let early = seeded!(InstallsBeforeDurable);
        self.install_needs = if early { Ticket::ZERO } else { self.newest.next() };
    }
}
