//! How a command fails: one message on standard error, and an exit code.

use std::fmt::{self, Display};
use std::io::Write;
use std::process::ExitCode;

/// Why a command failed, ready to be shown.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// It was tried, and failed.
    pub(crate) fn new(message: impl Display) -> Self {
        Self { message: message.to_string(), code: 1 }
    }

    /// It was asked wrongly; nothing was tried.
    pub(crate) fn usage(message: impl Display) -> Self {
        Self { message: message.to_string(), code: 2 }
    }

    /// The same with an exit code of the command's own.
    pub(crate) fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    /// Shows the message.
    pub(crate) fn report(self) -> ExitCode {
        complain(&self.message);
        ExitCode::from(self.code)
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Says on standard error what is wrong. Where that cannot be written, the exit code has to do.
pub(crate) fn complain(message: impl Display) {
    let _ = writeln!(std::io::stderr(), "error: {message}");
}

/// Every refusal of the library says what to do; it is shown as it is.
impl From<kontiki_client::ClientError> for Failure {
    fn from(error: kontiki_client::ClientError) -> Self {
        Self::new(error)
    }
}

/// A configuration that is refused was asked wrongly.
impl From<kontiki_kv::config::ConfigError> for Failure {
    fn from(error: kontiki_kv::config::ConfigError) -> Self {
        Self::usage(error)
    }
}
