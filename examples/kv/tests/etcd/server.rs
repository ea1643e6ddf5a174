//! The two servers: one process each, with a fresh directory and ports of its own. Dropped, it
//! is killed by its id, and its directory is gone.

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tonic::transport::{Channel, Endpoint};

/// How long a server may take until it serves, and how often it is looked at.
const READY_MAX: Duration = Duration::from_secs(60);
const PERIOD: Duration = Duration::from_millis(50);
/// Another process may take a port between our choice and the server's start.
const ATTEMPTS: usize = 3;

/// Where a server keeps its data and listens.
pub struct Place {
    pub data: PathBuf,
    pub client: String,
    pub peer: String,
}

impl Place {
    fn new(directory: &Path) -> Self {
        // Both are held until both are chosen, so that they differ.
        let held = [(), ()].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
        let [client, peer] = held.map(|held| held.local_addr().expect("it is bound").to_string());
        Self { data: directory.join("data"), client, peer }
    }

    /// The flags that both servers know by the same names.
    fn flags(&self) -> Vec<OsString> {
        let (client, peer) = (format!("http://{}", self.client), format!("http://{}", self.peer));
        let mut flags = vec!["--data-dir".into(), self.data.clone().into()];
        for (flag, value) in [
            ("--name", "node".to_owned()),
            ("--listen-client-urls", client.clone()),
            ("--advertise-client-urls", client),
            ("--listen-peer-urls", peer.clone()),
            ("--initial-advertise-peer-urls", peer.clone()),
            ("--initial-cluster", format!("node={peer}")),
            ("--experimental-watch-progress-notify-interval", "1s".to_owned()),
            ("--log-level", "error".to_owned()),
        ] {
            flags.extend([flag.into(), value.into()]);
        }
        flags
    }
}

/// An etcd that can be started.
pub struct Etcd {
    path: PathBuf,
    /// As in `3.5.1`.
    pub version: String,
}

impl Etcd {
    /// The etcd to compare with, or why there is none. One that is there must run.
    pub fn find() -> Result<Self, &'static str> {
        let named = std::env::var_os("KONTIKI_ETCD").map(PathBuf::from);
        let path = named.or_else(|| on_path("etcd")).ok_or(
            "there is no etcd on the path (Debian has it as etcd-server), and KONTIKI_ETCD names \
             none",
        )?;
        let output = Command::new(&path).arg("--version").output();
        let output = output.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.lines().find_map(|line| line.strip_prefix("etcd Version: "));
        let version = version.unwrap_or_else(|| panic!("{}: no etcd", path.display())).to_owned();
        Ok(Self { path, version })
    }

    /// The etcdctl to use, or why there is none.
    pub fn etcdctl(&self) -> Result<PathBuf, &'static str> {
        if let Some(path) = std::env::var_os("KONTIKI_ETCDCTL") {
            return Ok(path.into());
        }
        let beside = self.path.with_file_name("etcdctl");
        let found = if beside.is_file() { Some(beside) } else { on_path("etcdctl") };
        found.ok_or(
            "there is no etcdctl on the path (Debian has it as etcd-client), and KONTIKI_ETCDCTL \
             names none",
        )
    }

    pub fn command(&self, place: &Place) -> Command {
        let mut command = Command::new(&self.path);
        command.args(place.flags()).args(["--logger", "zap"]);
        command
    }
}

/// Our own server at `place`.
pub fn kontiki(place: &Place) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kontiki"));
    command.arg("serve").args(place.flags());
    command
}

fn on_path(program: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|path| path.join(program)).find(|path| path.is_file())
}

/// A server that runs.
pub struct Server {
    pub name: &'static str,
    pub place: Place,
    pub channel: Channel,
    command: Command,
    process: Process,
    log: PathBuf,
    _directory: tempfile::TempDir,
}

impl Server {
    /// Starts what `command` makes for a place, and waits until it serves.
    pub async fn start(name: &'static str, command: impl Fn(&Place) -> Command) -> Self {
        let mut logs = Vec::new();
        for _ in 0..ATTEMPTS {
            let directory = tempfile::tempdir().expect("a directory");
            let place = Place::new(directory.path());
            let log = directory.path().join("log");
            let mut command = without_settings(command(&place), directory.path());
            let mut process = Process::spawn(&mut command, &log);
            match connect(&place.client, &mut process).await {
                Some(channel) => {
                    let _directory = directory;
                    return Self { name, place, channel, command, process, log, _directory };
                }
                None => logs.push(std::fs::read_to_string(&log).unwrap_or_default()),
            }
        }
        panic!("{name} does not start:\n{}", logs.join("\n"));
    }

    /// Kills the server as a crash would, starts it again and waits until it serves.
    pub async fn restart(&mut self) {
        self.process.kill();
        self.process = Process::spawn(&mut self.command, &self.log);
        let channel = connect(&self.place.client, &mut self.process).await;
        self.channel = channel.unwrap_or_else(|| panic!("it starts again:\n{}", self.log()));
    }

    /// Panics with the server's log when it has ended.
    pub fn assert_alive(&mut self) {
        if let Some(status) = self.process.0.try_wait().expect("it is our child") {
            panic!("{} ended by itself, {status}:\n{}", self.name, self.log());
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// A process that does not outlive its owner.
struct Process(Child);

impl Process {
    fn spawn(command: &mut Command, log: &Path) -> Self {
        let file = std::fs::File::options().append(true).create(true).open(log).expect("a log");
        let copy = file.try_clone().expect("a second handle");
        Self(command.stdout(file).stderr(copy).spawn().expect("the server starts"))
    }

    fn kill(&mut self) {
        // It may have ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Settings of ours and of etcd in the environment must not change the comparison.
fn without_settings(mut command: Command, directory: &Path) -> Command {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("KONTIKI_") || text.starts_with("ETCD_") {
            command.env_remove(name);
        }
    }
    command.current_dir(directory).stdin(Stdio::null());
    command
}

/// Waits until the server answers a linearizable read; `None` when it ends before.
async fn connect(client: &str, process: &mut Process) -> Option<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{client}")).expect("an address");
    let began = Instant::now();
    while began.elapsed() < READY_MAX {
        if process.0.try_wait().expect("it is our child").is_some() {
            return None;
        }
        if let Ok(channel) = endpoint.connect().await
            && crate::call::is_ready(&channel).await
        {
            return Some(channel);
        }
        tokio::time::sleep(PERIOD).await;
    }
    panic!("{client} does not serve within {READY_MAX:?}");
}
