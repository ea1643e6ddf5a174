//! `check`: the rules of the protocol over traces (see [`raft_testkit::trace`]).

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use raft_testkit::trace::{Checker, Line, merge};

/// Checks traces of `kontiki serve --trace` or of a simulation. Exit codes: 0 all rules hold, 1 one
/// is broken, 2 a trace cannot be read.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The traces of one group, a file for each node or one for all.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

const UNREADABLE: u8 = 2;

/// A check of nothing would hold always.
pub(super) const NOTHING: &str =
    "there is no record in these files; `kontiki serve --trace FILE` writes some";

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let name = |line: Line| arguments.files[line.file].display();
    let files = match open(&arguments.files) {
        Ok(files) => files,
        Err(reason) => {
            eprintln!("{reason}");
            return ExitCode::from(UNREADABLE);
        }
    };
    let (mut checker, mut records) = (Checker::new(), merge(files));
    let mut is_empty = true;
    for record in records.by_ref() {
        is_empty = false;
        let (line, record) = match record {
            Ok(record) => record,
            Err(error) => {
                let line = error.line;
                eprintln!("{}:{}: {}", name(line), line.number, error.reason);
                return ExitCode::from(UNREADABLE);
            }
        };
        if let Err(violation) = checker.observe(line, &record) {
            let text = serde_json::to_string(&violation.record).unwrap_or_default();
            let (at, figures) = (name(line), checker.figures());
            say(&format!("{at}:{}: {violation}\n{text}\n\nup to there:\n{figures}", line.number));
            return ExitCode::FAILURE;
        }
    }
    if is_empty {
        eprintln!("{NOTHING}");
        return ExitCode::from(UNREADABLE);
    }
    let cut_off = match records.cut_off() {
        0 => String::new(),
        lines => format!("{lines} unfinished lines were left out: processes were killed\n"),
    };
    say(&format!("{}\n{cut_off}all rules hold", checker.figures()));
    ExitCode::SUCCESS
}

/// Whoever reads no further must not change the verdict.
fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

pub(super) fn open(paths: &[PathBuf]) -> Result<Vec<BufReader<File>>, String> {
    let open = |path: &PathBuf| match File::open(path) {
        Ok(file) => Ok(BufReader::new(file)),
        Err(error) => Err(format!("cannot read {}: {error}", path.display())),
    };
    paths.iter().map(open).collect()
}
