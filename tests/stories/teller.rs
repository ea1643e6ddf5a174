//! The one helper that touches the API: it turns a line of a story into something that happens to
//! a cluster, and what came of it into lines.
//!
//! ```text
//!   nodes 3 pre_vote=off        saved N1 term 3 vote N2 commit 2 log t1 t1=x t2*5
//!   elect N1   campaign N1 N2   propose N1 x y     read N2 a       run 1s
//!   cut N1   cut N1>N2   split N1 N2 | N3     hold N1-N2   heal [..]
//!   deliver   deliver vote N1>N2   lose 2 append t3   repeat ..   (a bare deliver: all, until quiet)
//!   send N1>N2 t3 append after 1:t1 commit 2 entries t3=x     send N1>N2 t3 heartbeat commit 2
//!   crash N1 [kept]   restart N1   pause N1   resume N1   stall N1   sync N1   work N1   fail N1
//!   clock N1 -500ppm: it runs slower, and always did
//!   loads 500ms [late]   builds 500ms   transfers 500ms: how long it takes to load entries, to
//!   take a snapshot, to send one
//!   new N4   change N1 c +N4 +N5-learner -N2 N3=learner N6=voter N1=priority:2 cancel expect=7 force
//!   transfer N1 t [N2]   lease N1 r   snapshot N1   identify N1 N2=7
//!   damage N2 5   forget N2 3: the state machine has lost what it applied after so many entries
//!   arrive 1: the first snapshot that was sent arrives, again or after all
//!   status [N1 ..]   log [N1 ..]   peers N1   members [N1 ..]   state [N1 ..]   messages [kind] [links]
//! ```
//! Messages wait until they are delivered or time passes; disks are done at once unless stalled.

use std::collections::BTreeMap;
use std::time::Duration;

use raft_core::{
    Config, Effect, Entry, HardState, Index, Lease, NodeId, Outcome, Payload, Refusal, RequestId,
    Requests, RoleKind, Term,
};
use raft_testkit::cluster::{Cluster, Conditions, DiskMood, Image, Options, Wake, node};

use crate::post::envelope;
use crate::words::{role, span, term_of, transfer_error};

#[derive(Default)]
pub struct Teller {
    cluster: Option<Cluster>,
    /// What the open requests are called.
    pub(super) names: BTreeMap<(NodeId, u64, RequestId), String>,
    roles: BTreeMap<NodeId, RoleKind>,
    conditions: Conditions,
}

impl Teller {
    /// Does what the line says. Returns what came of it.
    pub fn perform(&mut self, line: &str) -> Vec<String> {
        let mut words = line.split_whitespace();
        let verb = words.next().expect("a command has a verb");
        let words: Vec<&str> = words.collect();
        let mut output = self.command(verb, &words);
        if let Some(cluster) = &mut self.cluster {
            cluster.settle_disks();
        }
        let mut news = self.news();
        news.append(&mut output);
        news
    }

    pub(super) fn cluster(&mut self) -> &mut Cluster {
        self.cluster.as_mut().expect("a story begins with `nodes`")
    }

    fn command(&mut self, verb: &str, words: &[&str]) -> Vec<String> {
        match verb {
            "nodes" => self.begin(words),
            "saved" => self.saved(words),
            "config" => self.config(words),
            "propose" => self.propose(words),
            "read" => self.read(words),
            "run" => self.cluster().run_for(span(words[0])),
            "loads" | "builds" | "transfers" => self.set_conditions(verb, words),
            "new" => self.chosen_new(words),
            "change" | "transfer" | "lease" | "snapshot" | "arrive" | "damage" | "forget"
            | "identify" => {
                return self.group(verb, words);
            }
            "peers" => {
                let id = id(words[0]);
                return self.peers(id);
            }
            "members" => return self.chosen(words).map(|it| self.members(it)).collect(),
            "state" => return self.chosen(words).map(|it| self.state(it)).collect(),
            "clock" => {
                let ppm = words[1].strip_suffix("ppm").and_then(|ppm| ppm.parse().ok());
                self.cluster().set_clock_rate(id(words[0]), ppm.expect("a rate in ppm"));
            }
            "skip" => {
                for id in self.chosen(&words[..1]) {
                    self.cluster().skip_clock(id, span(words[1]));
                }
            }
            "elect" => {
                let candidate = id(words[0]);
                self.cluster().campaign(candidate);
                self.cluster().settle();
                assert_eq!(self.cluster().leader(), Some(candidate), "it is elected");
            }
            "deliver" if words.is_empty() => self.cluster().settle(),
            "deliver" | "lose" | "repeat" => self.move_messages(verb, words),
            "cut" | "hold" | "heal" => self.change_links(verb, words),
            "split" => self.split(words),
            "send" => {
                let envelope = envelope(words);
                self.cluster().deliver(envelope);
            }
            "status" => return self.chosen(words).map(|it| self.status(it)).collect(),
            "log" => return self.chosen(words).map(|it| self.log(it)).collect(),
            "messages" => return self.messages(words),
            "crash" => {
                let kept = words.get(1).map_or(0, |word| word.parse().expect("a number"));
                self.cluster().crash(id(words[0]), kept);
            }
            _ => self.each(verb, words),
        }
        Vec::new()
    }

    /// The verbs that do the same to each of the nodes.
    fn each(&mut self, verb: &str, words: &[&str]) {
        for id in self.chosen(words) {
            let cluster = self.cluster();
            match verb {
                "campaign" => cluster.campaign(id),
                "restart" => cluster.restart(id),
                "pause" => cluster.pause(id),
                "resume" => cluster.resume(id, Wake::EarsFirst),
                "stall" => cluster.set_disk(id, DiskMood::Stalled),
                "work" => cluster.set_disk(id, DiskMood::Working),
                "fail" => cluster.fail_storage(id),
                "sync" => assert!(cluster.sync_one(id), "{id:?} has nothing to sync"),
                _ => panic!("what is `{verb}`?"),
            }
        }
    }

    fn begin(&mut self, words: &[&str]) {
        let mut config = Config::new(node(1));
        for setting in &words[1..] {
            set(&mut config, setting);
        }
        let nodes = words[0].parse().expect("a number of nodes");
        self.cluster = Some(Cluster::new(Options { nodes, config, ..Options::default() }));
    }

    fn config(&mut self, words: &[&str]) {
        let id = id(words[0]);
        for setting in &words[1..] {
            self.cluster().configure(id, |config| set(config, setting));
        }
        self.cluster().crash(id, 0);
        self.cluster().restart(id);
    }

    /// `saved N1 term 3 vote N2 commit 2 log t1 t1=x t2*5`: the node starts anew from this.
    fn saved(&mut self, words: &[&str]) {
        for id in self.chosen(&words[..1]) {
            let (mut hard_state, mut log) = (HardState::default(), Vec::new());
            let mut words = words[1..].iter();
            while let Some(&word) = words.next() {
                let mut value = || *words.next().expect("a value");
                match word {
                    "term" => hard_state.term = Term(value().parse().expect("a term")),
                    "vote" => hard_state.vote = Some(self::id(value())),
                    "commit" => hard_state.commit = Index(value().parse().expect("an index")),
                    "log" => words.by_ref().for_each(|word| extend(&mut log, word)),
                    _ => panic!("what is `{word}`?"),
                }
            }
            let cluster = self.cluster();
            cluster.crash(id, 0);
            let founders = cluster.founders().clone();
            cluster.replace_disk(id, Image::new(founders, hard_state, log));
            cluster.restart(id);
        }
    }

    fn propose(&mut self, words: &[&str]) {
        let id = id(words[0]);
        let run = self.cluster().member(id).run();
        let first = self.cluster().member(id).next_request();
        for (name, number) in words[1..].iter().zip(first.0..) {
            self.names.insert((id, run, RequestId(number)), (*name).into());
        }
        let payloads = words[1..].iter().map(|word| word.to_string());
        self.cluster().propose(id, payloads).expect("the node is up");
    }

    fn read(&mut self, words: &[&str]) {
        let id = id(words[0]);
        self.name_next(id, format!("read {}", words[1]));
        self.cluster().read(id).expect("the node is up");
    }

    /// What the next request of this node is called.
    pub(super) fn name_next(&mut self, id: NodeId, name: String) {
        let member = self.cluster().member(id);
        let key = (id, member.run(), member.next_request());
        self.names.insert(key, name);
    }

    fn set_conditions(&mut self, verb: &str, words: &[&str]) {
        let time = (span(words[0]), span(words[0]));
        match verb {
            "loads" => {
                self.conditions.load = time;
                self.conditions.late = if words.contains(&"late") { 1000 } else { 0 };
            }
            "builds" => self.conditions.build = time,
            _ => self.conditions.transfer = time,
        }
        let conditions = self.conditions.clone();
        self.cluster().set_conditions(conditions);
    }

    pub(super) fn chosen(&mut self, words: &[&str]) -> impl Iterator<Item = NodeId> + use<> {
        let all = words.is_empty() || words == ["*"];
        let ids = if all { self.cluster().ids() } else { words.iter().map(|it| id(it)).collect() };
        ids.into_iter()
    }
}

/// What came of it.
impl Teller {
    fn news(&mut self) -> Vec<String> {
        let Some(cluster) = &mut self.cluster else { return Vec::new() };
        let news = cluster.take_news();
        news.into_iter().flat_map(|(id, effect)| self.tell(id, effect)).collect()
    }

    fn tell(&mut self, id: NodeId, effect: Effect) -> Vec<String> {
        match effect {
            Effect::RoleChanged(change) => {
                let before = self.roles.insert(id, change.role).unwrap_or(RoleKind::Follower);
                let followers = [before, change.role] == [RoleKind::Follower; 2];
                // Whom a follower follows is seen in the status.
                if followers { Vec::new() } else { vec![format!("{id:?} is {}", role(&change))] }
            }
            Effect::ReadReady { requests, index, until } => {
                let how = if until.is_some() { " under the lease" } else { "" };
                self.named(id, requests, |_| format!("served at {index}{how}"))
            }
            Effect::Refuse { requests, reason } => self.named(id, requests, |_| match reason {
                Refusal::NotLeader { leader: None } => "refused: no leader".into(),
                Refusal::NotLeader { leader: Some(leader) } => format!("refused: ask {leader:?}"),
                Refusal::Overloaded => "refused: overloaded".into(),
                Refusal::TooLarge => "refused: too large".into(),
                Refusal::StorageFailed => "refused: storage failed".into(),
                Refusal::Transferring => "refused: leadership is being handed over".into(),
                Refusal::Change(error) => format!("refused: {error}"),
                Refusal::Transfer(error) => format!("refused: {}", transfer_error(error)),
            }),
            Effect::Resolve { requests, outcome } => self.named(id, requests, |at| match outcome {
                Outcome::Committed { first } => format!("committed at {}", first.0 + at),
                Outcome::Superseded => "superseded".into(),
                Outcome::Unknown => "unknown".into(),
            }),
            Effect::Transferred { request, leader } => {
                self.named(id, Requests::one(request), |_| format!("{leader:?} leads"))
            }
            Effect::Install { last } => vec![format!("{id:?} installs the snapshot of {last:?}")],
            Effect::SendSnapshot { peer, .. } => vec![format!("{id:?} sends {peer:?} a snapshot")],
            Effect::CancelSnapshots => vec![format!("{id:?} sends no snapshot any more")],
            Effect::PeerRegressed { peer, acknowledged, holds } => {
                vec![format!("{id:?} finds that {peer:?} fell from {acknowledged} to {holds}")]
            }
            _ => Vec::new(),
        }
    }

    fn named(
        &mut self,
        id: NodeId,
        requests: Requests,
        what: impl Fn(u64) -> String,
    ) -> Vec<String> {
        let run = self.cluster().member(id).run();
        let name = |at| {
            let name = self.names.remove(&(id, run, RequestId(requests.first.0 + at)));
            format!("{id:?}: {} {}", name.expect("it was asked"), what(at))
        };
        (0..requests.count).map(name).collect()
    }

    fn status(&mut self, id: NodeId) -> String {
        let member = self.cluster().member(id);
        let Some(raft) = member.raft() else { return format!("{id:?} down") };
        let leader = match (raft.role(), raft.leader()) {
            (RoleKind::Follower, Some(leader)) => format!(" of {leader:?}"),
            _ => String::new(),
        };
        let (commit, last) = (raft.commit_index(), raft.last());
        let paused = if member.is_up() { "" } else { ", paused" };
        let (kind, term) = (crate::words::role_name(raft.role()), raft.term());
        let base = match raft.base().index {
            Index::ZERO => String::new(),
            _ => format!(", begins after {:?}", raft.base()),
        };
        let claim = raft.claim().map(|claim| format!(", had {:?}", claim.last)).unwrap_or_default();
        format!(
            "{id:?} {kind} {term:?}{leader}, commit {commit}, last {last:?}{base}{claim}{paused}"
        )
    }

    fn log(&mut self, id: NodeId) -> String {
        let image = self.cluster().member(id).store().live();
        let log = image.log();
        let base = match image.base().index {
            Index::ZERO => String::new(),
            _ => format!("[{:?}] ", image.base()),
        };
        let word = |entry: &Entry| match &entry.payload {
            Payload::Empty => format!("{:?}", entry.term),
            Payload::Command(bytes) => {
                format!("{:?}={}", entry.term, String::from_utf8_lossy(bytes))
            }
            Payload::Membership(membership) => {
                format!("{:?}:{}", entry.term, crate::words::members(membership))
            }
        };
        let words: Vec<String> = log.iter().map(word).collect();
        format!("{id:?} {base}{}", if words.is_empty() { "empty".into() } else { words.join(" ") })
    }
}

pub(super) fn id(word: &str) -> NodeId {
    let number = word.strip_prefix('N').and_then(|number| number.parse().ok());
    node(number.unwrap_or_else(|| panic!("`{word}` is not a node")))
}

/// `t2`, `t2=x`, `t2*5`: entries at the end of a log.
pub(super) fn extend(log: &mut Vec<Entry>, word: &str) {
    let (word, count) = word.split_once('*').unwrap_or((word, "1"));
    let (term, name) = word.split_once('=').map_or((word, None), |(t, name)| (t, Some(name)));
    for _ in 0..count.parse().expect("a number of entries") {
        let (index, term) = (Index(log.len() as u64 + 1), term_of(term));
        let payload = name.map_or_else(|| format!("{index}:{term:?}"), str::to_string);
        log.push(Entry { index, term, payload: Payload::Command(payload.into()) });
    }
}

fn set(config: &mut Config, setting: &str) {
    let (name, value) = setting.split_once('=').expect("a setting is name=value");
    let number = || value.parse::<usize>().expect("a number");
    match name {
        "pre_vote" => config.pre_vote = value == "on",
        "check_quorum" => config.check_quorum = value == "on",
        "forward" => config.forward_proposals = value == "on",
        "append_bytes" => config.append_bytes_max = number(),
        "inflight_appends" => config.inflight_appends_max = number(),
        "commit_notice" => config.commit_notice_delay = span(value),
        "inflight_bytes" => config.inflight_bytes_max = number(),
        "uncommitted_bytes" => config.uncommitted_bytes_max = number(),
        "entry_bytes" => config.entry_bytes_max = number(),
        "recent_bytes" => config.recent_bytes_max = number(),
        "tail" => config.snapshot_tail_entries = number() as u64,
        "stall" => config.disk_stall_timeout = span(value),
        "lease" => {
            let (margin, error) = value.split_once('+').unwrap_or((value, "0ppm"));
            let error = error.strip_suffix("ppm").and_then(|error| error.parse().ok());
            let clock_error_ppm = error.expect("a clock error in ppm");
            config.lease = Some(Lease { clock_error_ppm, margin: span(margin) });
        }
        "heartbeat" => config.heartbeat_interval = Duration::from_millis(number() as u64),
        _ => panic!("what is `{name}`?"),
    }
}
