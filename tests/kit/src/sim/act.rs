//! What is done to a cluster, one line of text each, in the words of the text stories.
//!
//! ```text
//!   cut N1    cut N1>N2    hold N1>N2    split N1 N2 | N3    heal    heal N1>N2
//!   crash N1: the process is killed    power N1: its machine loses its power    restart N1
//!   pause N1    resume N1    skip N1 300ms: its clock goes ahead    campaign N1: until it stands
//!   stall N1: its syncs do not end    work N1    slow N1 50ms    fail N1 sync 2    fill N1 4096
//!   rot N1 7: some byte of its log changes    misdirect N1 7: a sector of it lands elsewhere
//!   wipe N1: it comes back with an empty disk, and wants to go on as if nothing had happened
//!   network lost=100 repeated=30 latency=20ms    repeat 5: old messages come again
//!   calm: everything works for a moment    new N4    change +N4 +N5-learner -N2 N3=learner N6=voter    transfer    transfer N2
//! ```

use std::fmt;
use std::str::FromStr;

use raft_core::{Change, NewMember, NodeId};

use crate::cluster::Link;
use crate::disk::Operation;

/// One thing that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nobody hears this node, and it hears nobody.
    Isolate(NodeId),
    /// What is sent this way is lost.
    Cut(Link),
    /// What is sent this way waits.
    Hold(Link),
    /// Nobody on the left hears anybody on the right, and the other way round.
    Split(Vec<NodeId>, Vec<NodeId>),
    /// All links work.
    Heal,
    /// This link works.
    Mend(Link),
    /// The process is killed. What it had written stays.
    Crash(NodeId),
    /// The machine loses its power: what was not synced may be lost, in part.
    PowerCut(NodeId),
    /// The node starts again; a disk that was full has room, one that failed is another one.
    Restart(NodeId),
    /// The process stands still.
    Pause(NodeId),
    /// It goes on.
    Resume(NodeId),
    /// What its disk is asked for does not end.
    Stall(NodeId),
    /// Its disk works, as fast as disks do.
    Work(NodeId),
    /// Its disk takes so many milliseconds longer.
    Slow(NodeId, u64),
    /// The so-manieth operation of this kind from now on fails.
    Fail(NodeId, Operation, u64),
    /// Its disk has room for so many bytes more.
    Fill(NodeId, u64),
    /// A byte of its log changes; the number says which.
    Rot(NodeId, u64),
    /// A sector of its log is overwritten by another one.
    Misdirect(NodeId, u64),
    /// Its disk is empty, and it is started as if nothing had happened.
    Wipe(NodeId),
    /// Its clock goes ahead by so many milliseconds.
    Skip(NodeId, u64),
    /// Its clock goes ahead until its patience ends.
    Campaign(NodeId),
    /// The network gets better or worse.
    Network(Weather),
    /// So many messages come again.
    Repeat(u64),
    /// All links, disks and nodes work.
    Calm,
    /// A node that knows nobody waits to be added.
    New(NodeId),
    /// The leader is asked for other members.
    Change(Vec<Change>),
    /// The leader is asked to hand over.
    Transfer(Option<NodeId>),
}

/// How well the network works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weather {
    /// How many messages in a thousand are lost.
    pub lost: u64,
    /// How many in a thousand arrive twice.
    pub repeated: u64,
    /// How long one takes at most.
    pub latency_ms: u64,
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Isolate(id) => write!(f, "cut {id:?}"),
            Self::Cut((from, to)) => write!(f, "cut {from:?}>{to:?}"),
            Self::Hold((from, to)) => write!(f, "hold {from:?}>{to:?}"),
            Self::Split(left, right) => write!(f, "split {} | {}", list(left), list(right)),
            Self::Heal => f.write_str("heal"),
            Self::Mend((from, to)) => write!(f, "heal {from:?}>{to:?}"),
            Self::Crash(id) => write!(f, "crash {id:?}"),
            Self::PowerCut(id) => write!(f, "power {id:?}"),
            Self::Restart(id) => write!(f, "restart {id:?}"),
            Self::Pause(id) => write!(f, "pause {id:?}"),
            Self::Resume(id) => write!(f, "resume {id:?}"),
            Self::Stall(id) => write!(f, "stall {id:?}"),
            Self::Work(id) => write!(f, "work {id:?}"),
            Self::Slow(id, ms) => write!(f, "slow {id:?} {ms}ms"),
            Self::Fail(id, what, nth) => write!(f, "fail {id:?} {} {nth}", operation(*what)),
            Self::Fill(id, bytes) => write!(f, "fill {id:?} {bytes}"),
            Self::Rot(id, seed) => write!(f, "rot {id:?} {seed}"),
            Self::Misdirect(id, seed) => write!(f, "misdirect {id:?} {seed}"),
            Self::Wipe(id) => write!(f, "wipe {id:?}"),
            Self::Skip(id, ms) => write!(f, "skip {id:?} {ms}ms"),
            Self::Campaign(id) => write!(f, "campaign {id:?}"),
            Self::Network(Weather { lost, repeated, latency_ms }) => {
                write!(f, "network lost={lost} repeated={repeated} latency={latency_ms}ms")
            }
            Self::Repeat(count) => write!(f, "repeat {count}"),
            Self::Calm => f.write_str("calm"),
            Self::New(id) => write!(f, "new {id:?}"),
            Self::Change(changes) => {
                f.write_str("change")?;
                changes.iter().try_for_each(|change| write!(f, " {}", change_word(change)))
            }
            Self::Transfer(None) => f.write_str("transfer"),
            Self::Transfer(Some(id)) => write!(f, "transfer {id:?}"),
        }
    }
}

impl FromStr for Act {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (verb, words) = words.split_first().ok_or("a line has a verb")?;
        let word = |at: usize| words.get(at).copied().ok_or(format!("`{line}` is too short"));
        let who = || word(0).and_then(id);
        let count = |at: usize| word(at).and_then(number);
        Ok(match *verb {
            "cut" if word(0)?.contains('>') => Self::Cut(link(word(0)?)?),
            "cut" => Self::Isolate(who()?),
            "hold" => Self::Hold(link(word(0)?)?),
            "split" => {
                let bar = words.iter().position(|word| *word == "|").ok_or("a split has a |")?;
                let ids = |words: &[&str]| -> Result<Vec<NodeId>, String> {
                    words.iter().map(|word| id(word)).collect()
                };
                Self::Split(ids(&words[..bar])?, ids(&words[bar + 1..])?)
            }
            "heal" if words.is_empty() => Self::Heal,
            "heal" => Self::Mend(link(word(0)?)?),
            "crash" => Self::Crash(who()?),
            "power" => Self::PowerCut(who()?),
            "restart" => Self::Restart(who()?),
            "pause" => Self::Pause(who()?),
            "resume" => Self::Resume(who()?),
            "stall" => Self::Stall(who()?),
            "work" => Self::Work(who()?),
            "slow" => Self::Slow(who()?, millis(word(1)?)?),
            "fail" => {
                let name = word(1)?;
                let known = FAILING.iter().find(|(_, known)| *known == name);
                let (what, _) = known.ok_or(format!("what is `{name}`?"))?;
                Self::Fail(who()?, *what, count(2)?)
            }
            "fill" => Self::Fill(who()?, count(1)?),
            "rot" => Self::Rot(who()?, count(1)?),
            "misdirect" => Self::Misdirect(who()?, count(1)?),
            "wipe" => Self::Wipe(who()?),
            "skip" => Self::Skip(who()?, millis(word(1)?)?),
            "campaign" => Self::Campaign(who()?),
            "network" => Self::Network(weather(words)?),
            "repeat" => Self::Repeat(count(0)?),
            "calm" => Self::Calm,
            "new" => Self::New(who()?),
            "change" => {
                Self::Change(words.iter().map(|word| change(word)).collect::<Result<_, _>>()?)
            }
            "transfer" if words.is_empty() => Self::Transfer(None),
            "transfer" => Self::Transfer(Some(who()?)),
            _ => return Err(format!("what is `{verb}`?")),
        })
    }
}

/// The operations of a disk that are made to fail, and what they are called.
const FAILING: [(Operation, &str); 6] = [
    (Operation::Read, "read"),
    (Operation::Write, "write"),
    (Operation::Sync, "sync"),
    (Operation::Create, "create"),
    (Operation::Rename, "rename"),
    (Operation::SyncDir, "sync-dir"),
];

fn operation(what: Operation) -> &'static str {
    FAILING.iter().find(|(known, _)| *known == what).map_or("write", |(_, name)| name)
}

fn list(ids: &[NodeId]) -> String {
    ids.iter().map(|id| format!("{id:?}")).collect::<Vec<_>>().join(" ")
}

fn change_word(change: &Change) -> String {
    match change {
        Change::AddVoter(new) => format!("+{:?}", new.id),
        Change::AddLearner(new) => format!("+{:?}-learner", new.id),
        Change::Remove(id) => format!("-{id:?}"),
        Change::Promote(id) => format!("{id:?}=voter"),
        Change::Demote(id) => format!("{id:?}=learner"),
        Change::SetPriority(id, priority) => format!("{id:?}=priority:{priority}"),
        Change::Cancel | Change::SetAddress(..) | Change::SetIncarnation(..) => "cancel".into(),
    }
}

fn change(word: &str) -> Result<Change, String> {
    let new = |word| Ok::<_, String>(NewMember { id: id(word)?, address: String::new() });
    if word == "cancel" {
        return Ok(Change::Cancel);
    }
    if let Some(word) = word.strip_prefix('+') {
        return Ok(match word.strip_suffix("-learner") {
            Some(word) => Change::AddLearner(new(word)?),
            None => Change::AddVoter(new(word)?),
        });
    }
    if let Some(word) = word.strip_prefix('-') {
        return Ok(Change::Remove(id(word)?));
    }
    let (name, value) = word.split_once('=').ok_or(format!("what is `{word}`?"))?;
    match (id(name)?, value.split_once(':')) {
        (id, Some(("priority", priority))) => {
            let priority = priority.parse().map_err(|_| format!("what is `{priority}`?"))?;
            Ok(Change::SetPriority(id, priority))
        }
        (id, None) if value == "voter" => Ok(Change::Promote(id)),
        (id, None) if value == "learner" => Ok(Change::Demote(id)),
        _ => Err(format!("what is `{word}`?")),
    }
}

fn weather(words: &[&str]) -> Result<Weather, String> {
    let value = |name: &str| {
        let found = words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        found.ok_or(format!("a network has {name}"))
    };
    Ok(Weather {
        lost: value("lost").and_then(number)?,
        repeated: value("repeated").and_then(number)?,
        latency_ms: value("latency").and_then(millis)?,
    })
}

fn link(word: &str) -> Result<Link, String> {
    let (from, to) = word.split_once('>').ok_or(format!("`{word}` is not a link"))?;
    Ok((id(from)?, id(to)?))
}

pub(super) fn id(word: &str) -> Result<NodeId, String> {
    let number = word.strip_prefix('N').and_then(|digits| u64::from_str_radix(digits, 16).ok());
    number.and_then(NodeId::new).ok_or(format!("`{word}` is not a node"))
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("`{word}` is not a number"))
}

pub(super) fn millis(word: &str) -> Result<u64, String> {
    number(word.strip_suffix("ms").ok_or(format!("`{word}` is not a time in ms"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_means_itself() {
        for line in [
            "cut N1",
            "cut N1>N2",
            "hold N1>N2",
            "split N1 N2 | N3",
            "heal",
            "heal N1>N2",
            "crash N1",
            "power N1",
            "restart Nb",
            "calm",
            "pause N1",
            "resume N1",
            "stall N1",
            "work N1",
            "slow N1 50ms",
            "fail N1 sync 2",
            "fail N1 sync-dir 1",
            "fill N1 4096",
            "rot N1 7",
            "misdirect N1 7",
            "wipe N1",
            "skip N1 300ms",
            "campaign N1",
            "network lost=100 repeated=30 latency=20ms",
            "repeat 5",
            "new N4",
            "change +N4 +N5-learner -N2 N3=learner N6=voter N1=priority:2 cancel",
            "transfer",
            "transfer N2",
        ] {
            let act: Act = line.parse().expect("it is a line");
            assert_eq!(act.to_string(), line);
        }
    }

    #[test]
    fn a_line_that_means_nothing_is_refused() {
        for line in ["", "dance N1", "crash", "crash 1", "crash N0", "slow N1 50", "change N1"] {
            assert!(line.parse::<Act>().is_err(), "{line}");
        }
    }
}
