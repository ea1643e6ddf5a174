//! Links, and the messages on them: to cut and to hold, to deliver, to lose, to repeat, to invent.

use raft_core::{Append, Envelope, Index, Instant, LogPosition, Message, NodeId, Round};
use raft_testkit::cluster::{Link, Slot};

use crate::teller::{Teller, extend, id};
use crate::words::{kind, message, term_of};

/// Links and messages.
impl Teller {
    pub(super) fn change_links(&mut self, verb: &str, words: &[&str]) {
        if verb == "heal" && words.is_empty() {
            return self.cluster().network().mend_all();
        }
        for link in self.links(words) {
            let network = self.cluster().network();
            match verb {
                "cut" => network.cut(link),
                "hold" => network.hold(link),
                _ => network.mend(link),
            }
        }
    }

    pub(super) fn split(&mut self, words: &[&str]) {
        let sides: Vec<Vec<NodeId>> = words
            .split(|word| *word == "|")
            .map(|side| side.iter().map(|word| id(word)).collect())
            .collect();
        for (one, left) in sides.iter().enumerate() {
            for right in sides.iter().skip(one + 1) {
                for (&here, &there) in left.iter().flat_map(|h| right.iter().map(move |t| (h, t))) {
                    self.cluster().network().cut((here, there));
                    self.cluster().network().cut((there, here));
                }
            }
        }
    }

    /// `N1`: all to and from it; `N1-N2`: both ways; `N1>N2`, `N1>*`, `*>N1`: one way.
    pub(super) fn links(&mut self, words: &[&str]) -> Vec<Link> {
        let ids = self.cluster().ids();
        let matches = |word: &str, one: NodeId| word == "*" || id(word) == one;
        let wanted = |(from, to): Link| {
            words.iter().any(|word| {
                if let Some((a, b)) = word.split_once('>') {
                    matches(a, from) && matches(b, to)
                } else if let Some((a, b)) = word.split_once('-') {
                    (matches(a, from) && matches(b, to)) || (matches(a, to) && matches(b, from))
                } else {
                    matches(word, from) || matches(word, to)
                }
            })
        };
        let all = ids.iter().flat_map(|&from| ids.iter().map(move |&to| (from, to)));
        all.filter(|&link| link.0 != link.1 && (words.is_empty() || wanted(link))).collect()
    }

    /// The messages of these kinds, on these links, of these terms, held or not; the first so
    /// many where a number is given.
    pub(super) fn slots(&mut self, words: &[&str]) -> Vec<Slot> {
        let (mut links, mut kinds, mut terms, mut most) = (vec![], vec![], vec![], usize::MAX);
        for &word in words {
            if let Ok(number) = word.parse() {
                most = number;
            } else if word.starts_with('N') || word.contains(['>', '*']) {
                links.push(word);
            } else if word.strip_prefix('t').is_some_and(|it| it.parse::<u64>().is_ok()) {
                terms.push(term_of(word));
            } else {
                kinds.push(word);
            }
        }
        let links = self.links(&links);
        let wanted = |envelope: &Envelope| {
            links.contains(&(envelope.from, envelope.to))
                && (kinds.is_empty() || kinds.contains(&kind(&envelope.message)))
                && (terms.is_empty() || terms.contains(&envelope.term))
        };
        let mut slots = self.cluster().network().slots(wanted);
        slots.truncate(most);
        slots
    }

    pub(super) fn move_messages(&mut self, verb: &str, words: &[&str]) {
        let slots = self.slots(words);
        assert!(!slots.is_empty(), "there is no such message");
        for slot in slots {
            match verb {
                "deliver" => self.cluster().deliver_slot(slot),
                "lose" => drop(self.cluster().network().take(slot)),
                _ => {
                    let network = self.cluster().network();
                    let copy = network.peek(slot).cloned().expect("it waits");
                    network.send(copy, slot.0);
                }
            }
            self.cluster().settle_disks();
        }
    }

    pub(super) fn messages(&mut self, words: &[&str]) -> Vec<String> {
        let slots = self.slots(words);
        let network = self.cluster().network();
        let waiting = slots.into_iter().filter_map(|slot| network.peek(slot));
        waiting.map(message).collect()
    }
}

/// `N1>N2 t3 append after 1:t1 commit 2 entries t3=x`, `.. heartbeat commit 2`.
pub(super) fn envelope(words: &[&str]) -> Envelope {
    let (from, to) = words[0].split_once('>').expect("a link");
    let (mut previous, mut commit, mut entries) = (LogPosition::ZERO, Index::ZERO, Vec::new());
    let mut rest = words[3..].iter();
    while let Some(&word) = rest.next() {
        let mut value = || *rest.next().expect("a value");
        match word {
            "after" => previous = position(value()),
            "commit" => commit = Index(value().parse().expect("an index")),
            "entries" => rest.by_ref().for_each(|word| extend(&mut entries, word)),
            _ => panic!("what is `{word}`?"),
        }
    }
    for (entry, index) in entries.iter_mut().zip(previous.index.0 + 1..) {
        entry.index = Index(index);
    }
    let message = match words[2] {
        "append" => Message::Append(Append { previous, entries: entries.into(), commit }),
        "heartbeat" => Message::Heartbeat { commit, round: Round::ZERO, sent_at: Instant(0) },
        "vote" => Message::Vote { last: previous, transfer: false },
        "timeout-now" => Message::TimeoutNow,
        "vote-reply" => Message::VoteReply { granted: true },
        kind => panic!("what is `{kind}`?"),
    };
    Envelope { from: id(from), to: id(to), term: term_of(words[1]), message }
}

/// `3:t2`.
fn position(word: &str) -> LogPosition {
    let (index, term) = word.split_once(':').expect("a position is index:term");
    LogPosition { term: term_of(term), index: Index(index.parse().expect("an index")) }
}
