//! Transactions: every compare of the way that is taken is evaluated first, then the operations
//! on it are checked, and only then, when nothing can refuse any more, are they performed.

use std::cmp::Ordering;

use bytes::Bytes;

use super::error::{Failure, KvError, StoreError};
use super::format::Version;
use super::range;
use super::span::Span;
use super::state::{NEWEST, State};
use super::write::{Writer, check_put, header};
use crate::proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::proto::etcdserverpb::request_op::Request;
use crate::proto::etcdserverpb::response_op::Response;
use crate::proto::etcdserverpb::{
    Compare, RangeRequest, RangeResponse, RequestOp, ResponseHeader, ResponseOp, TxnRequest,
    TxnResponse,
};

/// A transaction after its compares: the way that it takes.
pub(super) struct Plan {
    succeeded: bool,
    steps: Vec<Step>,
}

enum Step {
    Operation(Request),
    Txn(Plan),
}

impl Plan {
    /// Evaluates the compares.
    pub fn new(state: &State, request: TxnRequest) -> Result<Self, Failure> {
        let succeeded = holds(state, &request.compare)?;
        let way = if succeeded { request.success } else { request.failure };
        let step = |operation: RequestOp| match operation.request {
            None => Err(KvError::KeyNotFound.into()),
            Some(Request::RequestTxn(nested)) => Ok(Step::Txn(Self::new(state, nested)?)),
            Some(request) => Ok(Step::Operation(request)),
        };
        let steps = way.into_iter().map(step).collect::<Result<_, Failure>>()?;
        Ok(Self { succeeded, steps })
    }

    /// Whether every operation can be performed: the puts first, as etcd does, then the ranges.
    pub fn check(&self, state: &State) -> Result<(), Failure> {
        self.check_puts(state)?;
        self.check_ranges(state)
    }

    fn check_puts(&self, state: &State) -> Result<(), Failure> {
        self.steps.iter().try_for_each(|step| match step {
            Step::Operation(Request::RequestPut(put)) => check_put(state, put),
            Step::Operation(_) => Ok(()),
            Step::Txn(nested) => nested.check_puts(state),
        })
    }

    fn check_ranges(&self, state: &State) -> Result<(), Failure> {
        self.steps.iter().try_for_each(|step| match step {
            Step::Operation(Request::RequestRange(range)) => match range.revision {
                0 => Ok(()),
                revision if revision > state.mark.revision => Err(KvError::FutureRevision.into()),
                revision if revision < state.mark.compacted => Err(KvError::Compacted.into()),
                _ => Ok(()),
            },
            Step::Operation(_) => Ok(()),
            Step::Txn(nested) => nested.check_ranges(state),
        })
    }

    /// Performs the operations. What comes later sees what came before.
    pub fn perform(self, writer: &mut Writer<'_>) -> Result<TxnResponse, StoreError> {
        self.each(&mut |operation| {
            Ok(match operation {
                Request::RequestRange(request) => read(writer.state, &request)?,
                Request::RequestPut(request) => Response::ResponsePut(writer.put(request)?),
                Request::RequestDeleteRange(request) => {
                    Response::ResponseDeleteRange(writer.delete_range(&request)?)
                }
                Request::RequestTxn(_) => unreachable!("a plan holds its transactions as plans"),
            })
        })
    }

    /// Performs the operations of a transaction that only reads.
    pub fn read(self, state: &State) -> Result<TxnResponse, StoreError> {
        self.each(&mut |operation| match operation {
            Request::RequestRange(request) => read(state, &request),
            _ => unreachable!("the transaction only reads"),
        })
    }

    fn each(
        self,
        perform: &mut impl FnMut(Request) -> Result<Response, StoreError>,
    ) -> Result<TxnResponse, StoreError> {
        let step = |step: Step| {
            let response = match step {
                Step::Operation(operation) => perform(operation)?,
                Step::Txn(nested) => Response::ResponseTxn(nested.each(perform)?),
            };
            Ok(ResponseOp { response: Some(response) })
        };
        let responses = self.steps.into_iter().map(step).collect::<Result<_, StoreError>>()?;
        // The caller sets the revision, and only the outermost header has one.
        let header = Some(ResponseHeader::default());
        Ok(TxnResponse { header, succeeded: self.succeeded, responses })
    }
}

/// Whether the transaction has nothing but ranges, on both of its ways.
pub fn only_reads(request: &TxnRequest) -> bool {
    all_ranges(request, &|_| true)
}

/// Whether a transaction that [only reads](only_reads) may be answered from local state: when
/// each of its ranges may.
pub fn is_serializable(request: &TxnRequest) -> bool {
    all_ranges(request, &|range| range.serializable)
}

fn all_ranges(request: &TxnRequest, holds: &impl Fn(&RangeRequest) -> bool) -> bool {
    request.success.iter().chain(&request.failure).all(|operation| match &operation.request {
        Some(Request::RequestRange(range)) => holds(range),
        Some(Request::RequestTxn(nested)) => all_ranges(nested, holds),
        Some(Request::RequestPut(_) | Request::RequestDeleteRange(_)) | None => false,
    })
}

/// Answers a transaction that only reads.
pub(super) fn read_only(state: &State, request: TxnRequest) -> Result<TxnResponse, Failure> {
    let plan = Plan::new(state, request)?;
    plan.check(state)?;
    let mut response = plan.read(state)?;
    response.header = header(state.mark.revision);
    Ok(response)
}

fn read(state: &State, request: &RangeRequest) -> Result<Response, StoreError> {
    let at = if request.revision > 0 { request.revision } else { NEWEST };
    let cut = state.cut(Span::new(&request.key, &request.range_end), at);
    let response: RangeResponse = range::answer(cut, request)?;
    Ok(Response::ResponseRange(response))
}

fn holds(state: &State, compares: &[Compare]) -> Result<bool, StoreError> {
    for compare in compares {
        if !compare_holds(state, compare)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A compare holds when it holds for every key of its range.
fn compare_holds(state: &State, compare: &Compare) -> Result<bool, StoreError> {
    let mut cut = state.cut(Span::new(&compare.key, &compare.range_end), NEWEST);
    let base = std::sync::Arc::clone(&cut.base);
    let mut found = false;
    for row in cut.rows() {
        let (_, version) = row?;
        found = true;
        let ordering = match target(compare) {
            Some(CompareTarget::Value) => base.value(&version)?.cmp(&wanted_value(compare)),
            target => of_numbers(compare, target, Some(&version)),
        };
        if !accepts(compare, ordering) {
            return Ok(false);
        }
    }
    if found {
        return Ok(true);
    }
    // No key counts as zeros, but there is no way to write "no value".
    let target = target(compare);
    Ok(target != Some(CompareTarget::Value) && accepts(compare, of_numbers(compare, target, None)))
}

fn target(compare: &Compare) -> Option<CompareTarget> {
    CompareTarget::try_from(compare.target).ok()
}

/// What the compare names for its target; of another kind, or nothing, counts as zero.
fn of_numbers(
    compare: &Compare,
    target: Option<CompareTarget>,
    version: Option<&Version>,
) -> Ordering {
    let found = version.map_or(0, |version| match target {
        Some(CompareTarget::Version) => version.version,
        Some(CompareTarget::Create) => version.create,
        Some(CompareTarget::Mod) => version.modified.main,
        Some(CompareTarget::Lease) => version.lease,
        // A target that nobody knows: equal, as in etcd.
        Some(CompareTarget::Value) | None => 0,
    });
    let wanted = match (target, &compare.target_union) {
        (Some(CompareTarget::Version), Some(TargetUnion::Version(wanted)))
        | (Some(CompareTarget::Create), Some(TargetUnion::CreateRevision(wanted)))
        | (Some(CompareTarget::Mod), Some(TargetUnion::ModRevision(wanted)))
        | (Some(CompareTarget::Lease), Some(TargetUnion::Lease(wanted))) => *wanted,
        _ => 0,
    };
    found.cmp(&wanted)
}

fn wanted_value(compare: &Compare) -> Bytes {
    match &compare.target_union {
        Some(TargetUnion::Value(value)) => value.clone(),
        _ => Bytes::new(),
    }
}

/// A result that nobody knows accepts everything, as in etcd.
fn accepts(compare: &Compare, ordering: Ordering) -> bool {
    match CompareResult::try_from(compare.result) {
        Ok(CompareResult::Equal) => ordering.is_eq(),
        Ok(CompareResult::Greater) => ordering.is_gt(),
        Ok(CompareResult::Less) => ordering.is_lt(),
        Ok(CompareResult::NotEqual) => ordering.is_ne(),
        Err(_) => true,
    }
}
