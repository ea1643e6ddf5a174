//! **A promise is durable before it leaves** (Raft figure 2: persistent state is updated before
//! responding; thesis §3.8). Votes, candidacies and append acknowledgements rest on the durable
//! image at the moment they are sent.

use raft_core::{AppendReply, Effect, Envelope, Message, NodeId, RoleKind};

use super::{Ledger, Seen, Step};

#[derive(Clone, Debug, Default)]
pub struct Oracle;

impl Oracle {
    pub(super) fn observe(&mut self, ledger: &Ledger, step: &Step<'_, impl Seen>) {
        let (raft, id) = (step.raft, step.id);
        for effect in step.effects {
            let Effect::Send(Envelope { to, term, message, .. }) = effect else { continue };
            match message {
                Message::VoteReply { granted: true } => self.voted(step, *to, "grants"),
                Message::Vote { last, .. } => {
                    self.voted(step, id, "stands");
                    let durable = step.member().durable().term_at(last.index);
                    assert_eq!(durable, Some(last.term), "{id:?} stands with a log it may lose");
                }
                Message::AppendReply(AppendReply::Accept { matched }) => {
                    let image = step.member().durable();
                    if *matched < image.base().index {
                        continue; // A snapshot covers it.
                    }
                    let durable = image.term_at(*matched);
                    assert!(durable.is_some(), "{id:?} acks {matched:?}, which it may lose");
                    // What an installed snapshot covers was committed.
                    let covered = ledger.committed_term(*matched);
                    let held = raft.term_at(*matched).or(covered);
                    assert_eq!(durable, held, "{id:?} acks {matched:?} of a log that is gone");
                    assert_eq!(*term, raft.term(), "{id:?} acks to a leader that is gone");
                }
                _ => {}
            }
        }
        if raft.role() == RoleKind::Leader {
            self.voted(step, id, "leads");
        }
    }

    fn voted(&self, step: &Step<'_, impl Seen>, candidate: NodeId, verb: &str) {
        let durable = step.member().durable().hard_state;
        let (term, id) = (step.raft.term(), step.id);
        assert_eq!(
            (durable.term, durable.vote),
            (term, Some(candidate)),
            "{id:?} {verb} in {term:?} before it is durable"
        );
    }
}
