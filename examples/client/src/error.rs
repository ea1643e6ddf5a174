//! What became of a call that has no result: surely nothing, or nobody knows.

use std::error::Error;
use std::fmt;

use tonic::{Code, Status};

use crate::url::ClientUrl;

/// Why a call has no result. All but [`Unknown`](Self::Unknown) say that nothing was executed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No endpoint took the request or, of one that is safe to repeat, answered it in time.
    /// Nothing was executed: check that the cluster runs, and where.
    #[error("no endpoint answered:{}", lines(.0))]
    Unreachable(Vec<(ClientUrl, String)>),
    /// The request was sent but its outcome is not known: read before doing it again.
    #[error("{endpoint}: {status}\nthe request may have been executed: read before doing it again")]
    Unknown {
        /// Whom it was sent to.
        endpoint: ClientUrl,
        /// What became of the call.
        status: Refusal,
    },
    /// The store refused the request and executed nothing.
    #[error("{0}")]
    Refused(Refusal),
}

impl ClientError {
    /// Whether it is sure that nothing was executed.
    pub fn is_surely_not_executed(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Refused(_) => true,
            Self::Unknown { .. } => false,
        }
    }
}

/// An answer that is no result.
#[derive(Clone, Debug)]
pub struct Refusal(pub Status);

impl Refusal {
    /// The gRPC code.
    pub fn code(&self) -> Code {
        self.0.code()
    }

    /// What the server says, in etcd's words.
    pub fn message(&self) -> &str {
        self.0.message()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.message(), self.code())
    }
}

fn lines(tried: &[(ClientUrl, String)]) -> String {
    tried.iter().map(|(endpoint, reason)| format!("\n  {endpoint}: {reason}")).collect()
}

/// What a status says of the request that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No connection: the request never left.
    NotSent,
    /// The store itself said no, and would anywhere.
    Refused,
    /// This member said no, and another may say yes.
    RefusedHere,
    /// It may have been executed, or may yet be.
    Open,
}

/// What a cluster says that refuses a change of its members: no doubt is left by its code.
const UNHEALTHY: &str = "etcdserver: unhealthy cluster";
/// What a learner says to all that it does not serve.
const LEARNER: &str = "etcdserver: rpc not supported for learner";

impl Verdict {
    pub(crate) fn of(status: &Status) -> Self {
        if let Some(source) = status.source() {
            // Not a server's word but that of the connection.
            return if is_connect_error(source) { Self::NotSent } else { Self::Open };
        }
        match status.code() {
            Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::Unauthenticated => Self::Refused,
            Code::FailedPrecondition if status.message() == LEARNER => Self::RefusedHere,
            Code::FailedPrecondition => Self::Refused,
            Code::Unavailable if status.message() == UNHEALTHY => Self::Refused,
            Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Cancelled
            | Code::Unknown
            | Code::Internal
            | Code::DataLoss
            | Code::Ok => Self::Open,
        }
    }
}

/// Whether a connection could not be made: tonic says so, before it sends anything.
fn is_connect_error(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |&error| error.source())
        .any(|error| error.is::<tonic::ConnectError>())
}

/// The innermost error: the outer ones only say that there was one.
pub(crate) fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_servers_own_and_definite_word_is_a_refusal() {
        let said = |code, message: &str| Verdict::of(&Status::new(code, message));
        assert_eq!(said(Code::NotFound, "etcdserver: member not found"), Verdict::Refused);
        assert_eq!(said(Code::Unavailable, "etcdserver: unhealthy cluster"), Verdict::Refused);
        assert_eq!(said(Code::Unavailable, "etcdserver: request timed out"), Verdict::Open);
        assert_eq!(said(Code::Unavailable, "etcdserver: no leader"), Verdict::Open);
        assert_eq!(said(Code::Internal, "stream closed"), Verdict::Open);
        assert_eq!(said(Code::FailedPrecondition, LEARNER), Verdict::RefusedHere);
        assert_eq!(said(Code::FailedPrecondition, "etcdserver: not leader"), Verdict::Refused);
        let broken = std::io::Error::new(std::io::ErrorKind::ConnectionReset, "reset");
        assert_eq!(Verdict::of(&Status::from_error(Box::new(broken))), Verdict::Open);
        let refused = tonic::ConnectError("connection refused".into());
        assert_eq!(Verdict::of(&Status::from_error(Box::new(refused))), Verdict::NotSent);
    }
}
