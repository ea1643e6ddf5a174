//! A child process: started with its log, stopped politely, then not so.
//!
//! The child's standard input is a pipe that nobody writes to. It ends when the supervisor does,
//! however that happens, and so the child learns of it.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::{Child, ChildStdin, Command};

/// What [`describe`] says of a process that ended well.
pub(crate) const CLEAN_EXIT: &str = "ended";

/// A program and how it is started.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) executable: PathBuf,
    pub(crate) args: Vec<String>,
    /// Further arguments that only make sense under a supervisor.
    pub(crate) supervised_args: Vec<String>,
    /// Where its output goes, behind what is there.
    pub(crate) log: PathBuf,
}

/// A running program. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// Never written to; see above.
    _stdin: Option<ChildStdin>,
}

impl Program {
    /// Starts it.
    pub(crate) fn spawn(&self) -> Result<Process, String> {
        let log = open_log(&self.log)
            .map_err(|error| format!("cannot write {}: {error}", self.log.display()))?;
        let mut command = Command::new(&self.executable);
        command
            .args(self.args.iter().chain(&self.supervised_args))
            .stdin(Stdio::piped())
            .stdout(log.0)
            .stderr(log.1)
            .kill_on_drop(true);
        // Its flags say everything; what the user has in the environment is for the supervisor.
        for (name, _) in std::env::vars_os() {
            let name_text = name.to_string_lossy();
            if ["KONTIKI_", "ETCD_"].iter().any(|prefix| name_text.starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        // Ctrl-C goes to the group of the terminal; children are stopped in good order instead.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", self.executable.display()))?;
        // Left inside, it would be closed as soon as somebody waits.
        let _stdin = child.stdin.take();
        Ok(Process { child, _stdin })
    }

    /// What to type to start it by hand.
    pub(crate) fn command_line(&self) -> String {
        let mut line = quote(&self.executable.display().to_string());
        for arg in &self.args {
            // Writing to a String cannot fail.
            let _ = write!(line, " {}", quote(arg));
        }
        line
    }
}

impl Process {
    /// Its number, as long as it runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns when it has ended.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// `kill -9`.
    pub(crate) async fn kill(&mut self) {
        // It fails only when the process has just ended.
        let _ = self.child.kill().await;
    }

    /// Sends it a signal.
    #[cfg(unix)]
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        send(&self.child, signal);
    }

    /// Asks it to end, and after `patience` does not ask any more.
    pub(crate) async fn stop(&mut self, patience: Duration) -> String {
        terminate(&self.child);
        match tokio::time::timeout(patience, self.child.wait()).await {
            Ok(Ok(status)) => describe(status),
            Ok(Err(error)) => format!("cannot be waited for: {error}"),
            Err(_) => {
                // It fails only when the process has just ended.
                let _ = self.child.kill().await;
                format!("did not end within {:.0} s and was killed", patience.as_secs_f64())
            }
        }
    }
}

/// Asks `child` to end.
#[cfg(unix)]
fn terminate(child: &Child) {
    send(child, rustix::process::Signal::TERM);
}

/// Sends a signal. While `child` is not waited for, its number cannot belong to another.
#[cfg(unix)]
fn send(child: &Child, signal: rustix::process::Signal) {
    use rustix::process::{Pid, kill_process};
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // It fails only when the process has just ended.
        let _ = kill_process(pid, signal);
    }
}

/// There is no signal to ask with: it is killed when its time is over.
#[cfg(not(unix))]
fn terminate(_child: &Child) {}

/// How a process ended, for people.
pub(crate) fn describe(status: ExitStatus) -> String {
    if let Some(signal) = signal(status) {
        return format!("killed by signal {signal}");
    }
    match status.code() {
        Some(0) => CLEAN_EXIT.to_owned(),
        Some(code) => format!("ended with exit code {code}"),
        None => "ended".to_owned(),
    }
}

/// The signal that ended the process, if one did.
pub(crate) fn signal(status: ExitStatus) -> Option<i32> {
    #[cfg(unix)]
    return std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    return None;
}

/// The last `count` lines of a log, each indented; for messages, so that a failure to read it is
/// told in their place.
pub(crate) fn last_lines(path: &Path, count: usize) -> String {
    const TAIL_BYTES: u64 = 16 << 10;
    let read = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail)?;
        Ok(String::from_utf8_lossy(&tail).into_owned())
    };
    match read() {
        Ok(tail) => {
            let lines: Vec<&str> = tail.lines().collect();
            let last = &lines[lines.len().saturating_sub(count)..];
            last.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
        }
        Err(error) => format!("  (cannot be read: {error})"),
    }
}

fn open_log(path: &Path) -> io::Result<(File, File)> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    Ok((file.try_clone()?, file))
}

/// As a shell wants it.
fn quote(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str, dir: &Path) -> Process {
        let program = Program {
            executable: "/bin/sh".into(),
            args: vec!["-c".to_owned(), script.to_owned()],
            supervised_args: Vec::new(),
            log: dir.join("log"),
        };
        program.spawn().expect("there is a shell")
    }

    #[tokio::test]
    async fn a_process_is_asked_first_and_killed_when_it_does_not_listen() {
        let dir = tempfile::tempdir().expect("a directory");
        let script = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done";
        let mut polite = shell(script, dir.path());
        while !last_lines(&dir.path().join("log"), 1).contains("up") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(polite.stop(Duration::from_secs(10)).await, CLEAN_EXIT);
        assert_eq!(last_lines(&dir.path().join("log"), 2), "  up\n  bye");

        let mut deaf = shell("trap '' TERM; echo deaf; exec sleep 100", dir.path());
        while !last_lines(&dir.path().join("log"), 1).contains("deaf") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let how = deaf.stop(Duration::from_millis(50)).await;
        assert!(how.ends_with("was killed"), "{how}");
        assert_eq!(deaf.pid(), None);
    }

    #[tokio::test]
    async fn the_end_of_a_process_is_told() {
        let dir = tempfile::tempdir().expect("a directory");
        for (script, how) in [
            ("exit 0", CLEAN_EXIT),
            ("exit 3", "ended with exit code 3"),
            ("kill -9 $$", "killed by signal 9"),
        ] {
            let status = shell(script, dir.path()).wait().await.expect("waited");
            assert_eq!(describe(status), how);
        }
    }

    #[test]
    fn words_are_quoted_for_the_shell() {
        assert_eq!(quote("--name=node1"), "--name=node1");
        assert_eq!(quote("it's here"), r"'it'\''s here'");
        assert_eq!(quote(""), "''");
    }
}
