//! Fencing: a token that grows with every acquisition, and writes that are done only while it is
//! the one in force. It never asks first and writes then: between the two a process may sleep for
//! an hour.
//!
//! *Inside the cluster* a write is guarded by a transaction on the creation of the holder's key
//! ([`Fence`]): when the lease has ended the key is gone, and the write is not done. *Outside*,
//! whoever stores the data has to remember the largest token it has seen and refuse smaller ones:
//! see [`protected`](crate::protected).
//!
//! *Who is trusted*: the cluster. No clock, and not the holder itself.
//!
//! *What it costs*: one comparison in a write that is made anyway.

use std::fmt;

use bytes::Bytes;
use kontiki_client::proto::etcdserverpb::response_op::Response;
use kontiki_client::proto::etcdserverpb::{Compare, TxnRequest, TxnResponse};
use kontiki_client::{Client, ClientError};

/// Grows with every acquisition, whoever acquires: the revision that made its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// What a guarded write stands on: a key, and the revision that created it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    key: Bytes,
    token: Token,
}

/// Why a guarded write has no result.
#[derive(Debug, thiserror::Error)]
pub enum FencedError {
    /// Nothing was written: whoever wrote no longer holds. Stop.
    #[error("not written: token {0} is no longer the one in force")]
    Stale(Token),
    /// As the client says.
    #[error(transparent)]
    Store(#[from] ClientError),
}

impl Token {
    pub(crate) fn of_revision(revision: i64) -> Self {
        Self(u64::try_from(revision).unwrap_or(0))
    }

    pub(crate) fn as_revision(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Fence {
    /// A fence on `key` as the revision `token` created it; it may be given to other processes.
    pub fn new(key: impl Into<Bytes>, token: Token) -> Self {
        Self { key: key.into(), token }
    }

    /// The key of the holder.
    pub fn key(&self) -> &Bytes {
        &self.key
    }

    /// The token: the revision that created the key.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Holds as long as the token is in force.
    pub fn compare(&self) -> Compare {
        Compare::create_revision(self.key.clone(), self.token.as_revision())
    }

    /// All of `txn`, its own conditions and both of its branches, if the token is in force; else
    /// nothing. As its only response the answer has that of `txn`.
    pub fn guard(&self, txn: TxnRequest) -> TxnRequest {
        TxnRequest::when([self.compare()]).then(txn)
    }

    /// Does `txn` if the token is in force, as one step.
    ///
    /// # Errors
    /// [`FencedError::Stale`] when it is not; else as those of [`Client::txn`].
    pub async fn write(
        &self,
        client: &Client,
        txn: TxnRequest,
    ) -> Result<TxnResponse, FencedError> {
        let answer = client.txn(self.guard(txn)).await?;
        match answer.responses.into_iter().next().and_then(|response| response.response) {
            Some(Response::ResponseTxn(inner)) if answer.succeeded => Ok(inner),
            _ => Err(FencedError::Stale(self.token)),
        }
    }
}
