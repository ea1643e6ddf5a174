//! Why members or the leader are not changed, in the codes and the words of etcd where it has
//! them.

use kontiki::TransferLeadershipError;
use kontiki::raft_core::ChangeError;
use tonic::{Code, Status};

const NOT_LEADER: &str = "etcdserver: not leader";

/// Why the members are not changed.
pub(super) fn change(reason: ChangeError) -> Status {
    use ChangeError as E;
    use Code::{Aborted, FailedPrecondition, InvalidArgument, NotFound, Unavailable};
    let (code, words) = match reason {
        E::UnknownMember(_) | E::RemovedMember(_) => (NotFound, "member not found"),
        E::DuplicateMember(_) => (FailedPrecondition, "member ID already exist"),
        E::DuplicateAddress(_) => (FailedPrecondition, "Peer URLs already exists"),
        E::AddressTooLong(_) => (InvalidArgument, "given member URLs are invalid"),
        E::NoVoterLeft => {
            (FailedPrecondition, "re-configuration failed due to not enough started members")
        }
        E::NotLearner(_) => (FailedPrecondition, "can only promote a learner member"),
        E::LearnerLags(_) => {
            (FailedPrecondition, "can only promote a learner member which is in sync with leader")
        }
        E::NoLiveQuorum => (Unavailable, "unhealthy cluster"),
        E::NotExpected { .. } => return own(Aborted, reason),
        E::InProgress => {
            let hint = "give up what waits for a member that does not come with kontiki member \
                        cancel";
            return own(FailedPrecondition, format_args!("{reason}, or {hint}"));
        }
        E::TooManyMembers
        | E::Contradiction(_)
        | E::NotVoter(_)
        | E::NothingChanges
        | E::TooEarly => return own(FailedPrecondition, reason),
    };
    Status::new(code, format!("etcdserver: {words}"))
}

/// Why leadership is not handed over.
pub(super) fn transfer(reason: &TransferLeadershipError) -> Status {
    use TransferLeadershipError as E;
    match reason {
        E::UnknownMember(_) | E::NotVoter(_) => bad_target(),
        E::Failed(_) => {
            // As etcd's: a code that makes no client try again by itself.
            Status::unknown("etcdserver: request timed out, leader transfer took too long")
        }
        other => own(Code::FailedPrecondition, other),
    }
}

/// Something that etcd has no words for.
fn own(code: Code, reason: impl std::fmt::Display) -> Status {
    Status::new(code, format!("etcdserver: {reason}"))
}

/// Whoever is named cannot lead.
pub(super) fn bad_target() -> Status {
    Status::failed_precondition("etcdserver: bad leader transferee")
}

/// What is asked for does not exist; the code is etcd's.
pub(super) fn unknown_method() -> Status {
    Status::unknown("etcdserver: unknown method")
}

/// URLs that make no sense.
pub(super) fn bad_urls() -> Status {
    Status::invalid_argument("etcdserver: given member URLs are invalid")
}

/// It may have been done.
pub(super) fn unknown() -> Status {
    Status::unavailable("etcdserver: request timed out, possibly due to previous leader failure")
}

/// Surely not done.
pub(super) fn not_leader() -> Status {
    Status::failed_precondition(NOT_LEADER)
}

pub(super) fn is_not_leader(status: &Status) -> bool {
    status.code() == Code::FailedPrecondition && status.message() == NOT_LEADER
}
