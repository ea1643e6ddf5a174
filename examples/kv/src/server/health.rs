//! Whether this node can serve, for those who watch over it: `/health` as etcd 3.5 has it, and
//! `/livez` and `/readyz` of single checks.
//!
//! | check | `/livez` | `/readyz` | fails when |
//! |---|---|---|---|
//! | `data_corruption` | | ✓ | some member has raised the alarm CORRUPT |
//! | `serializable_read` | ✓ | ✓ | this node cannot read its own store |
//! | `linearizable_read` | | ✓ | it cannot tell that its store is up to date: no leader, no quorum |

use std::fmt::Write;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde::Serialize;
use tokio::time::timeout_at;
use tonic::body::Body;
use tonic::{Request, Status};

use super::backend::{Backend, timed_out};
use super::page::{self, TEXT, page};
use crate::proto::etcdserverpb::kv_server::Kv;
use crate::proto::etcdserverpb::{AlarmType, RangeRequest};

/// What `/health` says.
#[derive(Serialize)]
struct Health {
    health: &'static str,
    reason: String,
}

/// One thing that can be wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    DataCorruption,
    SerializableRead,
    LinearizableRead,
}

/// What must hold for this process to be left alone.
pub(super) const LIVE: &[Check] = &[Check::SerializableRead];
/// What must hold for clients to be sent here.
pub(super) const READY: &[Check] =
    &[Check::DataCorruption, Check::SerializableRead, Check::LinearizableRead];

impl Check {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::DataCorruption => "data_corruption",
            Self::SerializableRead => "serializable_read",
            Self::LinearizableRead => "linearizable_read",
        }
    }

    async fn run(self, backend: &Backend) -> Result<(), String> {
        let done = match self {
            Self::DataCorruption => {
                let corrupt = AlarmType::Corrupt.as_str_name();
                return match alarms(backend).contains(&corrupt) {
                    true => Err(format!("alarm activated: {corrupt}")),
                    false => Ok(()),
                };
            }
            Self::SerializableRead => read(backend, true).await,
            Self::LinearizableRead => read(backend, false).await,
        };
        done.map_err(|status| format!("range error: {}", status.message()))
    }
}

/// `/health`: alarms first, then whether there is a leader, then whether a read comes through.
/// With `serializable=true` it asks of this node alone; `exclude=NOSPACE` overlooks that alarm.
pub(super) async fn health(backend: &Backend, query: &str) -> Response<Body> {
    let wrong = wrong(backend, query).await;
    let health = if wrong.is_none() { "true" } else { "false" };
    let status = Health { health, reason: wrong.unwrap_or_default() };
    let text = serde_json::to_string(&status).unwrap_or_default();
    match status.health {
        "true" => page(TEXT, text),
        _ => page::error(StatusCode::SERVICE_UNAVAILABLE, &text),
    }
}

async fn wrong(backend: &Backend, query: &str) -> Option<String> {
    let error = |status: Status| format!("RANGE ERROR:{}", status.message());
    let excluded: Vec<&str> = values(query, "exclude").collect();
    if let Some(alarm) = alarms(backend).into_iter().find(|alarm| !excluded.contains(alarm)) {
        return Some(format!("ALARM {alarm}"));
    }
    let is_serializable = values(query, "serializable").any(|value| value == "true");
    if !is_serializable && backend.node.leadership().current().leader.is_none() {
        return Some("RAFT NO LEADER".to_owned());
    }
    read(backend, is_serializable).await.err().map(error)
}

/// Runs checks, and says `ok`, or which of them failed. `verbose` has all of them told,
/// `exclude=NAME` leaves one out.
pub(super) async fn checked(backend: &Backend, checks: &[Check], query: &str) -> Response<Body> {
    let excluded: Vec<&str> = values(query, "exclude").collect();
    let (mut told, mut is_well) = (String::new(), true);
    for check in checks {
        let name = check.name();
        let line = if excluded.contains(&name) {
            format!("[+]{name} excluded: ok")
        } else {
            match check.run(backend).await {
                Ok(()) => format!("[+]{name} ok"),
                Err(reason) => {
                    is_well = false;
                    format!("[-]{name} failed: {reason}")
                }
            }
        };
        // Text takes every line.
        let _ = writeln!(told, "{line}");
    }
    if !is_well {
        return page::error(StatusCode::SERVICE_UNAVAILABLE, told.trim_end());
    }
    let is_verbose = query.split('&').any(|pair| pair.split('=').next() == Some("verbose"));
    if !is_verbose {
        told.clear();
    }
    page(TEXT, told + "ok\n")
}

/// The values that a query gives to a name.
fn values<'a>(query: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(move |(key, _)| *key == name).map(|(_, value)| value)
}

/// The names of all alarms that are raised, as far as this node knows: it must be able to say how
/// it is without the others.
fn alarms(backend: &Backend) -> Vec<&'static str> {
    backend.reader.alarms().iter().map(|alarm| alarm.alarm().as_str_name()).collect()
}

/// Reads a key that nobody needs to have.
async fn read(backend: &Backend, serializable: bool) -> Result<(), Status> {
    let key = Bytes::from_static(b"\0");
    let range = RangeRequest { key, limit: 1, keys_only: true, serializable, ..Default::default() };
    let answer = backend.range(Request::new(range));
    timeout_at(backend.deadline(), answer).await.map_err(|_| timed_out())?.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_gives_a_name_several_values() {
        let values = |query| values(query, "exclude").collect::<Vec<_>>();
        assert_eq!(values("exclude=NOSPACE&exclude=CORRUPT"), ["NOSPACE", "CORRUPT"]);
        assert_eq!(values("verbose&excluded=NOSPACE"), [""; 0]);
        assert_eq!(values(""), [""; 0]);
    }
}
