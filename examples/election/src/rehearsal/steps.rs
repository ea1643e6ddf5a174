//! The steps of a rehearsal: one failure after the other, each with its rules. All that it knows
//! of the work it reads in the database, as a user would.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use kontiki_election::clock::Moment;
use kontiki_election::protected::Work;
use kontiki_election::{Protected, Token};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tempfile::TempDir;
use tokio::time::sleep;

use super::budget::Blow;
use super::cluster::Cluster;
use super::replicas::{Cut, NAMES, Replicas, Stale};
use super::report::{Row, broken_rules, longest_pause, table};
use super::{Failure, RehearseArgs, stop_requested};

/// Over everything: who waits longer has found a fault.
const REHEARSAL_MAX: Duration = Duration::from_secs(300);
/// Over a budget, until waiting is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// So many items by one writer, one after the other: it works, and works alone.
const STEADY: usize = 20;
const POLL: Duration = Duration::from_millis(20);
const INTERRUPTED: u8 = 130;

struct Rehearsal<'a> {
    args: &'a RehearseArgs,
    cluster: Cluster,
    replicas: Replicas,
    database: Protected,
    chance: Pcg64Mcg,
    rows: Vec<Row>,
    broken: Vec<String>,
}

/// Who works, and with which token.
#[derive(Clone, Copy, Debug)]
struct Worker {
    at: usize,
    token: Token,
}

/// Runs the rehearsal, and says what came of it. Whatever ends it, nothing is left behind.
pub(crate) async fn rehearse(args: &RehearseArgs) -> Result<ExitCode, Failure> {
    let dir = tempfile::Builder::new().prefix("kontiki-rehearsal-").tempdir();
    let dir: TempDir = dir.map_err(Failure::new)?;
    let outcome = tokio::select! {
        outcome = tokio::time::timeout(REHEARSAL_MAX, play(args, dir.path())) => {
            let late = || Failure(format!("the rehearsal is not over after {REHEARSAL_MAX:?}"));
            outcome.unwrap_or_else(|_| Err(late()))
        }
        () = stop_requested() => {
            eprintln!("interrupted");
            Ok(ExitCode::from(INTERRUPTED))
        }
    };
    // All processes have ended by now: they were dropped with what has run.
    if outcome.is_err() {
        eprintln!("logs and database are kept in {}", dir.keep().display());
    }
    outcome
}

async fn play(args: &RehearseArgs, dir: &Path) -> Result<ExitCode, Failure> {
    let seed = args.seed.unwrap_or_else(rand::random);
    println!("rehearsal with --seed {seed} --ttl {}", args.ttl);
    let cluster = Cluster::start(args, dir).await?;
    let path = dir.join("work.db");
    let database = Protected::open(&path).map_err(Failure::new)?;
    let replicas = Replicas::start(&cluster.endpoints, &path, dir, args.ttl).await?;
    let chance = Pcg64Mcg::seed_from_u64(seed);
    let (rows, broken) = (Vec::new(), Vec::new());
    let mut rehearsal = Rehearsal { args, cluster, replicas, database, chance, rows, broken };
    for blow in Blow::ALL {
        if rehearsal.cluster.is_ours() || blow.deposes() {
            rehearsal.step(blow).await?;
        } else {
            println!("{}: left out, the cluster is not ours", blow.title());
        }
    }
    rehearsal.report()
}

impl Rehearsal<'_> {
    /// One failure, from a replica that works to a replica that works.
    async fn step(&mut self, blow: Blow) -> Result<(), Failure> {
        let old = self.until_steady(None, PATIENCE).await?;
        // Anywhere between two renewals.
        let delay = self.args.ttl().mul_f64(self.chance.random_range(0.0..0.34));
        sleep(delay).await;
        println!("{}: {} works with token {}", blow.title(), NAMES[old.at], old.token);
        let budget = blow.budget(self.args);
        let from = self.database.next().map_err(Failure::new)?.saturating_sub(1).max(1);

        self.strike(blow, old).await?;
        let deposed = blow.deposes().then_some(old.token);
        self.until_steady(deposed, budget + PATIENCE).await?;
        self.mend(blow, old).await?;
        let stale = self.until_exorcised(blow, old.token).await?;
        self.until_steady(deposed, PATIENCE).await?;

        let work = self.database.work(from, usize::MAX >> 1).map_err(Failure::new)?;
        let pause = longest_pause(&work);
        if pause > budget + self.args.slack() {
            let (pause, budget) = (pause.as_secs_f64(), budget.as_secs_f64());
            self.broken.push(format!(
                "{}: nobody worked for {pause:.2} s, where {budget:.2} s were predicted",
                blow.title()
            ));
        }
        self.rows.push(Row { blow, budget, pause, refused: stale.refused });
        Ok(())
    }

    async fn strike(&mut self, blow: Blow, old: Worker) -> Result<(), Failure> {
        match blow {
            Blow::Resign => self.replicas.resign(old.at).await,
            Blow::KillReplica => self.replicas.kill_and_restart(old.at).await,
            Blow::StopReplica => self.stop_outside_a_transaction(old.at).await,
            Blow::CutReplica => {
                let how = if self.chance.random() { Cut::Silent } else { Cut::Closed };
                self.replicas.cut(old.at, how);
                Ok(())
            }
            Blow::KillNode => self.cluster.kill_leader().await,
            Blow::RestartNodes => self.cluster.restart_one_by_one().await,
        }
    }

    /// Stopped in the middle of a transaction it would lock the database for everybody: a matter
    /// of the database and not of who leads.
    async fn stop_outside_a_transaction(&mut self, at: usize) -> Result<(), Failure> {
        loop {
            self.replicas.stop(at);
            if self.database.is_free().map_err(Failure::new)? {
                return Ok(());
            }
            self.replicas.resume(at);
            sleep(POLL).await;
        }
    }

    /// Undoes what does not undo itself, when the lease has surely run out.
    async fn mend(&mut self, blow: Blow, old: Worker) -> Result<(), Failure> {
        match blow {
            Blow::StopReplica => {
                let began = Moment::now();
                while Moment::now().since(began) < self.args.ttl() / 4 {
                    self.check()?;
                    sleep(POLL).await;
                }
                self.replicas.resume(old.at);
            }
            // The database hears it all the time; the cluster only when its ghost has tried.
            Blow::CutReplica => {
                self.until_exorcised(blow, old.token).await?;
                self.replicas.heal(old.at);
            }
            Blow::Resign | Blow::KillReplica | Blow::KillNode | Blow::RestartNodes => {}
        }
        Ok(())
    }

    /// Waits until one replica alone works: another than that of `deposed`, if it is given.
    async fn until_steady(
        &mut self,
        deposed: Option<Token>,
        patience: Duration,
    ) -> Result<Worker, Failure> {
        let began = Instant::now();
        let first = self.database.next().map_err(Failure::new)?;
        while began.elapsed() < patience {
            self.check()?;
            let work = self.database.work(first, usize::MAX >> 1).map_err(Failure::new)?;
            if let Some(worker) = steady(&work)
                && deposed.is_none_or(|deposed| worker.token > deposed)
            {
                return Ok(worker);
            }
            sleep(POLL).await;
        }
        let what = if deposed.is_some() { "no other replica works" } else { "no replica works" };
        Err(Failure(format!("{what} within {patience:?}")))
    }

    /// Waits until the deposed leader has tried what it will try, and counts it.
    async fn until_exorcised(&mut self, blow: Blow, token: Token) -> Result<Stale, Failure> {
        let began = Instant::now();
        loop {
            self.check()?;
            let stale = self.replicas.stale.get(&token).copied().unwrap_or_default();
            if stale.is_over || !blow.leaves_a_ghost() {
                return Ok(stale);
            }
            if began.elapsed() > PATIENCE {
                return Err(Failure(format!(
                    "{}: the old leader tried no stale write within {PATIENCE:?}",
                    blow.title()
                )));
            }
            sleep(POLL).await;
        }
    }

    fn check(&mut self) -> Result<(), Failure> {
        self.replicas.listen()
    }

    fn report(mut self) -> Result<ExitCode, Failure> {
        let log = self.database.work(1, usize::MAX >> 1).map_err(Failure::new)?;
        self.broken.extend(broken_rules(&log));
        for (token, stale) in &self.replicas.stale {
            if stale.accepted > 0 {
                let count = stale.accepted;
                self.broken.push(format!("{count} stale writes with token {token} were taken"));
            }
        }
        println!("\n{}", table(&self.rows));
        let tokens = log.chunk_by(|one, other| one.token == other.token).count();
        let (items, refused) = (log.len(), self.rows.iter().map(|row| row.refused).sum::<u64>());
        println!("{items} items in sequence by {tokens} leaders, {refused} stale writes rejected");
        if self.broken.is_empty() {
            println!("no hole, nothing twice, nothing stale, never two at once");
            return Ok(ExitCode::SUCCESS);
        }
        Err(Failure(format!("rules are broken:\n  {}", self.broken.join("\n  "))))
    }
}

/// Who has done the last items, if it was one alone.
fn steady(work: &[Work]) -> Option<Worker> {
    let last = work.get(work.len().checked_sub(STEADY)?..)?;
    let worker = last.last()?;
    let alone =
        last.iter().all(|item| (&item.writer, item.token) == (&worker.writer, worker.token));
    let at = NAMES.iter().position(|name| *name == worker.writer)?;
    alone.then_some(Worker { at, token: worker.token })
}
