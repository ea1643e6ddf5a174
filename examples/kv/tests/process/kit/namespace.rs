//! Tests in namespaces of their own, where they may mount disks and cut wires. They end with the
//! test, whatever becomes of it, and nothing outside sees them.
//!
//! ```text
//! hub 10.0.0.254 ─┬─ eth0 10.0.0.1   one namespace for each node; it is there as long as the
//!  (the clients)  ├─ eth0 10.0.0.2   process that holds it, whatever becomes of the node
//!                 └─ eth0 10.0.0.3
//! ```
//! A wire is cut in one direction by telling the sender a hardware address that nobody has: what
//! it sends is dropped on the way, and nobody is told.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::until;

/// Names the test that runs inside.
const INSIDE: &str = "PROCESS_TEST_INSIDE";
const NOBODY: &str = "02:00:00:00:00:fe";

/// Runs the body of this test in namespaces of its own, or says why that cannot be.
pub(crate) fn apart(test: &str, body: impl Future<Output = Result<(), String>>) {
    if std::env::var(INSIDE).is_ok_and(|inside| inside == test) {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().expect("a runtime");
        let outcome = runtime.block_on(async {
            run("ip", &["link", "set", "lo", "up"])?;
            body.await
        });
        if let Err(reason) = outcome {
            println!("skipped: {reason}");
        }
        return;
    }
    if let Err(reason) = run("unshare", &["--mount", "--net", "true"]) {
        println!("skipped: {reason}");
        return;
    }
    let this = std::env::current_exe().expect("this program");
    let output = Command::new("unshare")
        .args(["--mount", "--net", "--"])
        .arg(this)
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(INSIDE, test)
        .output()
        .expect("unshare runs");
    print!("{}", String::from_utf8_lossy(&output.stdout));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{test} failed in its namespaces");
}

/// Runs a tool; what it says if it fails.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} {} fails: {}", args.join(" "), said.trim()))
}

/// A disk of its own. It goes with the namespace.
pub(crate) struct Disk {
    at: PathBuf,
    /// Thaws it when nobody holds the other end, so that it does not outlive the test.
    frozen: Option<Child>,
}

impl Disk {
    /// In memory, of this size.
    pub(crate) fn small(at: &Path, size: &str) -> Result<Self, String> {
        std::fs::create_dir(at).map_err(|error| error.to_string())?;
        let size = format!("size={size}");
        run("mount", &["-t", "tmpfs", "-o", &size, "none", &at.display().to_string()])?;
        Ok(Self { at: at.to_owned(), frozen: None })
    }

    /// In a file, so that it can be frozen.
    pub(crate) fn freezable(at: &Path, size: &str) -> Result<Self, String> {
        std::fs::create_dir(at).map_err(|error| error.to_string())?;
        let image = at.with_extension("image").display().to_string();
        run("truncate", &["--size", size, &image])?;
        run("mkfs.ext4", &["-q", &image])?;
        run("mount", &["-o", "loop", &image, &at.display().to_string()])?;
        let mut disk = Self { at: at.to_owned(), frozen: None };
        disk.freeze()?;
        disk.thaw();
        Ok(disk)
    }

    /// From now on writes neither end nor fail.
    pub(crate) fn freeze(&mut self) -> Result<(), String> {
        let mut thaw = Command::new("sh");
        let thaw = thaw.args(["-c", "cat; fsfreeze --unfreeze \"$0\""]).arg(&self.at);
        let thaw = thaw.stdin(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
        self.frozen = Some(thaw);
        run("fsfreeze", &["--freeze", &self.at.display().to_string()])
    }

    pub(crate) fn thaw(&mut self) {
        if let Some(mut thaw) = self.frozen.take() {
            drop(thaw.stdin.take());
            let _ = thaw.wait();
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.thaw();
    }
}

/// A network of nodes, each in a namespace of its own.
pub(crate) struct Network {
    holders: Vec<Child>,
}

impl Network {
    pub(crate) async fn build(count: usize) -> Result<Self, String> {
        run("ip", &["link", "add", "hub", "type", "bridge"])?;
        run("ip", &["address", "add", "10.0.0.254/24", "dev", "hub"])?;
        run("ip", &["link", "set", "hub", "up"])?;
        let mut network = Self { holders: Vec::new() };
        for at in 0..count {
            network.add(at).await?;
        }
        Ok(network)
    }

    async fn add(&mut self, at: usize) -> Result<(), String> {
        let mut cat = Command::new("unshare");
        // It ends when nobody holds the other end.
        let cat = cat.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        self.holders.push(cat.map_err(|error| error.to_string())?);
        let holder = self.holder(at);
        let network = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
        until("a node has its network", async || {
            (network(&holder.to_string())? != network("self")?).then_some(())
        })
        .await;
        let (wire, holder) = (format!("wire{at}"), holder.to_string());
        let add = ["link", "add", &wire, "type", "veth", "peer", "name", "eth0", "netns", &holder];
        run("ip", &add)?;
        run("ip", &["link", "set", &wire, "master", "hub"])?;
        run("ip", &["link", "set", &wire, "up"])?;
        self.ip(at, &["link", "set", "lo", "up"])?;
        self.ip(at, &["address", "add", &format!("{}/24", Self::host(at)), "dev", "eth0"])?;
        self.ip(at, &["link", "set", "eth0", "up"])
    }

    /// The process in whose network a node shall live.
    pub(crate) fn holder(&self, at: usize) -> u32 {
        self.holders[at].id()
    }

    pub(crate) fn host(at: usize) -> String {
        format!("10.0.0.{}", at + 1)
    }

    /// What `from` sends to `to` is dropped from now on.
    pub(crate) fn cut(&self, from: usize, to: usize) {
        let to = Self::host(to);
        let dead = ["neighbour", "replace", &to, "lladdr", NOBODY, "nud", "permanent"];
        self.ip(from, &[&dead[..], &["dev", "eth0"]].concat()).expect("a wire can be cut");
    }

    pub(crate) fn heal(&self, from: usize, to: usize) {
        let healed = self.ip(from, &["neighbour", "delete", &Self::host(to), "dev", "eth0"]);
        healed.expect("a wire can be mended");
    }

    /// Cuts a node off from all others, in both directions.
    pub(crate) fn cut_off(&self, at: usize) {
        for other in (0..self.holders.len()).filter(|other| *other != at) {
            self.cut(at, other);
            self.cut(other, at);
        }
    }

    pub(crate) fn bring_back(&self, at: usize) {
        for other in (0..self.holders.len()).filter(|other| *other != at) {
            self.heal(at, other);
            self.heal(other, at);
        }
    }

    fn ip(&self, at: usize, args: &[&str]) -> Result<(), String> {
        let target = format!("--target={}", self.holder(at));
        run("nsenter", &[&[target.as_str(), "--net", "ip"], args].concat())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for holder in &mut self.holders {
            let _ = holder.kill();
            let _ = holder.wait();
        }
    }
}
