//! `diagram`: a trace as a page of HTML (see [`raft_testkit::trace::diagram`]).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use raft_testkit::trace::diagram::{Drawing, page};
use raft_testkit::trace::{Checker, Line, Record, merge};

/// A larger number is no name.
const NUMBER_MAX: u64 = 9_999;

/// Draws traces: a lane for each node, messages as arrows, terms as colours. The rules are checked
/// on the way, and the first one broken is shown.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The traces of one group, a file for each node or one for all.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The page.
    #[arg(short, long, value_name = "HTML")]
    out: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    match draw(arguments) {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn draw(arguments: &Arguments) -> Result<String, String> {
    let files = super::check::open(&arguments.files)?;
    let records: Vec<(Line, Record)> = merge(files).collect::<Result<_, _>>().map_err(|error| {
        let file = arguments.files[error.line.file].display();
        format!("{file}:{}: {}", error.line.number, error.reason)
    })?;
    if records.is_empty() {
        return Err(super::check::NOTHING.to_owned());
    }
    let mut checker = Checker::new();
    let broken = records.iter().find_map(|(line, record)| checker.observe(*line, record).err());
    let names: Vec<String> = arguments.files.iter().map(|path| name(path)).collect();
    let drawing = Drawing {
        title: &names.join(", "),
        records: &records,
        broken: broken.as_ref(),
        names: nodes(&records, &names),
    };
    std::fs::write(&arguments.out, page(&drawing))
        .map_err(|error| format!("cannot write {}: {error}", arguments.out.display()))?;
    let broken = broken.map_or(String::new(), |found| format!("\n{found}"));
    Ok(format!("{} records in {}{broken}", records.len(), arguments.out.display()))
}

/// A node whose number is too long to be read is called like the file that it alone fills.
fn nodes(records: &[(Line, Record)], names: &[String]) -> BTreeMap<u64, String> {
    let mut files: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    for (line, record) in records {
        files.entry(line.file).or_default().insert(record.node);
    }
    let alone = files.into_iter().filter(|(_, nodes)| nodes.len() == 1);
    let pairs = alone.flat_map(|(file, nodes)| nodes.into_iter().map(move |node| (node, file)));
    let long = pairs.filter(|(node, _)| *node > NUMBER_MAX);
    long.map(|(node, file)| (node, names[file].clone())).collect()
}

fn name(path: &Path) -> String {
    path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}
