//! What was said as to etcd, said as to us: flags with one dash or two, values behind `=` or a
//! space, truth as Go writes it, and the variables `ETCD_…`.
//!
//! ```text
//!   -name x --pre-vote --max-wals=3      ETCD_DATA_DIR=d
//!       │        │          │                 │
//!       ▼        ▼          ▼                 ▼
//!   --name=x   (fine)   a note: it has    --data-dir=d, where neither a flag
//!                       no meaning here   nor KONTIKI_DATA_DIR says otherwise
//! ```
//! What nobody knows is left as it is, for clap to refuse it.

use std::any::TypeId;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, Command};

use super::Period;
use super::foreign::{FOREIGN, Foreign, Kind};

const TRUE: [&str; 6] = ["1", "t", "T", "true", "TRUE", "True"];
const FALSE: [&str; 6] = ["0", "f", "F", "false", "FALSE", "False"];
/// How the names of etcd's variables begin.
pub const ETCD_PREFIX: &str = "ETCD_";

/// The same in our words.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Translated {
    /// Arguments for clap.
    pub args: Vec<OsString>,
    /// What has no meaning here, a line each.
    pub notes: Vec<String>,
}

/// A value that etcd would refuse too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FlagError(String);

/// Translates the arguments behind `kontiki serve`, and what variables say.
///
/// # Errors
/// A flag that means nothing here, with a value that etcd would refuse.
pub fn translate(
    command: &Command,
    given: impl IntoIterator<Item = OsString>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Translated, FlagError> {
    let mut translation = Translation::new(command);
    let mut given = given.into_iter().peekable();
    while let Some(token) = given.next() {
        let Some((name, inline)) = flag(&token) else {
            translation.done.args.push(token);
            continue;
        };
        let value = match translation.needs_value(&name) {
            Some(true) if inline.is_none() => given.next(),
            Some(_) => inline,
            None => {
                // Two dashes let clap find a flag that is alike.
                let is_long = name.len() > 1 && !token.to_string_lossy().starts_with("--");
                let mut word = OsString::from(if is_long { "-" } else { "" });
                word.push(&token);
                translation.done.args.push(word);
                continue;
            }
        };
        translation.say(&name, value, &format!("--{name}"))?;
    }
    translation.variables(variable)?;
    Ok(translation.done)
}

/// Translates what a file of etcd's says: names and values. A name that nobody knows is noted, as
/// etcd passes over it.
pub(super) fn translate_pairs(
    command: &Command,
    pairs: impl IntoIterator<Item = (String, String)>,
) -> Result<Translated, FlagError> {
    let mut translation = Translation::new(command);
    for (name, value) in pairs {
        match translation.needs_value(&name) {
            Some(_) => {
                // There, a number for a time counts nanoseconds.
                let counts = translation.is_time(&name) && value.parse::<u64>().is_ok();
                let value = if counts { format!("{value}ns") } else { value };
                translation.say(&name, Some(value.into()), &name)?;
            }
            None => translation.done.notes.push(format!("{name} names no setting")),
        }
    }
    Ok(translation.done)
}

/// The name of a flag, and the value in the same word.
fn flag(token: &OsStr) -> Option<(String, Option<OsString>)> {
    let text = token.to_str()?;
    let body = text.strip_prefix("--").or_else(|| text.strip_prefix('-'))?;
    let (name, value) = match body.split_once('=') {
        Some((name, value)) => (name, Some(value.into())),
        None => (body, None),
    };
    (!name.is_empty()).then(|| (name.to_owned(), value))
}

struct Translation<'a> {
    command: &'a Command,
    said: BTreeSet<String>,
    done: Translated,
}

impl<'a> Translation<'a> {
    fn new(command: &'a Command) -> Self {
        Self { command, said: BTreeSet::new(), done: Translated::default() }
    }

    fn own(&self, name: &str) -> Option<&'a Arg> {
        self.command.get_arguments().find(|arg| arg.get_long() == Some(name))
    }

    /// Whether a value must follow a flag; `None` for one that nobody knows.
    fn needs_value(&self, name: &str) -> Option<bool> {
        match (self.own(name), Foreign::named(name)) {
            (Some(arg), _) => Some(!is_switch(arg)),
            (None, Some(foreign)) => Some(!matches!(foreign.kind, Kind::Bool | Kind::Anything)),
            (None, None) => None,
        }
    }

    fn is_time(&self, name: &str) -> bool {
        let own = self.own(name).map(|arg| is_of::<Period>(arg.get_value_parser()));
        own.unwrap_or_else(|| Foreign::named(name).is_some_and(|it| it.kind == Kind::Time))
    }

    /// Takes a flag that somebody knows; `source` is how it was given.
    fn say(&mut self, name: &str, value: Option<OsString>, source: &str) -> Result<(), FlagError> {
        let is_first = self.said.insert(name.to_owned());
        if let Some(arg) = self.own(name) {
            self.done.args.extend(in_our_words(arg, name, value));
            return Ok(());
        }
        let Some(foreign) = Foreign::named(name) else { return Ok(()) };
        let value = value.map(|value| value.to_string_lossy().into_owned());
        let value = check(foreign.kind, value).map_err(|expected| {
            FlagError(format!("{source} has a value that etcd would refuse too: {expected}"))
        })?;
        if is_first && value != foreign.fine {
            let reason = foreign.reason;
            self.done.notes.push(format!("{source} has no meaning here: {reason}"));
        }
        Ok(())
    }

    /// As for etcd, flags win over its variables, and an empty one says nothing.
    fn variables(&mut self, variable: impl Fn(&str) -> Option<OsString>) -> Result<(), FlagError> {
        let own = self.command.get_arguments().filter_map(|arg| Some((arg.get_long()?, Some(arg))));
        let foreign = FOREIGN.iter().map(|foreign| (foreign.name, None));
        for (name, arg) in own.chain(foreign) {
            let is_ours = arg.and_then(Arg::get_env).and_then(OsStr::to_str).and_then(&variable);
            if self.said.contains(name) || is_ours.is_some() {
                continue;
            }
            let source = etcd_variable(name);
            if let Some(value) = variable(&source).filter(|value| !value.is_empty()) {
                self.say(name, Some(value), &source)?;
            }
        }
        Ok(())
    }
}

/// The variable by which etcd is given a flag.
pub fn etcd_variable(name: &str) -> String {
    format!("{ETCD_PREFIX}{}", name.to_uppercase().replace('-', "_"))
}

/// Whether `variable` stands for a flag that means nothing here; those are told of anyway.
pub fn is_foreign_variable(variable: &str) -> bool {
    FOREIGN.iter().any(|foreign| etcd_variable(foreign.name) == variable)
}

/// Whether a flag of etcd's means nothing here.
pub fn is_foreign(name: &str) -> bool {
    Foreign::named(name).is_some()
}

/// Whether a flag needs no value.
fn is_switch(arg: &Arg) -> bool {
    let takes_none = !matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    takes_none || is_of::<bool>(arg.get_value_parser())
}

fn is_of<T: 'static>(parser: &ValueParser) -> bool {
    parser.type_id() == TypeId::of::<T>()
}

fn in_our_words(arg: &Arg, name: &str, value: Option<OsString>) -> Option<OsString> {
    let mut word = OsString::from(format!("--{name}"));
    let truth = value.as_deref().map_or(Some(true), |value| value.to_str().and_then(truth));
    match (is_switch(arg), is_of::<bool>(arg.get_value_parser())) {
        (true, _) if !matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) => {
            return (truth != Some(false)).then_some(word);
        }
        (true, true) if truth.is_some() => {
            word.push(if truth == Some(true) { "=true" } else { "=false" });
        }
        _ => {
            if let Some(value) = value {
                word.push("=");
                word.push(value);
            }
        }
    }
    Some(word)
}

fn truth(text: &str) -> Option<bool> {
    match text {
        text if TRUE.contains(&text) => Some(true),
        text if FALSE.contains(&text) => Some(false),
        _ => None,
    }
}

/// The value, or what it should be.
fn check(kind: Kind, value: Option<String>) -> Result<String, String> {
    let is_switch = matches!(kind, Kind::Bool | Kind::Anything);
    let Some(value) = value.or_else(|| is_switch.then(|| "true".to_owned())) else {
        return Err("it needs one".to_owned());
    };
    let fits = match kind {
        Kind::Text | Kind::Anything => return Ok(value),
        Kind::Bool => {
            let truth = truth(&value).ok_or("true or false")?;
            return Ok(truth.to_string());
        }
        Kind::Unsigned if value.parse::<u64>().is_err() => Err("a number"),
        Kind::Signed if value.parse::<i64>().is_err() => Err("a number"),
        Kind::Time if value.parse::<Period>().is_err() => Err("a time, such as 10s"),
        Kind::OneOf(names) if !names.contains(&value.as_str()) => {
            return Err(format!("it is one of {}", names.join(", ")));
        }
        Kind::Unsigned | Kind::Signed | Kind::Time | Kind::OneOf(_) => Ok(()),
    };
    fits.map(|()| value).map_err(|expected| format!("it is {expected}"))
}

#[cfg(test)]
mod tests;
