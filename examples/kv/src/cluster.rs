//! `kontiki cluster`: a cluster on this machine, of real processes, until Ctrl-C.
//!
//! ```text
//! supervisor ──spawns──▶ kontiki serve --name node1 …   one task each (node.rs)
//!     ▲  │                    ▲
//!     │  └──Maintenance.Status┘  five times a second (leader.rs)
//!     └── events: exits and restarts, who leads
//! ```
//! The nodes are ordinary ones: what is shown here can be typed by hand. A node that is killed
//! comes back after a short pause; one that ends by itself with an error does not, because it
//! would do so again.

mod leader;
mod node;
pub(crate) mod plan;
pub(crate) mod process;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::cli::{Failure, block_on, seconds, stop_requested};
use node::NodeEvent;
use plan::Plan;

/// Says a line. Whoever reads no further (`| head`, a `tee` that Ctrl-C ended first) must not
/// bring the cluster down.
macro_rules! say {
    ($($text:tt)*) => {{
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}

/// Events that wait to be shown; a node that has more to say waits.
const EVENTS_MAX: usize = 64;

#[derive(Args)]
pub(crate) struct ClusterArgs {
    /// How many nodes [default: 3, or what the directory holds]
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
    /// Where nodes keep their data and their logs
    #[arg(long, value_name = "DIR", default_value = "kontiki-cluster")]
    data_dir: PathBuf,
    /// The first client port: 2379 gives 2379, 22379, 32379 …, peers one above each
    /// [default: 2379, or what the directory holds]
    #[arg(long, value_name = "PORT")]
    base_port: Option<u16>,
    /// Seconds until a node that was killed is started again
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    restart_after: Duration,
    /// Leave a node that was killed dead
    #[arg(long)]
    no_restart: bool,
    /// Append every step of the consensus to a file of each node in this directory
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    pass: PassThrough,
}

/// Flags that every node is given.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct PassThrough {
    /// Milliseconds between two heartbeats of a leader [default: 100]
    #[arg(long, env = "KONTIKI_HEARTBEAT_INTERVAL", value_name = "MS")]
    pub(crate) heartbeat_interval: Option<u64>,
    /// Milliseconds without a leader until a node stands for election [default: 1000]
    #[arg(long, env = "KONTIKI_ELECTION_TIMEOUT", value_name = "MS")]
    pub(crate) election_timeout: Option<u64>,
    /// Applied entries between two snapshots [default: 100000]
    #[arg(long, env = "KONTIKI_SNAPSHOT_COUNT", value_name = "N")]
    pub(crate) snapshot_count: Option<u64>,
    /// What the nodes log [default: info]
    #[arg(long, env = "KONTIKI_LOG_LEVEL", value_name = "FILTER")]
    pub(crate) log_level: Option<String>,
}

pub(crate) fn run(args: ClusterArgs) -> Result<ExitCode, Failure> {
    let plan = Plan::open(&args.data_dir, args.nodes, args.base_port, &args.pass)?
        .with_trace(args.trace.as_deref())?;
    plan.check_ports()?;
    plan.save()?;
    let restart = (!args.no_restart).then_some(args.restart_after);
    block_on(supervise(plan, restart))??;
    Ok(ExitCode::SUCCESS)
}

async fn supervise(plan: Plan, restart: Option<Duration>) -> Result<(), Failure> {
    let began = Instant::now();
    let (stop, stopping) = watch::channel(false);
    let (events, mut received) = mpsc::channel(EVENTS_MAX);
    announce(&plan);
    let mut nodes = JoinSet::new();
    for at in 0..plan.nodes.len() {
        let (events, stopping) = (events.clone(), stopping.clone());
        nodes.spawn(node::supervise(at, plan.program(at)?, restart, events, stopping));
    }
    drop(events);
    let mut leaders = leader::watch(&plan);
    let mut supervisor = Supervisor { pids: vec![None; plan.nodes.len()], plan, ready: None };

    let mut outcome = Ok(());
    let mut stop_signal = std::pin::pin!(stop_requested());
    loop {
        tokio::select! {
            () = &mut stop_signal => break,
            event = received.recv() => match event {
                Some(event) => outcome = supervisor.on_node_event(event),
                None => outcome = Err(Failure::new("no node runs any more")),
            },
            Some(leader) = leaders.recv() => supervisor.on_leader(leader, began),
        }
        if outcome.is_err() {
            break;
        }
    }
    say!("stopping");
    // Nobody listens when all nodes have ended already.
    let _ = stop.send(true);
    let ended = async {
        while let Some(event) = received.recv().await {
            supervisor.on_node_stopping(&event);
        }
        while nodes.join_next().await.is_some() {}
    };
    tokio::select! {
        () = ended => say!("stopped"),
        // Whoever presses Ctrl-C twice does not want to wait: the tasks kill as they are dropped.
        () = stop_requested() => say!("killed"),
    }
    outcome
}

fn announce(plan: &Plan) {
    let origin = if plan.is_new { "a new cluster" } else { "the cluster" };
    say!("{origin} of {} in {}", plan.nodes.len(), plan.dir.display());
    for node in &plan.nodes {
        say!(
            "  {}  client http://127.0.0.1:{}  peer http://127.0.0.1:{}  log {}",
            node.name,
            node.client_port,
            node.peer_port,
            node.log.display()
        );
    }
    say!("endpoints: {}", plan.endpoints().join(","));
    if plan.nodes.len().is_multiple_of(2) {
        let odd = plan.nodes.len() - 1;
        say!("note: {} nodes bear no more failures than {odd}", plan.nodes.len());
    }
}

/// What is known of the nodes, for the messages. A node without a pid does not run.
struct Supervisor {
    plan: Plan,
    pids: Vec<Option<u32>>,
    /// Since when every node has known a leader.
    ready: Option<Instant>,
}

impl Supervisor {
    fn on_node_event(&mut self, event: NodeEvent) -> Result<(), Failure> {
        match event {
            NodeEvent::Started { at, pid, again } => {
                self.pids[at] = Some(pid);
                if again {
                    say!("{}: started again (pid {pid})", self.plan.nodes[at].name);
                }
                Ok(())
            }
            NodeEvent::Exited { at, how, restart } => {
                self.pids[at] = None;
                self.on_exit(at, &how, restart)
            }
            NodeEvent::Failed { at, reason } => {
                Err(Failure::new(format!("{}: {reason}", self.plan.nodes[at].name)))
            }
        }
    }

    fn on_exit(&self, at: usize, how: &str, restart: Option<Duration>) -> Result<(), Failure> {
        let node = &self.plan.nodes[at];
        let (name, log) = (&node.name, node.log.display());
        if let Some(pause) = restart {
            say!("{name}: {how}; starts again in {:.0} s", pause.as_secs_f64());
            return Ok(());
        }
        let last = process::last_lines(&node.log, 4);
        if self.ready.is_none() {
            return Err(Failure::new(format!(
                "{name}: {how} before the cluster was ready; the end of {log}:\n{last}"
            )));
        }
        say!("{name}: {how}; the end of {log}:\n{last}");
        let program = self.plan.program(at)?;
        say!("to start it again by hand:\n  {}", program.command_line());
        Ok(())
    }

    /// While stopping, exits are as they should be; a node that had to be killed is worth a line.
    fn on_node_stopping(&self, event: &NodeEvent) {
        if let NodeEvent::Exited { at, how, .. } = event
            && how != process::CLEAN_EXIT
        {
            say!("{}: {how}", self.plan.nodes[*at].name);
        }
    }

    fn on_leader(&mut self, seen: leader::Seen, began: Instant) {
        match seen {
            leader::Seen::Ready => {
                self.ready = Some(Instant::now());
                say!("ready after {:.1} s; Ctrl-C stops all", began.elapsed().as_secs_f64());
            }
            leader::Seen::Nobody => say!("leader: none"),
            leader::Seen::Leader { id, term } => {
                let at = self.plan.member_ids.iter().position(|&member| member == id);
                match at.map(|at| (&self.plan.nodes[at].name, self.pids[at])) {
                    Some((name, Some(pid))) => say!("leader: {name} (term {term}, pid {pid})"),
                    Some((name, None)) => say!("leader: {name} (term {term})"),
                    None => say!("leader: {id:x} (term {term})"),
                }
            }
        }
    }
}
