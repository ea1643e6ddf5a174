//! Seeded random requests over six keys, some of them bad, and then all of the history.

use kontiki_kv::proto::etcdserverpb::compare::TargetUnion;
use kontiki_kv::proto::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::pair::Pair;
use crate::requests::{Operation, compare, delete, put, range, when};

/// How many revisions are compared at the end.
pub const HISTORY: i64 = 200;

const REQUESTS: usize = 800;
const SEED: u64 = 1;
const KEYS: [&str; 6] = ["a", "b", "c", "ca", "d", "e"];
const ENDS: [&str; 10] = ["", "", "", "\0", "b", "c", "cb", "e", "f", "a"];

pub async fn play(pair: &mut Pair) {
    pair.scene("random");
    pair.ask(delete("\0", "\0")).await;
    let seed = std::env::var("KONTIKI_ETCD_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(SEED);
    eprintln!(
        "random requests of seed {seed}: again with \
         KONTIKI_ETCD_SEED={seed} cargo test -p kontiki-kv --test etcd"
    );
    let mut random = Random(Pcg64Mcg::seed_from_u64(seed));
    for _ in 0..REQUESTS {
        let now = pair.revision;
        match random.below(20) {
            0..7 => pair.ask(random.put()).await,
            7..11 => pair.ask(random.range(now)).await,
            11..13 => pair.ask(random.delete()).await,
            13..19 => pair.ask(random.txn(now, 1)).await,
            _ => pair.ask(random.compact(now)).await,
        }
    }
    pair.dump_history(HISTORY).await;
}

struct Random(Pcg64Mcg);

impl Random {
    fn below(&mut self, bound: i64) -> i64 {
        self.0.random_range(0..bound)
    }

    /// True once in so many times.
    fn rarely(&mut self, bound: i64) -> bool {
        self.below(bound) == 0
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.0.random_range(0..of.len())]
    }

    fn key(&mut self) -> &'static str {
        if self.rarely(60) { "" } else { self.one(&KEYS) }
    }

    fn put(&mut self) -> PutRequest {
        let ignore_value = self.rarely(8);
        let value = if ignore_value && !self.rarely(8) { "" } else { self.one(&["", "1", "2"]) };
        PutRequest {
            lease: if self.rarely(40) { 7 } else { 0 },
            prev_kv: self.rarely(2),
            ignore_value,
            ignore_lease: self.rarely(8),
            ..put(self.key(), value)
        }
    }

    fn delete(&mut self) -> DeleteRangeRequest {
        let (key, range_end) = (self.key(), self.one(&ENDS));
        DeleteRangeRequest { prev_kv: self.rarely(2), ..delete(key, range_end) }
    }

    fn range(&mut self, now: i64) -> RangeRequest {
        let (key, range_end) = (self.key(), self.one(&ENDS));
        RangeRequest {
            limit: self.one(&[0, 0, 1, 2, 5, -1]),
            revision: self.revision(now),
            sort_order: self.one(&[0, 0, 1, 2]),
            sort_target: self.one(&[0, 1, 2, 3, 4]),
            serializable: self.rarely(2),
            keys_only: self.rarely(4),
            count_only: self.rarely(6),
            min_mod_revision: self.bound(now),
            max_mod_revision: self.bound(now),
            min_create_revision: self.bound(now),
            max_create_revision: self.bound(now),
            ..range(key, range_end)
        }
    }

    /// Mostly now, else of late, and rarely compacted or in the future.
    fn revision(&mut self, now: i64) -> i64 {
        match self.below(8) {
            0..5 => 0,
            5..7 => now - self.below(20),
            _ => now - self.below(100) + 3,
        }
    }

    fn bound(&mut self, now: i64) -> i64 {
        if self.rarely(5) { now - self.below(20) } else { 0 }
    }

    fn compact(&mut self, now: i64) -> CompactionRequest {
        let revision = now - self.below(60) + 2;
        CompactionRequest { revision, physical: self.rarely(2) }
    }

    fn txn(&mut self, now: i64, depth: usize) -> TxnRequest {
        let compares = (0..self.below(3)).map(|_| self.compare(now)).collect();
        when(compares, self.operations(now, depth), self.operations(now, depth))
    }

    fn compare(&mut self, now: i64) -> Compare {
        let (key, range_end) = (self.key(), self.one(&ENDS));
        let revision = now - self.below(10);
        let (target, union) = match self.below(5) {
            0 => (0, TargetUnion::Version(self.below(4))),
            1 => (1, TargetUnion::CreateRevision(revision)),
            2 => (2, TargetUnion::ModRevision(revision)),
            3 => (3, TargetUnion::Value(self.one(&["", "1", "2"]).into())),
            _ => (4, TargetUnion::Lease(0)),
        };
        let target = if self.rarely(10) { self.one(&[0, 1, 2, 3, 4]) } else { target };
        let result = self.one(&[0, 1, 2, 3]);
        compare((key, range_end), target, result, Some(union))
    }

    fn operations(&mut self, now: i64, depth: usize) -> Vec<RequestOp> {
        (0..self.below(4)).map(|_| self.operation(now, depth)).collect()
    }

    fn operation(&mut self, now: i64, depth: usize) -> RequestOp {
        match self.below(10) {
            // Without the ignoring flags: an etcd dies where a deletion to `\0` comes before.
            0..5 => PutRequest { ignore_value: false, ignore_lease: false, ..self.put() }.op(),
            5..8 => self.range(now).op(),
            8 if depth > 0 => self.txn(now, depth - 1).op(),
            _ => self.delete().op(),
        }
    }
}
