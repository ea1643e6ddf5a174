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
    /// The etcd to compare with, or why there is none.
    pub fn find() -> Result<Self, String> {
        let path = match std::env::var_os("KONTIKI_ETCD") {
            Some(path) => PathBuf::from(path),
            None => on_path("etcd").ok_or(
                "there is no etcd on the path (Debian has it as etcd-server), and KONTIKI_ETCD \
                 names none",
            )?,
        };
        let output = Command::new(&path).arg("--version").output();
        let output = output.map_err(|error| format!("{} does not run: {error}", path.display()))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.lines().find_map(|line| line.strip_prefix("etcd Version: "));
        let version = version.ok_or(format!("{} is no etcd: {text}", path.display()))?.to_owned();
        Ok(Self { path, version })
    }

    /// The etcdctl to use, or why there is none.
    pub fn etcdctl(&self) -> Result<PathBuf, String> {
        if let Some(path) = std::env::var_os("KONTIKI_ETCDCTL") {
            return Ok(path.into());
        }
        let beside = self.path.with_file_name("etcdctl");
        let found = if beside.is_file() { Some(beside) } else { on_path("etcdctl") };
        found.ok_or_else(|| {
            "there is no etcdctl on the path (Debian has it as etcd-client), and \
             KONTIKI_ETCDCTL names none"
                .to_owned()
        })
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
    child: Child,
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
            let mut child = spawn(&mut command, &log);
            match connect(&place.client, &mut child).await {
                Some(channel) => {
                    let _directory = directory;
                    return Self { name, place, channel, command, child, log, _directory };
                }
                None => logs.push(std::fs::read_to_string(&log).unwrap_or_default()),
            }
        }
        panic!("{name} does not start:\n{}", logs.join("\n"));
    }

    /// Kills the server as a crash would, starts it again and waits until it serves.
    pub async fn restart(&mut self) {
        self.kill();
        self.child = spawn(&mut self.command, &self.log);
        let channel = connect(&self.place.client, &mut self.child).await;
        self.channel = channel.unwrap_or_else(|| panic!("it starts again:\n{}", self.log()));
    }

    /// Panics with the server's log when it has ended.
    pub fn assert_alive(&mut self) {
        if let Some(status) = self.child.try_wait().expect("it is our child") {
            panic!("{} ended by itself, {status}:\n{}", self.name, self.log());
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn kill(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Server {
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

fn spawn(command: &mut Command, log: &Path) -> Child {
    let file = std::fs::File::options().append(true).create(true).open(log).expect("a log");
    let copy = file.try_clone().expect("a second handle");
    command.stdout(file).stderr(copy).spawn().expect("the server starts")
}

/// Waits until the server answers a linearizable read; `None` when it ends before.
async fn connect(client: &str, child: &mut Child) -> Option<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{client}")).expect("an address");
    let began = Instant::now();
    while began.elapsed() < READY_MAX {
        if child.try_wait().expect("it is our child").is_some() {
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
