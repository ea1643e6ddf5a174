//! Doing what the plan says.

use core::time::Duration;

use raft_core::{ChangeSet, Membership, NodeId};
use raft_driver::{StateMachine, Wish};

use super::node::dir;
use super::{Act, Cluster, Happening, Mark};
use crate::cluster::{Image, Link};
use crate::disk::{Fault, SimDisk};
use crate::oracles::Seen as _;

const SECTOR_BYTES: usize = 512;

impl<S: StateMachine> Cluster<S> {
    pub(super) fn act(&mut self, number: usize) {
        let act = self.plan.acts[number].1.clone();
        self.tell_story(|| format!("> {act}"));
        let name = act.to_string();
        let name = name.split(' ').next().and_then(|name| NAMES.iter().find(|it| **it == name));
        *self.figures.acts.entry(name.unwrap_or(&"other")).or_default() += 1;
        match act {
            Act::Isolate(id) => {
                for other in self.ids() {
                    self.network.cut((id, other));
                    self.network.cut((other, id));
                }
            }
            Act::Cut(link) => self.network.cut(link),
            Act::Hold(link) => self.network.hold(link),
            Act::Split(left, right) => {
                for link in
                    left.iter().flat_map(|one| right.iter().map(move |other| (*one, *other)))
                {
                    self.cut_both(link);
                }
            }
            Act::Heal => self.network.mend_all(),
            Act::Calm => {
                self.network.mend_all();
                for id in self.ids() {
                    self.resume(id);
                    self.work(id);
                    self.restart(id);
                }
            }
            Act::Mend(link) => self.network.mend(link),
            Act::Repeat(count) => self.repeat(count),
            Act::Network(weather) => self.weather = weather,
            Act::New(id) if !self.nodes.contains_key(&id) => {
                self.settle_in(id, Membership::unknown());
            }
            Act::New(_) => {}
            Act::Change(changes) => {
                let set = ChangeSet { changes, expected: None, force: false };
                self.wish(Wish::Change(set));
            }
            Act::Transfer(to) => self.wish(Wish::Transfer(to)),
            act => self.act_on(act),
        }
    }

    /// What is done to one node.
    fn act_on(&mut self, act: Act) {
        let Some(id) = subject(&act).filter(|id| self.nodes.contains_key(id)) else { return };
        match act {
            Act::Crash(_) => self.crash(id, false),
            Act::PowerCut(_) => self.crash(id, true),
            Act::Restart(_) => self.restart(id),
            Act::Pause(_) => self.pause(id),
            Act::Resume(_) => self.resume(id),
            Act::Stall(_) => self.get(id).disk_state.stalled = true,
            Act::Work(_) => self.work(id),
            Act::Slow(_, ms) => self.get(id).disk_state.slow_ms = ms,
            Act::Fail(_, what, nth) => {
                self.nodes[&id].disk.inject(what, nth.max(1), Fault::Error(Fault::IO));
            }
            Act::Fill(_, bytes) => self.nodes[&id].disk.limit_growth(Some(bytes)),
            Act::Rot(_, seed) => self.rot(id, seed),
            Act::Misdirect(_, seed) => self.misdirect(id, seed),
            Act::Wipe(_) => self.wipe(id),
            Act::Skip(_, ms) => self.skip(id, Duration::from_millis(ms)),
            Act::Campaign(_) => self.campaign(id),
            _ => {}
        }
    }

    pub(super) fn ids(&self) -> Vec<NodeId> {
        self.nodes.keys().copied().collect()
    }

    fn cut_both(&mut self, (one, other): Link) {
        self.network.cut((one, other));
        self.network.cut((other, one));
    }

    fn wish(&mut self, wish: Wish) {
        if let Some(leader) = self.leader() {
            self.happen_later(leader, Duration::ZERO, Happening::Wish(wish));
        }
    }

    /// Starts the node, on a disk that works.
    pub(super) fn restart(&mut self, id: NodeId) {
        if self.nodes[&id].running.is_none() {
            let disk = self.nodes[&id].disk.kill();
            self.get(id).disk = disk;
            self.start(id);
        }
    }

    fn pause(&mut self, id: NodeId) {
        if self.nodes[&id].is_up() {
            self.note_pause(id);
            let node = self.get(id);
            node.paused = Some(Default::default());
            node.due = None;
        }
    }

    /// It hears what it has missed, before or after it looks at its clock.
    pub(super) fn resume(&mut self, id: NodeId) {
        let Some(backlog) = self.get(id).paused.take() else { return };
        self.court.bench().paused.remove(&id);
        self.set_timer(id);
        if self.dice.nodes.chance(500) && self.nodes[&id].due.is_some_and(|due| due <= self.now) {
            self.fire(id);
        }
        let run = self.nodes[&id].run;
        for what in backlog {
            if self.nodes[&id].run == run {
                self.happen(id, what);
            }
        }
    }

    pub(super) fn work(&mut self, id: NodeId) {
        let node = self.get(id);
        let was = std::mem::take(&mut node.disk_state);
        let is_waiting = node.running.as_ref().is_some_and(|it| !it.writing.is_empty());
        if was.stalled && is_waiting {
            let after = self.disk_time(id);
            self.happen_later(id, after, Happening::Written);
        }
    }

    pub(super) fn skip(&mut self, id: NodeId, by: Duration) {
        if self.plan.settings.lease {
            return; // Leases trust clocks not to jump.
        }
        self.get(id).clock.skew += by;
        self.court.bench().shadow(id).clock.skew += by;
        self.set_timer(id);
    }

    fn campaign(&mut self, id: NodeId) {
        if let Some(due) = self.nodes[&id].due {
            let early = due.since(self.now);
            self.skip(id, early);
        }
    }

    /// A byte changes behind everybody's back.
    fn rot(&mut self, id: NodeId, seed: u64) {
        if let Some((path, offset)) = self.damage(id, seed) {
            let bit = 1u8 << (seed % 8);
            self.nodes[&id].disk.corrupt(&path, offset, |byte| byte ^ bit);
        }
    }

    /// A sector has the contents of another one. Never zeros: at the end of a log they would look
    /// like a write that never was, and a disk that loses what it has synced is beyond the model.
    fn misdirect(&mut self, id: NodeId, seed: u64) {
        let Some((path, offset)) = self.damage(id, seed) else { return };
        let disk = &self.nodes[&id].disk;
        let files = disk.files();
        let Some((_, bytes)) = files.iter().find(|(other, _)| *other == path) else { return };
        let (sectors, _) = bytes.as_chunks::<SECTOR_BYTES>();
        let target = offset as usize / SECTOR_BYTES;
        let is_other =
            |number: &usize| *number != target && sectors[*number].iter().any(|byte| *byte != 0);
        let others: Vec<usize> = (0..sectors.len()).filter(is_other).collect();
        let Some(source) = others.get(seed as usize / 7 % others.len().max(1)) else { return };
        for (byte, value) in sectors[*source].iter().enumerate() {
            disk.corrupt(&path, (target * SECTOR_BYTES + byte) as u64, |_| *value);
        }
    }

    /// A place on the disk of a node that may be damaged. It is noticed at the next start.
    fn damage(&mut self, id: NodeId, seed: u64) -> Option<(std::path::PathBuf, u64)> {
        if !self.minority.contains(&id) {
            return None;
        }
        let files = self.nodes[&id].disk.files();
        let of_log =
            |path: &std::path::Path| path.extension().is_some_and(|it| it == "wal" || it == "snap");
        let files: Vec<_> = files.into_iter().filter(|(path, _)| of_log(path)).collect();
        let (path, bytes) = files.get(seed as usize % files.len().max(1))?;
        // Not in the zeros behind the end: those would prove nothing.
        let used = bytes.iter().rposition(|byte| *byte != 0)? as u64 + 1;
        self.court.bench().shadow(id).is_damaged = true;
        Some((path.clone(), (seed / 11) % used))
    }

    /// The disk is exchanged for an empty one, and the node started as if nothing had happened:
    /// as a founder that makes its log anew. Only once the group knows its disk: before that,
    /// nobody can tell.
    fn wipe(&mut self, id: NodeId) {
        if !self.minority.contains(&id) || !self.is_known(id) {
            return;
        }
        self.crash(id, false);
        self.tell_story(|| format!("{id:?} has an empty disk at {:?}", dir()));
        self.get(id).disk = SimDisk::new();
        let founders = self.nodes[&id].founders.clone();
        let mut bench = self.court.bench();
        bench.oracles.on_new_disk(id);
        bench.shadow(id).lose(Image::new(founders, Default::default(), Vec::new()));
        drop(bench);
        self.start(id);
    }

    /// Old messages come again.
    fn repeat(&mut self, count: u64) {
        for _ in 0..count {
            let known = self.archive.len() as u64;
            let number = self.dice.network.below(known) as usize;
            if let Some((envelope, disk)) = self.archive.get(number).cloned() {
                self.post(envelope.to, Happening::Heard(envelope, disk));
            }
            let known = self.parcels.len() as u64;
            let number = self.dice.network.below(known) as usize;
            if let Some(parcel) = self.parcels.get(number).cloned() {
                self.post(parcel.to, Happening::Parcel(parcel));
            }
        }
    }

    /// Whether nobody can be elected any more, for too many logs are damaged.
    pub(super) fn may_have_no_leader(&self) -> bool {
        let is_whole = |id: NodeId| {
            let raft = self.nodes.get(&id).and_then(|node| node.raft());
            raft.is_some_and(|raft| raft.claim().is_none())
        };
        let mut memberships = self.court.bench();
        let stuck = memberships.shadows.values().any(|shadow| {
            let (_, membership) = shadow.live().membership();
            membership.voters().len() > 0 && !membership.has_quorum(is_whole)
        });
        if stuck {
            memberships.mark(Mark::StuckForGood);
        }
        stuck
    }
}

const NAMES: &[&str] = &[
    "cut",
    "hold",
    "split",
    "heal",
    "crash",
    "power",
    "restart",
    "pause",
    "resume",
    "stall",
    "work",
    "slow",
    "fail",
    "fill",
    "rot",
    "misdirect",
    "wipe",
    "skip",
    "campaign",
    "network",
    "repeat",
    "calm",
    "new",
    "change",
    "transfer",
];

fn subject(act: &Act) -> Option<NodeId> {
    match act {
        Act::Isolate(id)
        | Act::Crash(id)
        | Act::PowerCut(id)
        | Act::Restart(id)
        | Act::Pause(id)
        | Act::Resume(id)
        | Act::Stall(id)
        | Act::Work(id)
        | Act::Slow(id, _)
        | Act::Fail(id, ..)
        | Act::Fill(id, _)
        | Act::Rot(id, _)
        | Act::Misdirect(id, _)
        | Act::Wipe(id)
        | Act::Skip(id, _)
        | Act::Campaign(id)
        | Act::New(id) => Some(*id),
        Act::Cut(_)
        | Act::Hold(_)
        | Act::Split(..)
        | Act::Heal
        | Act::Calm
        | Act::Mend(_)
        | Act::Network(_)
        | Act::Repeat(_)
        | Act::Change(_)
        | Act::Transfer(_) => None,
    }
}
