//! Automatic compaction: history that the settings do not want to keep is given up.
//!
//! Every node watches how revisions grow, so that whoever comes to lead can go on at once; the
//! leader alone compacts. It never compacts what somebody else has compacted already.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::sleep;
use tonic::Status;

use super::backend::Backend;
use crate::config::AutoCompaction;
use crate::proto::etcdserverpb::CompactionRequest;
use crate::proto::kontiki::command::Action;
use crate::store::KvError;

/// As etcd: what is kept by age is given up once an hour, or more often where less is kept.
const PERIOD_MAX: Duration = Duration::from_secs(3600);
/// How often it is looked within that.
const TICKS_PER_PERIOD: u32 = 10;
/// As etcd: how often it is looked where a number of revisions is kept.
const COUNT_INTERVAL: Duration = Duration::from_secs(300);

/// Compacts as the settings want it, as long as the node runs.
pub(super) async fn run(backend: Backend) {
    match backend.config.auto_compaction {
        None => {}
        Some(AutoCompaction::Older(age)) => by_age(&backend, age).await,
        Some(AutoCompaction::Revisions(count)) => by_count(&backend, count).await,
    }
}

async fn by_age(backend: &Backend, age: Duration) {
    let period = age.min(PERIOD_MAX);
    let tick = (period / TICKS_PER_PERIOD).max(Duration::from_millis(1));
    let mut window = Window::new(age, tick, backend.reader.revision());
    loop {
        sleep(tick).await;
        window.elapse();
        if let Some(revision) = window.due()
            && compact(backend, revision).await
        {
            window.on_compacted(revision);
        }
        window.push(backend.reader.revision());
    }
}

async fn by_count(backend: &Backend, count: i64) {
    loop {
        sleep(COUNT_INTERVAL).await;
        let revision = backend.reader.revision().saturating_sub(count);
        if revision > 0 && revision > backend.reader.compacted() {
            compact(backend, revision).await;
        }
    }
}

/// Compacts where this node leads. Whether it is done, by whomever.
async fn compact(backend: &Backend, revision: i64) -> bool {
    if revision <= backend.reader.compacted() {
        return true;
    }
    if !backend.node.leadership().current().is_leader() {
        return false;
    }
    let request = CompactionRequest { revision, physical: false };
    match backend.propose(Action::Compact(request)).await {
        Ok(_) => {
            tracing::info!(revision, "history was compacted automatically");
            true
        }
        Err(status) if is_compacted(&status) => true,
        Err(status) => {
            tracing::warn!(revision, %status, "history could not be compacted; trying again soon");
            false
        }
    }
}

fn is_compacted(status: &Status) -> bool {
    status.message() == KvError::Compacted.message()
}

/// The revisions of the last while: the first of them is what is kept from.
#[derive(Debug)]
struct Window {
    revisions: VecDeque<i64>,
    /// So many ticks are in the window, and one more.
    ticks: u32,
    /// Ticks since it was compacted, and how many there must be.
    elapsed: u32,
    due: u32,
    period: u32,
    compacted: i64,
}

impl Window {
    fn new(age: Duration, tick: Duration, revision: i64) -> Self {
        let ticks = u32::try_from(age.as_nanos() / tick.as_nanos().max(1)).unwrap_or(u32::MAX);
        let (elapsed, compacted) = (0, 0);
        let period = TICKS_PER_PERIOD.min(ticks);
        Self { revisions: [revision].into(), ticks, elapsed, due: ticks, period, compacted }
    }

    fn elapse(&mut self) {
        self.elapsed = self.elapsed.saturating_add(1);
    }

    fn push(&mut self, revision: i64) {
        self.revisions.push_back(revision);
        while self.revisions.len() > self.ticks as usize {
            self.revisions.pop_front();
        }
    }

    /// What is to be compacted now.
    fn due(&self) -> Option<i64> {
        let revision = self.revisions.front().copied()?;
        (self.elapsed >= self.due && revision != self.compacted).then_some(revision)
    }

    fn on_compacted(&mut self, revision: i64) {
        (self.compacted, self.elapsed, self.due) = (revision, 0, self.period);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is compacted at each tick, where a revision is made before each.
    fn compacted(age: u64, ticks: i64, works: impl Fn(i64) -> bool) -> Vec<(i64, i64)> {
        let mut window = Window::new(Duration::from_secs(age), Duration::from_secs(1), 100);
        let mut done = Vec::new();
        for tick in 1..=ticks {
            window.elapse();
            if let Some(revision) = window.due()
                && works(tick)
            {
                done.push((tick, revision));
                window.on_compacted(revision);
            }
            window.push(100 + tick);
        }
        done
    }

    #[test]
    fn the_last_while_is_kept_and_what_came_before_is_given_up() {
        assert_eq!(compacted(10, 35, |_| true), [(10, 100), (20, 110), (30, 120)]);
        // Where more is kept than is looked at in one go, it begins later, and goes on as often.
        assert_eq!(compacted(30, 55, |_| true), [(30, 100), (40, 110), (50, 120)]);
    }

    #[test]
    fn what_did_not_go_well_or_was_not_for_this_node_is_tried_again_soon() {
        assert_eq!(compacted(10, 30, |tick| tick > 13), [(14, 104), (24, 114)]);
    }

    #[test]
    fn nothing_is_compacted_twice() {
        let mut window = Window::new(Duration::from_secs(10), Duration::from_secs(1), 7);
        for _ in 0..10 {
            window.elapse();
            window.push(7);
        }
        assert_eq!(window.due(), Some(7));
        window.on_compacted(7);
        for _ in 0..30 {
            window.elapse();
            window.push(7);
            assert_eq!(window.due(), None);
        }
    }
}
