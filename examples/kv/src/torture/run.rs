//! The run: step after step, an audit now and then, and one at the end.

use std::pin::Pin;
use std::time::{Duration, Instant};

use kontiki_client::{Client, prefix_end};
use kontiki_kv::proto::etcdserverpb::DeleteRangeRequest;
use tokio::time::sleep;

use super::arena::Arena;
use super::deeds::{REVISIONS_KEPT, TIMEOUTS};
use super::node::Common;
use super::record::{Rests, changed_since};
use super::report::Report;
use super::schedule::{Kind, Schedule, Step};
use super::traces::Traces;
use super::wires::Wires;
use super::workload::Workload;
use super::{ELECTION_MS, HEARTBEAT_MS, Length, Wish, until};
use crate::cli::{Failure, stop_requested};

/// After so long the clients rest, and what they saw is checked.
const EPOCH: Duration = Duration::from_secs(20);
/// Writes that are acknowledged after each step, before the next one.
const PROGRESS: u64 = 20;
/// Where the clients write.
const KEYS: &str = "t/";

/// Tells on standard error how it goes; whoever does not read it must not end it.
macro_rules! tell {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

/// Tortures a cluster. An error means that it could not begin, or was stopped at once; the report
/// says all else.
pub(crate) async fn run(wish: &Wish) -> Result<Report, Failure> {
    let mut report = Report::new(wish);
    let kinds = possible(wish, &mut report);
    if kinds.is_empty() {
        return Err(Failure::new("this machine allows none of these faults"));
    }
    let executable = std::env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find this program: {error}")))?;
    let has_wires = Wires::check().is_ok();
    let (dir, traces) = (wish.dir.clone(), Traces { dir: wish.dir.clone() });
    let common = Common { executable, dir, flags: flags(wish), has_wires, traces };
    let fills_disks = kinds.contains(&Kind::Disk);
    tell!("seed {}; the nodes are in {}", wish.seed, wish.dir.display());

    let mut stop_signal = std::pin::pin!(stop_requested());
    let arena = tokio::select! {
        arena = Arena::start(common, wish.nodes, wish.seed, fills_disks) => arena?,
        () = &mut stop_signal => return Err(Failure::new("stopped before it began")),
    };
    if let (true, Err(reason)) = (fills_disks, &arena.small_disk) {
        report.note_no_small_disk(reason);
    }
    let workload = Workload::start(wish.clients, wish.seed, arena.endpoints.subscribe());
    let schedule = Schedule::new(wish.seed, &kinds);
    let length = wish.length;
    let mut run = Run {
        arena,
        workload,
        schedule,
        report,
        epoch: 0,
        rests: Rests::new(),
        length,
        has_stopped_tracing: false,
    };
    let outcome = run.torture(stop_signal).await;
    run.report.counts = run.workload.counts();
    run.workload.end().await;
    let traces = run.arena.common.traces.clone();
    run.arena.end().await;
    match traces.check() {
        Ok(figures) => run.report.traced = Some(figures),
        Err(broken) => run.report.found.push(broken),
    }
    match outcome {
        Ok(()) => Ok(run.report),
        Err(End::Failed(failure)) => {
            run.report.found.push(failure.to_string());
            Ok(run.report)
        }
        Err(End::Stopped) => Err(Failure::new("stopped at once; not all was checked")),
    }
}

/// The kinds that this machine allows.
fn possible(wish: &Wish, report: &mut Report) -> Vec<Kind> {
    let mut kinds = wish.kinds.clone();
    if let Err(reason) = Wires::check() {
        let need_wires = [Kind::Partition, Kind::Slow];
        kinds.iter().filter(|kind| need_wires.contains(kind)).for_each(|kind| {
            report.skip(*kind, &reason);
        });
        kinds.retain(|kind| !need_wires.contains(kind));
    }
    kinds
}

fn flags(wish: &Wish) -> Vec<String> {
    vec![
        format!("--initial-cluster-token=torture-{:x}", wish.seed),
        format!("--heartbeat-interval={HEARTBEAT_MS}"),
        format!("--election-timeout={ELECTION_MS}"),
        format!("--snapshot-count={}", wish.snapshot_count),
        format!("--snapshot-catchup-entries={}", wish.snapshot_count / 2),
    ]
}

/// Why it ended before its time.
enum End {
    Failed(Failure),
    Stopped,
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

struct Run {
    arena: Arena,
    workload: Workload,
    schedule: Schedule,
    report: Report,
    epoch: u64,
    /// What is left of the epochs before.
    rests: Rests,
    length: Length,
    has_stopped_tracing: bool,
}

impl Run {
    /// All of it. Ctrl-C ends it after the step that is under way, and twice at once.
    async fn torture(&mut self, mut stop: Pin<&mut impl Future<Output = ()>>) -> Result<(), End> {
        let began = Instant::now();
        let (mut is_stopped, mut epoch_began) = (false, began);
        self.workload.work(self.epoch);
        while !is_stopped && !self.is_long_enough(began) && self.report.found.is_empty() {
            let step = self.schedule.step();
            let stepping = self.step(&step, began);
            is_stopped = stoppable(stepping, stop.as_mut()).await?;
            if epoch_began.elapsed() > EPOCH && !is_stopped {
                self.audit().await?;
                self.clean_up().await?;
                self.epoch += 1;
                self.workload.work(self.epoch);
                epoch_began = Instant::now();
            }
        }
        self.report.took = began.elapsed();
        self.conclude().await?;
        Ok(())
    }

    fn is_long_enough(&self, began: Instant) -> bool {
        match self.length {
            Length::Time(length) => began.elapsed() >= length,
            Length::Kills(count) => self.report.times(Kind::Kill) >= count,
        }
    }

    /// One step, and until writes are acknowledged again.
    async fn step(&mut self, step: &Step, began: Instant) -> Result<(), Failure> {
        let (now, mut said) = (Instant::now(), Vec::new());
        let mut begun = None;
        if let Some(trouble) = &step.trouble {
            let it = self.arena.begin(trouble).await?;
            said.push(self.report.count(trouble.kind(), &it.words));
            begun = Some((trouble, it));
        }
        if let Some(deed) = &step.deed {
            let words = self.arena.perform(deed, self.workload.revision()).await?;
            let words: Vec<_> = words.into_iter().map(|word| (word, 1)).collect();
            said.push(self.report.count(deed.kind(), &words));
        }
        if let Some((trouble, it)) = begun {
            sleep(step.hold.saturating_sub(now.elapsed())).await;
            self.arena.end_trouble(trouble, &it).await?;
        }
        sleep(step.rest).await;
        let progress = self.workload.progress(PROGRESS).await;
        self.arena.check_alive()?;
        progress?;
        let gap = self.workload.take_longest_gap();
        let kinds = step.trouble.iter().map(|it| it.kind());
        for kind in kinds.chain(step.deed.iter().map(|it| it.kind())) {
            self.report.note_gap(kind, gap);
        }
        tell!("{:>7.1} s  {}", began.elapsed().as_secs_f64(), said.join(" + "));
        Ok(())
    }

    /// Lets all come to rest, and checks what clients saw in this epoch against what all nodes
    /// hold, and that the epochs before are as they were left.
    async fn audit(&mut self) -> Result<(), Failure> {
        let record = self.workload.rest().await?;
        let (revision, hash) = self.arena.settled().await?;
        let held = self.arena.held(0, KEYS).await?;
        self.report.found.extend(changed_since(&self.rests, &held));
        let now = self.workload.now();
        // The links between the nodes must not wait for it.
        let checking = tokio::task::spawn_blocking(move || record.audit(&held, now));
        let (audit, rests) = checking.await.map_err(Failure::new)?;
        self.report.add(audit);
        self.report.replicas = Some((self.arena.nodes.len(), revision, hash));
        self.rests.extend(rests);
        Ok(())
    }

    /// What was written once in this epoch is not needed any more, nor are old revisions.
    async fn clean_up(&mut self) -> Result<(), Failure> {
        let prefix = format!("{KEYS}{}/once/", self.epoch);
        self.rests.retain(|key, _| !key.starts_with(&prefix));
        let request = DeleteRangeRequest {
            range_end: prefix_end(prefix.as_bytes()).into(),
            key: prefix.into(),
            ..DeleteRangeRequest::default()
        };
        until("old keys are deleted", async || {
            let client = Client::new(self.arena.endpoints.borrow().clone(), TIMEOUTS);
            client.delete(request.clone()).await.ok()
        })
        .await?;
        self.arena.compact(self.workload.revision() - REVISIONS_KEPT).await?;
        if self.arena.common.traces.are_full() && !self.has_stopped_tracing {
            // Those that were never restarted would write for ever.
            self.has_stopped_tracing = true;
            self.restart_all().await?;
        }
        Ok(())
    }

    async fn restart_all(&mut self) -> Result<(), Failure> {
        for at in 0..self.arena.nodes.len() {
            self.arena.kill(at).await;
        }
        (0..self.arena.nodes.len()).try_for_each(|at| self.arena.start_node(at))
    }

    /// The last audit, and once more after all were killed: each holds everything by itself.
    async fn conclude(&mut self) -> Result<(), Failure> {
        self.audit().await?;
        let before = self.report.replicas;
        self.restart_all().await?;
        let leader = self.arena.leader_surely().await?;
        let (revision, hash) = self.arena.settled().await?;
        self.report.terms = self.arena.inspect(leader).await.map_or(0, |said| said.term);
        // A request that nobody waits for any more may still have been executed.
        let is_later = before.is_some_and(|(_, before, _)| before < revision);
        let after = Some((self.arena.nodes.len(), revision, hash));
        if after != before && !is_later {
            let found = format!("after all were killed, the store is {after:?} and not {before:?}");
            self.report.found.push(found);
        }
        let held = self.arena.held(leader, KEYS).await?;
        self.report.found.extend(changed_since(&self.rests, &held));
        Ok(())
    }
}

/// Whether it was to stop meanwhile.
async fn stoppable(
    step: impl Future<Output = Result<(), Failure>>,
    mut stop: Pin<&mut impl Future<Output = ()>>,
) -> Result<bool, End> {
    let mut step = std::pin::pin!(step);
    tokio::select! {
        outcome = &mut step => outcome?,
        () = stop.as_mut() => {
            tell!("stopping after this step; Ctrl-C again stops at once");
            tokio::select! {
                outcome = &mut step => outcome?,
                () = stop_requested() => return Err(End::Stopped),
            }
            return Ok(true);
        }
    }
    Ok(false)
}
