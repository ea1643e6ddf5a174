//! What a voter answers. The only place where a vote is given.

use crate::node::Node;
use crate::{LogPosition, Message, NodeId, Term, seeded};

impl Node {
    /// RequestVote in the current term (Raft §5.2, §5.4.1): one vote a term, first come first
    /// served, and only for a log at least as good as ours (or as ours was before it was
    /// damaged). It goes out when it is durable. What this node believes of the membership does
    /// not matter: the candidate may know a newer one.
    pub(crate) fn on_vote(&mut self, candidate: NodeId, last: LogPosition) -> Verdict {
        let free = seeded!(VoteGrantedTwice) || self.vote.is_none_or(|vote| vote == candidate);
        if !free || !self.is_good_enough(last) {
            self.send(candidate, Message::VoteReply { granted: false });
            return Verdict::Refused;
        }
        self.vote = Some(candidate);
        self.promise(candidate, Message::VoteReply { granted: true });
        Verdict::Granted
    }

    /// "Would you vote for me in the term after mine?" A yes is no promise and changes
    /// nothing. A refusal carries our term, which the asker takes over if it is newer, so that
    /// nodes in different terms never refuse each other for ever.
    pub(crate) fn on_pre_vote(
        &mut self,
        candidate: NodeId,
        asked: Term,
        last: LogPosition,
        hears_leader: bool,
    ) {
        // A vote would not leave before the disk works again.
        let may_vote = !hears_leader && !self.is_stalled();
        let granted = may_vote && asked >= self.term && self.is_good_enough(last);
        if granted && seeded!(PreVoteTakesTerm) {
            self.advance_term(asked.next());
        }
        if granted && seeded!(PreVoteGrantsVote) {
            self.vote = Some(candidate);
        }
        self.send(candidate, Message::PreVoteReply { asked, granted });
    }

    /// Whether a candidate's log is at least as good as ours (Raft §5.4.1): of the later term, or
    /// of the same one and at least as long.
    fn is_good_enough(&self, last: LogPosition) -> bool {
        let own = self.log_to_match();
        if seeded!(VoteByIndexOnly) {
            return last.index >= own.index;
        }
        if seeded!(VoteByTermOnly) {
            return last.term >= own.term;
        }
        last >= own || seeded!(VoteIgnoresLog)
    }
}

/// Whether a vote was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Granted,
    Refused,
}
