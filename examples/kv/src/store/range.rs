//! The answer to a range request, from the versions that it covers.

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;

use super::base::Base;
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
    let base = Arc::clone(&cut.base);
    let mut chosen = Chosen::new(request);
    for row in cut.rows() {
        let (key, mut version) = row?;
        response.count += 1;
        if request.count_only || !passes(request, &version) {
            continue;
        }
        let is_long = matches!(version.value, Value::Elsewhere(_));
        if chosen.sorts_by_value() || !(request.keys_only || is_long) {
            version.value = Value::Here(base.value(&version)?);
        } else if !is_long {
            version.value = Value::Here(Bytes::new());
        }
        chosen.add(key, version);
    }
    let (mut rows, more) = chosen.finish();
    response.more = more;
    if !request.keys_only {
        read_long_values(&base, &mut rows)?;
    }
    let shown = |(key, version): (Bytes, Version)| {
        let value = match &version.value {
            Value::Here(value) if !request.keys_only => value.clone(),
            _ => Bytes::new(),
        };
        key_value(key, &version, value)
    };
    response.kvs = rows.into_iter().map(shown).collect();
    Ok(response)
}

/// Reads the values that are not beside their keys in the order in which they were written: so
/// each block that has some of them is read once.
fn read_long_values(base: &Base, rows: &mut [(Bytes, Version)]) -> Result<(), StoreError> {
    let mut long: Vec<&mut Version> = rows
        .iter_mut()
        .map(|(_, version)| version)
        .filter(|version| matches!(version.value, Value::Elsewhere(_)))
        .collect();
    long.sort_unstable_by_key(|version| version.modified);
    for version in long {
        version.value = Value::Here(base.value(version)?);
    }
    Ok(())
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

/// Whether revisions are bounded at all, be it by a bound that all of them keep.
fn filters(request: &RangeRequest) -> bool {
    let mod_revision = request.min_mod_revision != 0 || request.max_mod_revision != 0;
    mod_revision || request.min_create_revision != 0 || request.max_create_revision != 0
}

/// The rows to answer with: the first `limit` in the order asked for. Holds at most twice as
/// many at any time.
struct Chosen {
    rows: Vec<(Bytes, Version)>,
    limit: usize,
    order: SortOrder,
    target: SortTarget,
    /// Only so many rows are looked at, the first ones by key.
    sight: usize,
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
        // As in etcd: who names no order, and does not filter, has the first rows by key sorted,
        // one more of them than are shown. For any other request all rows are sorted.
        let is_short = request.sort_order() == SortOrder::None && !filters(request);
        let sight = if is_short { limit.saturating_add(1) } else { usize::MAX };
        Self { rows: Vec::new(), limit, order, target, sight, more: false }
    }

    fn sorts_by_value(&self) -> bool {
        self.order != SortOrder::None && self.target == SortTarget::Value
    }

    fn add(&mut self, key: Bytes, version: Version) {
        if self.order == SortOrder::None && self.rows.len() == self.limit {
            self.more = true;
            return;
        }
        if self.rows.len() == self.sight {
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
        Value::Here(value) | Value::InBlock(value) => value,
        Value::Elsewhere(_) => &[],
    }
}
