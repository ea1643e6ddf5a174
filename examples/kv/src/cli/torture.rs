//! `kontiki torture`: what it is asked for, and how it ends.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{Failure, block_on, show};
use crate::torture::schedule::Kind;
use crate::torture::{Length, Wish, run as torture};

/// More clients than this say nothing more, and have histories that take long to check.
const CLIENTS_MAX: usize = 32;
const SNAPSHOT_COUNT_MIN: u64 = 10;

#[derive(Args)]
#[command(after_help = "What goes wrong and when is a function of the seed; what real processes \
    make of it is not.\nExit codes: 0 nothing is lost, 1 something is, or it could not be run, \
    2 asked wrongly")]
pub(super) struct TortureArgs {
    /// What goes wrong, and when [default: drawn, and shown]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How long, in seconds, or as 90s, 5m, 1h [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "cycles")]
    duration: Option<Duration>,
    /// As many cycles of kill -9 and start, under load; no other faults unless asked for
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    cycles: Option<u64>,
    /// How many nodes: 3 or 5
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = nodes)]
    nodes: usize,
    /// What may go wrong [default: everything, or kill with --cycles]
    #[arg(long, value_name = "FAULT,…", value_delimiter = ',', value_enum)]
    faults: Vec<Kind>,
    /// Clients that read and write all the time
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clients)]
    clients: usize,
    /// Applied entries between two snapshots of a node
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = snapshot_count)]
    snapshot_count: u64,
    /// Where the nodes keep their data; new or empty [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Keep the data and the logs also when all is well
    #[arg(long)]
    keep: bool,
    /// The result as JSON, on standard output
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: TortureArgs) -> Result<ExitCode, Failure> {
    let kinds = kinds(&args)?;
    let (json, keep) = (args.json, args.keep);
    let dir = Dir::make(args.dir)?;
    let wish = Wish {
        seed: args.seed.unwrap_or_else(|| rand::random_range(0..1_000_000)),
        length: match args.cycles {
            Some(count) => Length::Kills(count),
            None => Length::Time(args.duration.unwrap_or(Duration::from_secs(60))),
        },
        nodes: args.nodes,
        clients: args.clients,
        kinds,
        snapshot_count: args.snapshot_count,
        dir: dir.path.clone(),
    };
    let outcome = block_on(torture(&wish))?;
    let is_well = outcome.as_ref().is_ok_and(|report| report.is_well());
    let place = dir.end(keep || !is_well)?;
    let report = outcome.map_err(|failure| Failure::new(format!("{failure}; see {place}")))?;
    let text = if json { format!("{:#}\n", report.json()) } else { report.table() };
    show(text.as_bytes())?;
    if is_well {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::new(format!("{}\nthe nodes' data and logs are in {place}", report.complaint())))
}

/// The faults, each once, in one order whatever the order in which they were named.
fn kinds(args: &TortureArgs) -> Result<Vec<Kind>, Failure> {
    let mut kinds = match (args.faults.is_empty(), args.cycles) {
        (false, _) => args.faults.clone(),
        (true, Some(_)) => vec![Kind::Kill],
        (true, None) => Kind::value_variants().to_vec(),
    };
    kinds.sort_unstable();
    kinds.dedup();
    if args.cycles.is_some() && !kinds.contains(&Kind::Kill) {
        return Err(Failure::usage("--cycles counts kills, and --faults names none; add kill"));
    }
    Ok(kinds)
}

/// Where the nodes keep what is theirs. Goes in the end, unless it is to be kept.
struct Dir {
    path: PathBuf,
    temporary: Option<tempfile::TempDir>,
}

impl Dir {
    fn make(wanted: Option<PathBuf>) -> Result<Self, Failure> {
        let failed = |error| Failure::new(format!("cannot make a directory: {error}"));
        let Some(path) = wanted else {
            let dir = tempfile::Builder::new().prefix("kontiki-torture-").tempdir();
            let dir = dir.map_err(failed)?;
            return Ok(Self { path: dir.path().to_owned(), temporary: Some(dir) });
        };
        std::fs::create_dir_all(&path).map_err(failed)?;
        let path = std::path::absolute(&path).map_err(failed)?;
        let is_empty = std::fs::read_dir(&path).map_err(failed)?.next().is_none();
        if !is_empty {
            let reason = "is not empty; give a new directory";
            return Err(Failure::usage(format!("--dir: {} {reason}", path.display())));
        }
        Ok(Self { path, temporary: None })
    }

    /// Where everything is, if it is kept.
    fn end(self, keep: bool) -> Result<String, Failure> {
        let place = self.path.display().to_string();
        match (self.temporary, keep) {
            (Some(dir), true) => {
                let _ = dir.keep();
            }
            (Some(dir), false) => drop(dir),
            (None, true) => {}
            // The directory was given, what is in it was not.
            (None, false) => {
                let entries = std::fs::read_dir(&self.path).map_err(Failure::new)?;
                for entry in entries.flatten() {
                    let path = entry.path();
                    let removed = if path.is_dir() {
                        std::fs::remove_dir_all(&path)
                    } else {
                        std::fs::remove_file(&path)
                    };
                    removed
                        .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
                }
            }
        }
        Ok(place)
    }
}

/// A time with a unit, or in seconds.
fn time(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.char_indices().last() {
        Some((at, 's')) => (&text[..at], 1.0),
        Some((at, 'm')) => (&text[..at], 60.0),
        Some((at, 'h')) => (&text[..at], 3600.0),
        _ => (text, 1.0),
    };
    let seconds = number.parse().ok().map(|number: f64| number * unit);
    match seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
        Some(time) if !time.is_zero() => Ok(time),
        _ => Err("give a time above zero, as 90s, 5m or 1h".to_owned()),
    }
}

fn nodes(text: &str) -> Result<usize, String> {
    match text {
        "3" => Ok(3),
        "5" => Ok(5),
        _ => Err("give 3 or 5: a cluster that a minority can be taken from".to_owned()),
    }
}

fn clients(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=CLIENTS_MAX) => Ok(count),
        _ => Err(format!("give a number from 1 to {CLIENTS_MAX}")),
    }
}

fn snapshot_count(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(count) if count >= SNAPSHOT_COUNT_MIN => Ok(count),
        _ => Err(format!("give a number from {SNAPSHOT_COUNT_MIN} on")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_or_is_in_seconds() {
        let table = [("90s", 90.0), ("5m", 300.0), ("0.5h", 1800.0), ("7", 7.0)];
        for (text, seconds) in table {
            assert_eq!(time(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["0s", "-1s", "s", "", "soon", "1d", "5m3s"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
