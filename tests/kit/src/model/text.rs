//! Fingerprints of what `{:?}` shows: of all of it, so that nothing hidden can be forgotten, and
//! of no more than can matter later.
//!
//! Left out or made relative, each because no later step can depend on it:
//!
//! - instants become *fresh* or *past*: clocks move by one heartbeat, or by more than the longest
//!   timeout, so there is nothing between; when a timer fires it is due, so timers are left out;
//! - tickets count from the newest one, and all that are durable are alike;
//! - settings, the generator of randomness (it only spreads timeouts), scratch space, and what
//!   was announced to people.
//!
//! Sets, maps and lists of members count as sets, so that the same state with other names for the
//! nodes has the same fingerprint under the renaming: the ground of the symmetry reduction.

use std::fmt::{Debug, Write};

/// A renaming of the nodes: node `n` becomes node `names[n]`. Zero stays.
pub(super) type Renaming = [u8; 8];

/// No renaming.
pub(super) const SAME: Renaming = [0, 1, 2, 3, 4, 5, 6, 7];

/// No node has a name of its own.
pub(super) const NAMELESS: Renaming = [0; 8];

/// What stands in a state and never matters.
const IGNORED: &[&str] = &[
    "config",
    "membership",
    "session",
    "now",
    "rng",
    "effects",
    "announced",
    "election_at",
    "retry_at",
    "heartbeat_at",
    "prefer_at",
    "indexes",
    "times",
    "restored",
];

/// Lists whose order follows from the names of the nodes, or does not matter.
const UNORDERED: &[&str] = &["members", "removed", "voters", "outgoing", "outbox"];

/// An instant this much before now, or later, is fresh.
const FRESH_NANOS: u64 = 1_800_000_000_000;

/// A text, and what its numbers count from.
#[derive(Clone, Debug, Default)]
pub(super) struct Text {
    text: String,
    now: u64,
    newest: u64,
    durable: u64,
}

impl Text {
    /// Shows something whose numbers count from nothing.
    pub(super) fn show(&mut self, what: &impl Debug) {
        self.text.clear();
        write!(self.text, "{what:?}").expect("text takes text");
        (self.now, self.newest, self.durable) = (0, 0, 0);
    }

    /// `now` is what instants are compared with; tickets count from the newest that the text names.
    pub(super) fn counting_from(&mut self, now: u64) {
        let number = |name: &str| {
            let at = self.text.find(name)? + name.len();
            let digits = self.text[at..].bytes().take_while(u8::is_ascii_digit).count();
            self.text[at..at + digits].parse().ok()
        };
        let newest = number("newest: w").unwrap_or(0);
        let durable = number(&format!("newest: w{newest}, durable: w")).unwrap_or(0);
        (self.now, self.newest, self.durable) = (now, newest, durable);
    }

    pub(super) fn fingerprint(&self, names: &Renaming) -> u128 {
        let mut scan = Scan { text: self.text.as_bytes(), at: 0, names, of: self };
        scan.value("")
    }
}

/// Two fingerprints, in order.
pub(super) fn mix(one: u128, other: u128) -> u128 {
    const ODD: u128 = 0xda94_2042_e4dd_58b5_9e37_79b9_7f4a_7c15;
    let mixed = (one ^ other.rotate_left(47)).wrapping_add(1).wrapping_mul(ODD);
    let mixed = (mixed ^ (mixed >> 67)).wrapping_mul(ODD);
    mixed ^ (mixed >> 61)
}

struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    names: &'a Renaming,
    of: &'a Text,
}

impl<'a> Scan<'a> {
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(b')')
    }

    fn eat(&mut self, what: &[u8]) -> bool {
        let is_next = self.text[self.at..].starts_with(what);
        if is_next {
            self.at += what.len();
        }
        is_next
    }

    /// A word: a name, a number, a quoted string.
    fn word(&mut self) -> &'a [u8] {
        let start = self.at;
        while let Some(&byte) = self.text.get(self.at) {
            match byte {
                b',' | b')' | b'}' | b']' | b'(' | b'{' | b'[' | b' ' => break,
                b':' if self.text.get(self.at + 1) == Some(&b' ') => break,
                b'"' => {
                    let rest = &self.text[self.at + 1..];
                    let end = rest.iter().position(|it| *it == b'"').unwrap_or(rest.len());
                    self.at += end + 2;
                }
                _ => self.at += 1,
            }
        }
        &self.text[start..self.at]
    }

    fn value(&mut self, field: &str) -> u128 {
        let word = self.word();
        let head = self.leaf(word);
        if self.eat(b"(") {
            if word == b"Instant" {
                return self.instant(field);
            }
            return self.parts(head, b')', false, field);
        }
        if self.eat(b"[") {
            return self.parts(head, b']', UNORDERED.contains(&field), field);
        }
        if word.is_empty() && self.eat(b"{") {
            return self.parts(head, b'}', true, field);
        }
        if self.eat(b" {") {
            return self.fields(head);
        }
        head
    }

    /// What stands between brackets; `key: value` counts as a pair. In a set, twice is once: a
    /// promise that waits twice leaves twice, and what is sent can arrive twice anyway.
    fn parts(&mut self, head: u128, end: u8, is_set: bool, field: &str) -> u128 {
        let mut all = mix(head, u128::from(end));
        let mut set = Vec::new();
        while self.peek() != end {
            let mut part = self.value(field);
            if self.eat(b": ") {
                let value = self.value("");
                part = mix(part, value);
            }
            if is_set {
                set.push(part)
            } else {
                all = mix(all, part)
            }
            self.eat(b", ");
        }
        self.at += 1;
        set.sort_unstable();
        set.dedup();
        set.into_iter().fold(all, mix)
    }

    fn fields(&mut self, head: u128) -> u128 {
        let mut all = mix(head, 3);
        self.eat(b" ");
        while self.peek() != b'}' {
            let name = std::str::from_utf8(self.word()).unwrap_or_default();
            self.eat(b": ");
            if IGNORED.contains(&name) {
                self.skip();
            } else {
                let value = self.value(name);
                all = mix(all, value);
            }
            self.eat(b", ");
            self.eat(b" ");
        }
        self.at += 1;
        all
    }

    fn skip(&mut self) {
        let mut depth = 0;
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' if depth == 0 => return,
                b')' | b']' | b'}' => depth -= 1,
                b',' if depth == 0 => return,
                b' ' if depth == 0 && self.text.get(self.at + 1) == Some(&b'}') => return,
                _ => {}
            }
            self.at += 1;
        }
    }

    fn instant(&mut self, field: &str) -> u128 {
        let digits = self.word();
        let at = digits.iter().fold(0, |sum: u64, digit| {
            sum.wrapping_mul(10).wrapping_add(u64::from(digit.wrapping_sub(b'0')))
        });
        self.at += 1;
        let now = self.of.now;
        match field {
            "writing" => 11, // No disk stalls.
            "sent_at" if at < now && at.saturating_add(FRESH_NANOS) >= now => 12,
            _ if at.saturating_add(FRESH_NANOS) >= now => 13,
            _ => 14,
        }
    }

    fn leaf(&self, word: &[u8]) -> u128 {
        if let [b'N', digit @ b'1'..=b'7'] = word {
            return mix(17, u128::from(self.names[usize::from(digit - b'0')]));
        }
        if let [b'w', digits @ ..] = word
            && !digits.is_empty()
            && digits.iter().all(u8::is_ascii_digit)
        {
            let ticket = digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
            let is_durable = ticket <= self.of.durable;
            let age = if is_durable { 1 << 40 } else { self.of.newest.wrapping_sub(ticket) };
            return mix(19, u128::from(age));
        }
        let mut hash = 23;
        for chunk in word.chunks(15) {
            let mut bytes = [0; 16];
            bytes[..chunk.len()].copy_from_slice(chunk);
            hash = mix(hash, u128::from_le_bytes(bytes));
        }
        hash
    }
}
