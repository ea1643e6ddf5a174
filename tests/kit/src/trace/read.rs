//! Reads traces, several at once in the order of their times.
//!
//! A process that is killed leaves its last line unfinished. Such a line is left out, and counted,
//! where nothing follows it but the start of the next run.

use std::fmt;
use std::io::{self, BufRead};

use super::{Record, VERSION, What};

/// Where a record stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// Which of the files, from zero.
    pub file: usize,
    /// Which line, from one.
    pub number: usize,
}

/// A trace that cannot be read.
#[derive(Debug)]
pub struct Unreadable {
    /// Where.
    pub line: Line,
    /// Why.
    pub reason: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of file {}: {}", self.line.number, self.line.file + 1, self.reason)
    }
}

impl std::error::Error for Unreadable {}

/// The records of several traces, by time; those of one file stay in their order.
pub fn merge<R: BufRead>(files: impl IntoIterator<Item = R>) -> Merged<R> {
    let source = |(file, lines)| Source { lines, line: Line { file, number: 0 }, next: None };
    Merged { sources: files.into_iter().enumerate().map(source).collect(), cut_off: 0 }
}

/// See [`merge`].
#[derive(Debug)]
pub struct Merged<R> {
    sources: Vec<Source<R>>,
    cut_off: usize,
}

#[derive(Debug)]
struct Source<R> {
    lines: R,
    /// The line that was read last.
    line: Line,
    next: Option<(Line, Record)>,
}

impl<R> Merged<R> {
    /// How many unfinished lines were left out.
    pub fn cut_off(&self) -> usize {
        self.cut_off
    }
}

impl<R: BufRead> Iterator for Merged<R> {
    type Item = Result<(Line, Record), Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        for source in &mut self.sources {
            if source.next.is_none() {
                match source.read(&mut self.cut_off) {
                    Ok(next) => source.next = next,
                    Err(error) => return Some(Err(error)),
                }
            }
        }
        let first = self.sources.iter_mut().filter(|source| source.next.is_some());
        let at = |source: &Source<R>| source.next.as_ref().map(|(_, record)| record.at);
        first.min_by_key(|source| at(source)).and_then(|source| source.next.take()).map(Ok)
    }
}

impl<R: BufRead> Source<R> {
    fn read(&mut self, cut_off: &mut usize) -> Result<Option<(Line, Record)>, Unreadable> {
        let mut unfinished: Option<String> = None;
        loop {
            let mut text = String::new();
            self.line.number += 1;
            let length = self.lines.read_line(&mut text).map_err(|error| self.error(&error))?;
            if length == 0 {
                *cut_off += usize::from(unfinished.is_some());
                return Ok(None);
            }
            if text.trim().is_empty() {
                continue;
            }
            let record: Record = match serde_json::from_str(&text) {
                Ok(record) => record,
                Err(error) if unfinished.is_none() => {
                    unfinished = Some(error.to_string());
                    continue;
                }
                Err(error) => return Err(self.error(&error)),
            };
            match (&record.what, unfinished) {
                (What::Start(start), _) if start.version != VERSION => {
                    let reason = format!("this is version {}, not {VERSION}", start.version);
                    return Err(self.error(&reason));
                }
                (What::Start(_), Some(_)) => *cut_off += 1,
                (_, Some(reason)) => {
                    let number = self.line.number - 1;
                    return Err(Unreadable { line: Line { number, ..self.line }, reason });
                }
                (_, None) => {}
            }
            return Ok(Some((self.line, record)));
        }
    }

    fn error(&self, reason: &impl ToString) -> Unreadable {
        Unreadable { line: self.line, reason: reason.to_string() }
    }
}

impl From<Unreadable> for io::Error {
    fn from(error: Unreadable) -> Self {
        Self::new(io::ErrorKind::InvalidData, error.to_string())
    }
}
