//! Where log lines go: standard error and elsewhere, as text or as JSON.

use std::fs::File;
use std::io::IsTerminal;
use std::sync::Arc;

use kontiki_kv::config::{LogFormat, LogOutput, ServeConfig};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::Subscriber;
use tracing_subscriber::fmt::writer::{BoxMakeWriter, MakeWriterExt};

use super::Failure;

/// Below these levels the libraries speak of frames and polls, which a bare `debug` does not ask
/// for. Who wants them names them.
const LIBRARIES: &str = "h2=info,hyper=info,hyper_util=info,tower=info,tonic=info,fjall=info,\
                         lsm_tree=info";

/// Sends log lines where `config` says, from now on.
pub(super) fn start(config: &ServeConfig) -> Result<(), Failure> {
    let level = &config.log_level;
    // Later directives win over earlier ones of the same target only, so the order is free.
    let directives = if level.contains(['=', ',']) {
        level.clone()
    } else {
        format!("{level},{}", libraries_at_most(level))
    };
    let filter = EnvFilter::try_new(directives)
        .map_err(|error| Failure::usage(format!("log-level {level}: {error}")))?;
    let builder = Subscriber::builder()
        .with_env_filter(filter)
        .with_writer(writer(&config.log_outputs)?)
        // To complain of a line that cannot be written is to write another, and to panic.
        .log_internal_errors(false)
        .with_ansi(config.log_outputs == [LogOutput::Stderr] && std::io::stderr().is_terminal());
    let started = match config.log_format {
        LogFormat::Human => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| Failure::new(format!("cannot start logging: {error}")))
}

/// All outputs as one.
fn writer(outputs: &[LogOutput]) -> Result<BoxMakeWriter, Failure> {
    let mut all: Option<BoxMakeWriter> = None;
    for output in outputs {
        let one = match output {
            LogOutput::Stderr => BoxMakeWriter::new(std::io::stderr),
            LogOutput::Stdout => BoxMakeWriter::new(std::io::stdout),
            LogOutput::File(path) => {
                let file = File::options().create(true).append(true).open(path);
                let file = file.map_err(|error| {
                    let path = path.display();
                    Failure::new(format!("cannot log to {path}: {error}; see --log-outputs"))
                })?;
                BoxMakeWriter::new(Arc::new(file))
            }
        };
        all = Some(match all {
            None => one,
            Some(all) => BoxMakeWriter::new(all.and(one)),
        });
    }
    Ok(all.unwrap_or_else(|| BoxMakeWriter::new(std::io::stderr)))
}

/// The directives of the libraries, unless `level` is quieter than they are.
fn libraries_at_most(level: &str) -> String {
    match level.to_ascii_lowercase().as_str() {
        "debug" | "trace" => LIBRARIES.to_owned(),
        // These two tell of every file that they open.
        "info" => {
            let quiet = LIBRARIES.replace("fjall=info", "fjall=warn");
            quiet.replace("lsm_tree=info", "lsm_tree=warn")
        }
        quieter => LIBRARIES.replace("=info", &format!("={quieter}")),
    }
}
