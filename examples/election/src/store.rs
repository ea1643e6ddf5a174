//! Small words for what all recipes ask the store. Only what comes to the same however often it is
//! executed is asked for in here: it is repeated until there is an answer.

use std::time::Duration;

use kontiki_client::proto::etcdserverpb::response_op::Response;
use kontiki_client::proto::etcdserverpb::{ResponseOp, TxnRequest, TxnResponse};
use kontiki_client::proto::mvccpb::KeyValue;
use kontiki_client::{Client, ClientError, Retry, kv};
use tokio::time::sleep;

use crate::queue::AcquireError;
use crate::session::{Session, SessionLost};

/// Between two rounds of questions to a cluster that does not answer.
const PAUSE: Duration = Duration::from_millis(50);

/// Whether the store says that there is no such lease.
pub(crate) fn is_not_found(error: &ClientError) -> bool {
    // NotFound, without a dependency on the crate that names it so.
    matches!(error, ClientError::Refused(refusal) if i32::from(refusal.code()) == 5)
}

/// Does a transaction that may be done twice, once.
pub(crate) async fn txn(client: &Client, txn: &TxnRequest) -> Result<TxnResponse, ClientError> {
    let ask = |channel, txn| async move { kv(channel).txn(txn).await };
    client.call(Retry::Safe, txn.clone(), ask).await
}

/// Does a transaction that may be done twice, until there is an answer or the session is lost.
pub(crate) async fn settle(
    session: &Session,
    request: &TxnRequest,
) -> Result<TxnResponse, AcquireError> {
    let settled = session.run(async {
        loop {
            match txn(session.client(), request).await {
                Ok(answer) => return Ok(answer),
                Err(ClientError::Unreachable(_) | ClientError::Unknown { .. }) => {
                    sleep(PAUSE).await;
                }
                Err(error @ ClientError::Refused(_)) => return Err(error),
            }
        }
    });
    match settled.await? {
        Ok(answer) => Ok(answer),
        Err(error) if is_not_found(&error) => {
            session.give_up();
            Err(SessionLost.into())
        }
        Err(error) => Err(AcquireError::Refused(error)),
    }
}

/// The store's revision after a transaction.
pub(crate) fn revision(answer: &TxnResponse) -> i64 {
    answer.header.as_ref().map_or(0, |header| header.revision)
}

/// The first key that each range of a transaction found, in the order of the ranges.
pub(crate) fn found(answer: TxnResponse) -> impl Iterator<Item = Option<KeyValue>> {
    answer.responses.into_iter().filter_map(|ResponseOp { response }| match response {
        Some(Response::ResponseRange(range)) => Some(range.kvs.into_iter().next()),
        _ => None,
    })
}
