//! Disks that are full. Two ways, neither of which takes more than the rights of a user:
//!
//! | | how | what the node meets |
//! |---|---|---|
//! | [`SmallDisk`] | a tmpfs in a mount namespace of its own, filled up with a file | ENOSPC |
//! | [`forbid_writes`] | RLIMIT_FSIZE of the process set to zero | EFBIG, on its real disk |
//!
//! The first needs namespaces, which some machines do not give to users; the second, Linux.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

/// Room for the log's segments and the store.
const SIZE: &str = "400m";
/// How long the tools may take.
const MOUNT_MAX: Duration = Duration::from_secs(10);
/// Mounts, says so, and then only holds the namespace, until nobody holds its input any more.
const HOLD: &str =
    r#"mount -t tmpfs -o size="$1" none "$0" || exit 1; echo mounted; exec cat >/dev/null"#;

/// A disk in memory, in a namespace that lives as long as this.
pub(crate) struct SmallDisk {
    at: PathBuf,
    holder: Child,
    process: u32,
    has_user_namespace: bool,
}

impl SmallDisk {
    /// Mounts it at this directory, which is made; or says why that cannot be.
    pub(crate) async fn mount(at: &Path) -> Result<Self, String> {
        std::fs::create_dir_all(at).map_err(|error| error.to_string())?;
        // Who may, does it without a namespace of users.
        let mut reason = String::new();
        for has_user_namespace in [false, true] {
            match Self::try_mount(at, has_user_namespace).await {
                Ok(disk) => return Ok(disk),
                Err(error) => reason = error,
            }
        }
        Err(reason)
    }

    async fn try_mount(at: &Path, has_user_namespace: bool) -> Result<Self, String> {
        let mut command = Command::new("unshare");
        command.arg("--mount");
        if has_user_namespace {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--", "sh", "-c", HOLD]).arg(at).arg(SIZE);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(unix)]
        command.process_group(0); // Ctrl-C is not for it.
        let holder = command.kill_on_drop(true).spawn();
        let mut holder = holder.map_err(|error| format!("unshare cannot be run: {error}"))?;
        let (stdout, stderr) = (holder.stdout.take(), holder.stderr.take());
        let mut said = String::new();
        let mounted = async {
            BufReader::new(stdout?).read_line(&mut said).await.ok()?;
            said.starts_with("mounted").then_some(holder.id()?)
        };
        let mounted = tokio::time::timeout(MOUNT_MAX, mounted).await;
        if let Ok(Some(process)) = mounted {
            return Ok(Self { at: at.to_owned(), holder, process, has_user_namespace });
        }
        // It ends, and says why; if not, it is killed.
        let mut said = String::new();
        if let Some(mut stderr) = stderr {
            let _ = tokio::time::timeout(MOUNT_MAX, stderr.read_to_string(&mut said)).await;
        }
        Err(format!("no disk of its own: {}", said.trim().replace('\n', "; ")))
    }

    /// What a program that is to see the disk is started with.
    pub(crate) fn enter(&self) -> Vec<String> {
        let mut args = vec![format!("--target={}", self.process), "--mount".to_owned()];
        if self.has_user_namespace {
            args.extend(["--user".to_owned(), "--preserve-credentials".to_owned()]);
        }
        args.push("--".to_owned());
        args
    }

    /// Where the path that its programs see is seen from outside.
    pub(crate) fn outside(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.process));
        root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Takes all the space that there is.
    pub(crate) fn fill(&self) -> std::io::Result<()> {
        let mut ballast = File::create(self.ballast())?;
        let block = vec![1; 64 << 10];
        while ballast.write_all(&block).is_ok() {}
        Ok(())
    }

    /// Gives it back.
    pub(crate) fn free(&self) -> std::io::Result<()> {
        std::fs::remove_file(self.ballast())
    }

    /// Ends it, and with it all that it holds.
    pub(crate) async fn unmount(mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.kill().await;
    }

    fn ballast(&self) -> PathBuf {
        self.outside(&self.at).join("ballast")
    }
}

/// From now on every write of this process to a file fails, as on a full disk. The process must
/// ignore the signal that comes with it.
#[cfg(target_os = "linux")]
pub(crate) fn forbid_writes(process: u32) -> Result<(), String> {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
    // Without a number it would be this process.
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw).ok_or("it has ended")?;
    // What it may be at most is what this process has, and stays so.
    let limit = Rlimit { current: Some(0), ..getrlimit(Resource::Fsize) };
    let before = prlimit(Some(pid), Resource::Fsize, limit);
    before.map(|_| ()).map_err(|error| format!("its files cannot be limited: {error}"))
}

/// There is no way.
#[cfg(not(target_os = "linux"))]
pub(crate) fn forbid_writes(_process: u32) -> Result<(), String> {
    Err("only Linux limits the files of a process that runs".to_owned())
}
