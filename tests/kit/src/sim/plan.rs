//! All that is done to one cluster, as data: a seed, settings, and acts with their times. What is
//! left of a plan when acts are taken out is a plan again.

use std::fmt;
use std::str::FromStr;

use super::act::{Act, millis};

/// Everything that tells one run from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// All that is left to chance.
    pub seed: u64,
    /// How many nodes found the group.
    pub nodes: u64,
    /// How nodes and clients are set.
    pub settings: Settings,
    /// What is done, and after how many milliseconds. Ascending.
    pub acts: Vec<(u64, Act)>,
}

macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $default:expr;)+) => {
        /// How nodes, network and clients are set.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Settings {
            $($(#[doc = $doc])+ pub $name: $type,)+
        }

        impl Default for Settings {
            fn default() -> Self {
                Self { $($name: $default,)+ }
            }
        }

        /// Those that differ from the default.
        impl fmt::Display for Settings {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let usual = Self::default();
                $(if self.$name != usual.$name {
                    write!(f, " {}={}", stringify!($name), self.$name)?;
                })+
                Ok(())
            }
        }

        impl Settings {
            fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
                match name {
                    $(stringify!($name) => {
                        self.$name = value.parse().map_err(|_| format!("what is `{value}`?"))?;
                    })+
                    _ => return Err(format!("there is no setting `{name}`")),
                }
                Ok(())
            }
        }
    };
}

settings! {
    /// Nodes ask before they stand.
    pre_vote: bool = true;
    /// A leader that hears no quorum steps down.
    check_quorum: bool = true;
    /// Proposals are handed on to the leader.
    forward: bool = true;
    /// Reads may be served under a lease.
    lease: bool = false;
    /// By how many millionths clocks are wrong at most.
    clock_error_ppm: u32 = 0;
    /// All bounds of the core are so small that they are met.
    tight: bool = false;
    /// After how many entries a snapshot is taken.
    snapshot_entries: u64 = 50;
    /// How many entries stay behind it.
    tail_entries: u64 = 10;
    /// How many bytes a snapshot has beside what is in the state.
    ballast: usize = 0;
    /// How large a segment of the log is.
    segment_bytes: u64 = 32 << 10;
    /// After how long a write counts as stalled, in milliseconds.
    stall_ms: u64 = 3000;
    /// How long a message takes at most, in microseconds.
    latency_us: u64 = 2000;
    /// How long a sync takes at most, in microseconds.
    sync_us: u64 = 2000;
    /// How long the state machine takes at most, in microseconds.
    apply_us: u64 = 500;
    /// How many clients there are.
    clients: u64 = 4;
    /// How long a client waits between two calls at most, in milliseconds.
    think_ms: u64 = 400;
    /// How many keys they use.
    keys: u64 = 3;
    /// Clients have sessions.
    sessions: bool = true;
    /// How long a session lives that nobody uses, in milliseconds.
    session_ms: u64 = 20_000;
    /// How long the bad time lasts, in milliseconds.
    storm_ms: u64 = 20_000;
    /// The disk says that it has synced, and has not. For tests of the harness.
    lying_disk: bool = false;
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {} nodes {}{}", self.seed, self.nodes, self.settings)?;
        self.acts.iter().try_for_each(|(at, act)| writeln!(f, "{at}ms {act}"))
    }
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let mut lines = lines.filter(|line| !line.starts_with('#'));
        let mut words = lines.next().ok_or("a plan begins with its seed")?.split_whitespace();
        let mut named = |name: &str| -> Result<u64, String> {
            let (found, value) = (words.next(), words.next());
            let value = value.filter(|_| found == Some(name));
            value.and_then(|value| value.parse().ok()).ok_or(format!("a plan has a {name}"))
        };
        let (seed, nodes) = (named("seed")?, named("nodes")?);
        let mut settings = Settings::default();
        for word in words {
            let (name, value) = word.split_once('=').ok_or(format!("what is `{word}`?"))?;
            settings.set(name, value)?;
        }
        let mut acts = Vec::new();
        for line in lines {
            let (at, act) = line.split_once(' ').ok_or(format!("what is `{line}`?"))?;
            acts.push((millis(at)?, act.parse()?));
        }
        acts.sort_by_key(|(at, _)| *at);
        Ok(Self { seed, nodes, settings, acts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_its_text() {
        let text = "seed 7 nodes 3 lease=true keys=1\n5ms crash N1\n9ms heal\n";
        let plan: Plan = text.parse().expect("a plan");
        assert_eq!((plan.settings.lease, plan.acts.len()), (true, 2));
        assert_eq!(plan.to_string(), text);
        assert!("seed 7 nodes 3 dance=1".parse::<Plan>().is_err());
        assert!("nodes 3".parse::<Plan>().is_err());
    }
}
