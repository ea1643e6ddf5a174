//! The answer to a range request, from the versions that it covers.

use std::cmp::Ordering;

use bytes::Bytes;

use super::error::StoreError;
use super::format::{Value, Version};
use super::state::Cut;
use crate::proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use crate::proto::etcdserverpb::{RangeRequest, RangeResponse, ResponseHeader};
use crate::proto::mvccpb::KeyValue;

/// Answers `request`, for which `cut` was made; the header holds the revision alone.
pub(super) fn answer(mut cut: Cut, request: &RangeRequest) -> Result<RangeResponse, StoreError> {
    let header = ResponseHeader { revision: cut.revision, ..Default::default() };
    let mut response = RangeResponse { header: Some(header), ..Default::default() };
    let base = std::sync::Arc::clone(&cut.base);
    let mut chosen = Chosen::new(request);
    for row in cut.rows() {
        let (key, mut version) = row?;
        response.count += 1;
        if request.count_only || !passes(request, &version) {
            continue;
        }
        if chosen.wants_value() {
            version.value = Value::Here(base.value(&version)?);
        }
        chosen.add(key, version);
    }
    let (rows, more) = chosen.finish();
    response.more = more;
    response.kvs.reserve_exact(rows.len());
    for (key, version) in rows {
        let value = if request.keys_only { Bytes::new() } else { base.value(&version)? };
        response.kvs.push(key_value(key, &version, value));
    }
    Ok(response)
}

/// A version as the wire shows it.
pub(super) fn key_value(key: Bytes, version: &Version, value: Bytes) -> KeyValue {
    KeyValue {
        key,
        create_revision: version.create,
        mod_revision: version.modified.main,
        version: version.version,
        value,
        lease: version.lease,
    }
}

fn passes(request: &RangeRequest, version: &Version) -> bool {
    let within = |number: i64, min: i64, max: i64| {
        (min == 0 || number >= min) && (max == 0 || number <= max)
    };
    within(version.modified.main, request.min_mod_revision, request.max_mod_revision)
        && within(version.create, request.min_create_revision, request.max_create_revision)
}

/// The rows to answer with: the first `limit` in the order asked for. Holds at most twice as
/// many at any time.
struct Chosen {
    rows: Vec<(Bytes, Version)>,
    limit: usize,
    order: SortOrder,
    target: SortTarget,
    more: bool,
}

impl Chosen {
    fn new(request: &RangeRequest) -> Self {
        let target = request.sort_target();
        let order = match (request.sort_order(), target) {
            // Rows come by key.
            (SortOrder::None | SortOrder::Ascend, SortTarget::Key) => SortOrder::None,
            (SortOrder::None, _) => SortOrder::Ascend,
            (order, _) => order,
        };
        let limit = usize::try_from(request.limit).unwrap_or(0);
        let limit = if limit == 0 { usize::MAX } else { limit };
        Self { rows: Vec::new(), limit, order, target, more: false }
    }

    fn wants_value(&self) -> bool {
        self.order != SortOrder::None && self.target == SortTarget::Value
    }

    fn add(&mut self, key: Bytes, version: Version) {
        if self.order == SortOrder::None && self.rows.len() == self.limit {
            self.more = true;
            return;
        }
        self.rows.push((key, version));
        if self.rows.len() >= self.limit.saturating_mul(2).max(64) {
            self.trim();
        }
    }

    fn finish(mut self) -> (Vec<(Bytes, Version)>, bool) {
        self.trim();
        (self.rows, self.more)
    }

    fn trim(&mut self) {
        let target = self.target;
        // Both sorts are stable: where the target is equal, keys ascend.
        match self.order {
            SortOrder::None => {}
            SortOrder::Ascend => self.rows.sort_by(|a, b| compare(target, a, b)),
            SortOrder::Descend => self.rows.sort_by(|a, b| compare(target, b, a)),
        }
        self.more |= self.rows.len() > self.limit;
        self.rows.truncate(self.limit);
    }
}

fn compare(target: SortTarget, a: &(Bytes, Version), b: &(Bytes, Version)) -> Ordering {
    match target {
        SortTarget::Key => a.0.cmp(&b.0),
        SortTarget::Version => a.1.version.cmp(&b.1.version),
        SortTarget::Create => a.1.create.cmp(&b.1.create),
        SortTarget::Mod => a.1.modified.main.cmp(&b.1.modified.main),
        SortTarget::Value => value(&a.1).cmp(value(&b.1)),
    }
}

fn value(version: &Version) -> &[u8] {
    match &version.value {
        Value::Here(value) => value,
        Value::Elsewhere => &[],
    }
}
