//! `kontiki serve`: one node, from its settings to its last breath.
//!
//! | exit code | why it ended | what to do |
//! |---|---|---|
//! | 0 | it was told to | |
//! | 1 | it cannot start, or something failed | the message says |
//! | 2 | the settings make no sense | correct them |
//! | 3 | it was removed from its cluster | delete its data directory; do not start it again |
//! | 4 | the cluster knows it with another disk | replace it |

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory};
use kontiki::StopReason;
use kontiki_kv::config::{
    ETCD_PREFIX, ServeConfig, Settings, Translated, etcd_variable, is_foreign_variable, translate,
};
use kontiki_kv::server::{self, ServeError};
use tokio::io::AsyncReadExt;

use super::failure::complain;
use super::{Failure, logging, show};

/// How long a node that lost its supervisor may take to stop.
const ORPHAN_STOP_MAX: Duration = Duration::from_secs(10);

/// Of a node that was removed, and of one that must be replaced: starting them again is no use.
const REMOVED: u8 = 3;
const REPLACE: u8 = 4;

/// So many are few; see [`serving_runtime`].
const FEW_CORES: usize = 2;

#[derive(Args)]
#[command(
    args_override_self = true,
    after_help = "Exit codes: 0 told to stop, 1 failed, 2 wrong settings, 3 removed from \
    its cluster, 4 to be replaced (its promises are on another disk)"
)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    settings: Settings,
    /// A file with the same names, TOML or etcd's YAML; flags and environment win over it
    #[arg(long, env = "KONTIKI_CONFIG_FILE", value_name = "FILE")]
    config_file: Option<PathBuf>,
    /// Show the settings that are in force, as TOML, and end
    #[arg(long)]
    print_config: bool,
    /// Stop when standard input ends: the supervisor of `kontiki cluster` holds the other end
    #[arg(long, hide = true)]
    stop_with_stdin: bool,
}

/// The arguments of the whole program, with those of `serve` in our words where they are in
/// etcd's; and what has no meaning here.
pub(super) fn translated(given: Vec<OsString>) -> Result<Translated, Failure> {
    if given.get(1).is_none_or(|command| command != "serve") {
        return Ok(Translated { args: given, notes: Vec::new() });
    }
    let command = super::Cli::command();
    let serve = command.find_subcommand("serve").expect("there is such a command");
    let mut given = given.into_iter();
    let head: Vec<OsString> = given.by_ref().take(2).collect();
    let translated = translate(serve, given, |name| std::env::var_os(name));
    let Translated { args, notes } = translated.map_err(Failure::usage)?;
    Ok(Translated { args: [head, args].concat(), notes })
}

pub(super) fn run(mut args: ServeArgs, notes: Vec<String>) -> Result<ExitCode, Failure> {
    args.settings.notes = notes;
    let settings = match &args.config_file {
        Some(path) => args.settings.over(Settings::from_file(path)?),
        None => args.settings,
    };
    let config = ServeConfig::resolve(settings)?;
    server::check_initial(&config).map_err(failure)?;
    if args.print_config {
        let text = toml::to_string(&config.to_settings())
            .map_err(|error| Failure::new(format!("cannot show the settings: {error}")))?;
        return show(text.as_bytes());
    }
    logging::start(&config)?;
    for note in &config.notes {
        tracing::warn!("{note}");
    }
    warn_of_unknown_variables();

    if args.stop_with_stdin {
        wake_with_the_supervisor();
    }
    let runtime = serving_runtime().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    let outcome = runtime.block_on(serve(config, args.stop_with_stdin));
    // A read of standard input that nobody ends must not keep the process.
    runtime.shutdown_background();
    outcome.map(|()| ExitCode::SUCCESS)
}

/// On few cores one thread serves: to hand a request to another costs more than it gives.
pub(crate) fn serving_runtime() -> tokio::runtime::Builder {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores > FEW_CORES {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    }
}

/// Runs the node until it is told to stop.
async fn serve(config: ServeConfig, stop_with_stdin: bool) -> Result<(), Failure> {
    let stop = async move {
        if stop_with_stdin {
            tokio::select! {
                () = stop_requested() => {}
                () = stdin_ended() => {}
            }
        } else {
            stop_requested().await;
        }
        tracing::info!("stopping");
    };
    server::run(config, stop).await.map_err(failure)
}

fn failure(error: ServeError) -> Failure {
    match &error {
        ServeError::Config(_) => Failure::usage(error),
        ServeError::Stopped(StopReason::Removed) => Failure::new(error).with_code(REMOVED),
        ServeError::Stopped(StopReason::Impostor(_)) => Failure::new(error).with_code(REPLACE),
        _ => Failure::new(error),
    }
}

/// Returns when the user (Ctrl-C) or the system (SIGTERM) wants this process to end.
pub(crate) async fn stop_requested() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    // Without a handler the signal ends the process by itself.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// A process that is stopped (SIGSTOP) would not see that its input has ended, and be left behind
/// for ever: the end of the supervisor wakes it.
fn wake_with_the_supervisor() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, set_parent_process_death_signal};
        // Without it only a node that was stopped by hand stays behind.
        let _ = set_parent_process_death_signal(Some(Signal::CONT));
    }
}

/// Returns when standard input ends: whoever started this process is gone. Sees to it that the
/// process ends soon, whatever the node does.
async fn stdin_ended() {
    let mut stdin = tokio::io::stdin();
    let mut ignored = [0; 64];
    while matches!(stdin.read(&mut ignored).await, Ok(1..)) {}
    tracing::warn!("the supervisor is gone");
    std::thread::spawn(|| {
        std::thread::sleep(ORPHAN_STOP_MAX);
        complain(format!("the node did not stop within {ORPHAN_STOP_MAX:?}"));
        std::process::exit(1);
    });
}

/// As etcd, warns of `KONTIKI_…` and `ETCD_…` variables that name no setting: likely a mistyped
/// one.
fn warn_of_unknown_variables() {
    let command = super::Cli::command();
    let serve = command.find_subcommand("serve");
    let theirs: Vec<String> = serve
        .into_iter()
        .flat_map(|serve| serve.get_arguments().filter_map(|arg| arg.get_long()))
        .map(etcd_variable)
        .collect();
    let known: Vec<_> = command
        .get_subcommands()
        .flat_map(|command| command.get_arguments().filter_map(|arg| arg.get_env()))
        .collect();
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let is_unknown = match () {
            () if text.starts_with("KONTIKI_") => !known.contains(&name.as_os_str()),
            () if text.starts_with(ETCD_PREFIX) => {
                !theirs.iter().any(|known| *known == text) && !is_foreign_variable(&text)
            }
            () => false,
        };
        if is_unknown {
            tracing::warn!("the environment variable {} names no setting", name.display());
        }
    }
}
