//! What the clients of one epoch noted, and whether one store could have answered so.

use std::collections::BTreeMap;

use kontiki_kv::proto::mvccpb::KeyValue;
use raft_testkit::history::register::{Input, Output, Register};
use raft_testkit::history::{Checked, History, check};

/// What a key holds: one number, or a list of them.
pub(crate) type Value = Vec<u64>;

/// Nobody is this client.
const AUDITOR: u64 = u64::MAX;

/// A key that was written once, and acknowledged.
#[derive(Clone, Debug)]
pub(crate) struct Once {
    pub(crate) key: String,
    pub(crate) value: u64,
    /// Where it stands, if the first answer was the acknowledgement; otherwise it may have been
    /// written by any of several requests.
    pub(crate) revision: Option<i64>,
}

/// What was asked and answered.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) history: History<Register<Value>>,
    pub(crate) once: Vec<Once>,
    /// What was wrong at first sight.
    pub(crate) found: Vec<String>,
}

/// What was checked, and what was found wrong.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    pub(crate) checked: Checked,
    pub(crate) once: usize,
    pub(crate) found: Vec<String>,
}

/// What a key may hold for ever after its epoch: what it held then, or what somebody asked for
/// who was never answered.
pub(crate) type Rests = BTreeMap<String, Vec<Option<Value>>>;

impl Record {
    /// Compares it with what all nodes hold, once nobody writes any more. `now` is a moment after
    /// all that were noted.
    pub(crate) fn audit(mut self, held: &BTreeMap<String, KeyValue>, now: u64) -> (Audit, Rests) {
        let mut rests = Rests::new();
        for (key, calls) in self.history.keys() {
            let rest = rests.entry(key.clone()).or_default();
            rest.push(held.get(key).map(|kv| parse(&kv.value)));
            for call in calls.into_iter().filter(|call| call.end.is_none()) {
                if let Input::Write(value) | Input::Cas { to: value, .. } = call.input {
                    rest.push(Some(value));
                }
            }
        }
        // What all nodes hold is a last read.
        for (key, rest) in &rests {
            let id = self.history.call(AUDITOR, now, key.clone(), Input::Read);
            self.history.ok(id, now + 1, Output::Value(rest[0].clone()));
        }
        let mut audit = Audit { once: self.once.len(), found: self.found, ..Audit::default() };
        match check(&self.history) {
            Ok(checked) => audit.checked = checked,
            Err(violation) => audit.found.push(violation.to_string()),
        }
        audit.found.extend(self.once.iter().filter_map(|once| lost_or_doubled(once, held)));
        rests.extend(self.once.into_iter().map(|once| (once.key, vec![Some(vec![once.value])])));
        (audit, rests)
    }
}

/// What is wrong with a key that was written once.
fn lost_or_doubled(once: &Once, held: &BTreeMap<String, KeyValue>) -> Option<String> {
    let Once { key, value, revision } = once;
    let Some(kv) = held.get(key) else {
        return Some(format!("{key} = {value} was acknowledged, and is lost"));
    };
    let stands = (kv.version, kv.create_revision, kv.mod_revision);
    let is_once = revision.is_none_or(|revision| stands == (1, revision, revision));
    let is_whole = parse(&kv.value) == [*value];
    (!is_once || !is_whole).then(|| {
        format!(
            "{key} = {value} was acknowledged at revision {revision:?}, and now is {:?}, version \
             {} of revision {}",
            parse(&kv.value),
            kv.version,
            kv.mod_revision
        )
    })
}

/// What is wrong with the keys of epochs that were checked before.
pub(crate) fn changed_since(rests: &Rests, held: &BTreeMap<String, KeyValue>) -> Vec<String> {
    let changed = |(key, allowed): (&String, &Vec<Option<Value>>)| {
        let now = held.get(key).map(|kv| parse(&kv.value));
        let is_allowed = allowed.contains(&now);
        (!is_allowed)
            .then(|| format!("{key} was {:?} when it was left, and is {now:?}", allowed[0]))
    };
    rests.iter().filter_map(changed).collect()
}

/// As it is written: numbers with commas between.
pub(crate) fn text(value: &[u64]) -> String {
    value.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// What [`text`] has written. What it has not, is nobody's value.
pub(crate) fn parse(bytes: &[u8]) -> Value {
    let text = String::from_utf8_lossy(bytes);
    text.split(',').map(|number| number.parse().unwrap_or(u64::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(keys: &[(&str, &str, i64)]) -> BTreeMap<String, KeyValue> {
        let kv = |(key, value, version): &(&str, &str, i64)| {
            let kv = KeyValue {
                key: (*key).to_owned().into(),
                value: (*value).to_owned().into(),
                version: *version,
                create_revision: 5,
                mod_revision: 4 + version,
                ..KeyValue::default()
            };
            ((*key).to_owned(), kv)
        };
        keys.iter().map(kv).collect()
    }

    /// Two appends to one list: the first is answered, the second is as `second` says.
    fn record(second: Option<u64>) -> Record {
        let mut record = Record::default();
        let append = |from: Option<Value>, to| Input::Cas { from, to };
        let first = record.history.call(1, 1, "list".to_owned(), append(None, vec![7]));
        record.history.ok(first, 2, Output::Done);
        let id = record.history.call(2, 3, "list".to_owned(), append(Some(vec![7]), vec![7, 8]));
        if let Some(end) = second {
            record.history.ok(id, end, Output::Done);
        }
        record
    }

    #[test]
    fn what_was_acknowledged_and_is_there_is_well() {
        let (audit, rests) = record(Some(4)).audit(&held(&[("list", "7,8", 2)]), 10);
        assert_eq!(audit.found, Vec::<String>::new());
        assert_eq!((audit.checked.keys, audit.checked.calls), (1, 3));
        assert_eq!(changed_since(&rests, &held(&[("list", "7,8", 2)])), Vec::<String>::new());
        assert_eq!(changed_since(&rests, &held(&[("list", "7", 1)])).len(), 1);
        assert_eq!(changed_since(&rests, &held(&[])).len(), 1);
    }

    #[test]
    fn an_acknowledged_append_that_is_not_there_is_found() {
        for lost in [&[("list", "7", 1)][..], &[], &[("list", "8", 1)]] {
            let (audit, _) = record(Some(4)).audit(&held(lost), 10);
            assert_eq!(audit.found.len(), 1, "{lost:?}");
            assert!(audit.found[0].contains("list"), "{:?}", audit.found);
        }
    }

    /// It may be there, or not, or come later.
    #[test]
    fn an_append_without_an_answer_is_open() {
        for outcome in [&[("list", "7", 1)][..], &[("list", "7,8", 2)]] {
            let (audit, rests) = record(None).audit(&held(outcome), 10);
            assert_eq!(audit.found, Vec::<String>::new(), "{outcome:?}");
            let late = changed_since(&rests, &held(&[("list", "7,8", 2)]));
            assert_eq!(late, Vec::<String>::new());
        }
        let (audit, _) = record(None).audit(&held(&[("list", "8", 2)]), 10);
        assert_eq!(audit.found.len(), 1, "the first one was acknowledged");
    }

    #[test]
    fn a_key_that_was_written_once_is_there_once() {
        let audit = |held: &BTreeMap<_, _>| {
            let once = Once { key: "once".to_owned(), value: 7, revision: Some(5) };
            let record = Record { once: vec![once], ..Record::default() };
            record.audit(held, 10).0.found.len()
        };
        assert_eq!(audit(&held(&[("once", "7", 1)])), 0);
        for wrong in [&[][..], &[("once", "8", 1)], &[("once", "7", 2)]] {
            assert_eq!(audit(&held(wrong)), 1, "{wrong:?}");
        }
    }
}
