//! Child processes that do not outlive the coordinator, however it ends: they end when their
//! standard input does, and where the system can it kills them, stopped ones included.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::signal::unix::{SignalKind, signal};

use super::Failure;

/// A program of ours that runs. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// Ends with this value, and the program with it.
    pub(crate) stdin: Option<ChildStdin>,
    log: PathBuf,
}

impl Process {
    /// Starts this program with other arguments; what it complains of goes to `log`.
    pub(crate) fn spawn(args: &[String], log: &Path) -> Result<Self, Failure> {
        let failure = |error| Failure(format!("cannot start a process: {error}"));
        let executable = std::env::current_exe().map_err(failure)?;
        let stderr = File::options().create(true).append(true).open(log).map_err(failure)?;
        let mut command = Command::new(executable);
        command
            .args(args)
            .arg("--supervised")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .kill_on_drop(true)
            // Ctrl-C goes to the group of the terminal; children end with their coordinator.
            .process_group(0);
        // Their flags say everything.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("KONTIKI_") || text.starts_with("ETCD_") {
                command.env_remove(name);
            }
        }
        let mut child = command.spawn().map_err(failure)?;
        // Left inside, it would be closed as soon as somebody waits.
        let stdin = child.stdin.take();
        Ok(Self { child, stdin, log: log.to_owned() })
    }

    pub(crate) fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Sends a signal. While nobody has waited for it, its number cannot belong to another.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It fails only when the process has just ended.
            let _ = kill_process(pid, signal);
        }
    }

    /// `kill -9`.
    pub(crate) async fn kill(&mut self) {
        // It fails only when the process has just ended.
        let _ = self.child.kill().await;
    }

    /// Asks it to end, and kills it when it does not within `patience`.
    pub(crate) async fn stop(&mut self, patience: Duration) {
        self.signal(Signal::TERM);
        if tokio::time::timeout(patience, self.child.wait()).await.is_err() {
            self.kill().await;
        }
    }

    /// What it said at the end, if it has ended by itself.
    pub(crate) fn last_words(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let last: Vec<&str> = text.lines().rev().take(3).collect();
        let last = last.into_iter().rev().collect::<Vec<_>>().join("\n  ");
        Some(format!("{} ended: {status}\n  {last}", self.log.display()))
    }
}

/// What all child processes are started with.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Supervised {
    /// End when standard input does: the coordinator holds the other end
    #[arg(long)]
    pub(crate) supervised: bool,
}

impl Supervised {
    /// Returns when the coordinator is gone; never without one.
    pub(crate) async fn ended(self) {
        if !self.supervised {
            return std::future::pending().await;
        }
        self.die_with_the_coordinator();
        let mut ignored = [0; 64];
        let mut stdin = tokio::io::stdin();
        while matches!(stdin.read(&mut ignored).await, Ok(1..)) {}
    }

    /// A process that is stopped does not see that its input has ended.
    pub(crate) fn die_with_the_coordinator(self) {
        #[cfg(target_os = "linux")]
        if self.supervised {
            // Without it only a stopped process would stay behind.
            let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
        }
    }
}

/// Returns when the user (Ctrl-C) or the system (SIGTERM) wants this process to end.
pub(crate) async fn stop_requested() {
    let (interrupt, terminate) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    if let (Ok(mut interrupt), Ok(mut terminate)) = (interrupt, terminate) {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    } else {
        // Without a handler the signal ends the process by itself.
        std::future::pending().await
    }
}
