//! **Log Matching** (Raft §5.3, figure 3): if two logs contain an entry with the same index and
//! term, then the logs are identical in all entries up through it.
//!
//! It is enough to look at each entry as it is written: equal index and term must mean equal
//! payload, and equal term of the entry before. The rest follows by induction.

use raft_core::{Effect, Entry, Term};

use super::{Ledger, Seen, Step};

#[derive(Clone, Debug, Default)]
pub struct Oracle;

impl Oracle {
    pub(super) fn on_image(&mut self, ledger: &mut Ledger, entries: &[Entry]) {
        let mut before = Term::ZERO;
        for entry in entries {
            ledger.write(entry, before);
            before = entry.term;
        }
    }

    pub(super) fn observe(&mut self, ledger: &mut Ledger, step: &Step<'_, impl Seen>) {
        for effect in step.effects {
            let Effect::Persist(write) = effect else { continue };
            let Some(first) = write.entries.first() else { continue };
            let log = step.member().live();
            let last = write.truncate.unwrap_or(log.last_index());
            assert_eq!(first.index, last.next(), "a log has no gaps: {:?}", step.id);
            let mut before = log.term_at(first.index.prev()).expect("a log has no gaps");
            for entry in write.entries.iter() {
                assert!(entry.term >= before, "terms never fall along a log: {:?}", step.id);
                ledger.write(entry, before);
                before = entry.term;
            }
        }
    }
}
