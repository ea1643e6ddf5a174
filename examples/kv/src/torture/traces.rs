//! What the nodes write down of every step of the consensus, and the rules of the protocol over it.
//!
//! Traces grow fast. When they have taken the room that they may, nodes are started without one:
//! a hole in a trace is no fault, and nothing is concluded from it.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use raft_testkit::trace::{Checker, Figures, merge};

const BYTES_MAX: u64 = 1 << 30;
const ENDING: &str = "trace";

/// Where they are.
#[derive(Clone, Debug)]
pub(crate) struct Traces {
    pub(crate) dir: PathBuf,
}

impl Traces {
    /// Where a node that is started now writes its own, behind what is there.
    pub(crate) fn file_of(&self, name: &str) -> Option<PathBuf> {
        (!self.are_full()).then(|| self.dir.join(name).with_extension(ENDING))
    }

    /// Whether there are no more to be.
    pub(crate) fn are_full(&self) -> bool {
        let lengths = self.files().unwrap_or_default().into_iter().map(|path| length(&path));
        lengths.sum::<u64>() >= BYTES_MAX
    }

    /// What they came to, and what is wrong in them.
    pub(crate) fn check(&self) -> Result<Figures, String> {
        let paths = self.files().map_err(|error| error.to_string())?;
        let files = paths.iter().map(|path| File::open(path).map(BufReader::new));
        let files: Vec<_> = files.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        let (mut checker, at) = (Checker::new(), |file: usize| paths[file].display());
        for record in merge(files) {
            let (line, record) = record
                .map_err(|it| format!("{}:{}: {}", at(it.line.file), it.line.number, it.reason))?;
            if let Err(violation) = checker.observe(line, &record) {
                return Err(format!("{}:{}: {violation}", at(line.file), line.number));
            }
        }
        Ok(checker.figures())
    }

    fn files(&self) -> std::io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == ENDING) {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}
