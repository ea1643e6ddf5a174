//! What clients see while nodes are killed and paused is what registers would have answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use kontiki_kv::proto::mvccpb::KeyValue;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::history::{Action, Operation, Value, check};
use crate::kit::{Client, ClientError, Cluster, ELECTION_MS, Node, Swap, rounds, seed, text};

const CLIENTS: usize = 6;
const KEYS: usize = 4;
const STORM: Duration = Duration::from_secs(20);

/// ```text
/// six clients  read, write and swap four keys, through any node, without a pause
/// chance       kill -9 and restart, SIGSTOP and SIGCONT, of one node or of two, or of all
/// ```
// scenario B16, B17, B68, B76, B90
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn through_kills_and_pauses_each_key_is_one_register() {
    let seed = seed();
    let mut trio = Cluster::start().await;
    for round in 0..rounds(1) {
        let mut random = Pcg64Mcg::seed_from_u64(seed + round as u64);
        let clients = Clients::start(round, &trio.endpoints(), seed);
        let (began, mut faults) = (Instant::now(), 0);
        while began.elapsed() < STORM {
            disturb(&mut trio, &mut random).await;
            faults += 1;
        }
        trio.leader().await;
        sleep(Duration::from_millis(ELECTION_MS)).await;
        let histories = clients.stop().await;
        report(&histories, faults);
        assert_registers(histories, &trio.settled().await);
    }
}

/// Each key was one register, up to what all nodes hold at the end.
pub(crate) fn assert_registers(histories: Histories, held: &[KeyValue]) {
    let held: BTreeMap<_, _> = held.iter().map(|kv| (text(&kv.key), text(&kv.value))).collect();
    for (key, (mut history, clock)) in histories {
        // What all nodes hold at the end is a last read.
        let action = Action::Read(held.get(&key).cloned());
        history.push(Operation { client: CLIENTS, begin: clock, end: Some(clock + 1), action });
        let checked = check(history);
        assert!(checked.is_ok(), "no register answers so: {key}: {checked:#?}");
    }
}

/// One thing goes wrong, and is well again when this returns.
async fn disturb(trio: &mut Cluster, random: &mut Pcg64Mcg) {
    let first = random.random_range(0..3);
    let second = (first + random.random_range(1..3)) % 3;
    let short = Duration::from_millis(random.random_range(10..ELECTION_MS));
    let long = Duration::from_millis(random.random_range(ELECTION_MS..3 * ELECTION_MS));
    match random.random_range(0..9) {
        0..3 => {
            trio.nodes[first].kill();
            sleep(if random.random_bool(0.5) { short } else { long }).await;
            trio.nodes[first].start();
        }
        3..6 => {
            trio.nodes[first].pause();
            sleep(if random.random_bool(0.3) { short } else { long }).await;
            trio.nodes[first].resume();
        }
        6 => {
            // One sleeps while the other dies; the sleeper wakes into a world of two.
            trio.nodes[first].pause();
            trio.nodes[second].kill();
            sleep(short).await;
            trio.nodes[second].start();
            sleep(short).await;
            trio.nodes[first].resume();
        }
        7 => {
            // Nobody notices that time has passed for the others too.
            trio.nodes.iter().for_each(Node::pause);
            sleep(long).await;
            trio.nodes.iter().for_each(Node::resume);
        }
        _ => {
            trio.kill_all();
            trio.start_all();
        }
    }
    sleep(short).await;
}

pub(crate) fn report(histories: &Histories, faults: usize) {
    let all = || histories.values().flat_map(|(history, _)| history);
    let unknown = all().filter(|operation| operation.end.is_none()).count();
    println!("{} operations, {unknown} of them without an answer; {faults} faults", all().count());
}

/// The history of each key, and the time after it.
pub(crate) type Histories = BTreeMap<String, (Vec<Operation>, u64)>;

/// Clients that note what they ask and what they are answered.
pub(crate) struct Clients {
    tasks: JoinSet<Vec<(String, Operation)>>,
    stop: Arc<AtomicBool>,
    clock: Arc<AtomicU64>,
}

impl Clients {
    pub(crate) fn start(round: usize, endpoints: &[String], seed: u64) -> Self {
        let mut clients =
            Self { tasks: JoinSet::new(), stop: Arc::default(), clock: Arc::default() };
        for id in 0..CLIENTS {
            let one = One {
                id,
                endpoints: endpoints.to_owned(),
                clock: Arc::clone(&clients.clock),
                random: Pcg64Mcg::seed_from_u64(seed ^ ((round * CLIENTS + id + 1) as u64) << 32),
                round,
            };
            clients.tasks.spawn(one.run(Arc::clone(&clients.stop)));
        }
        clients
    }

    pub(crate) async fn stop(self) -> Histories {
        self.stop.store(true, Ordering::SeqCst);
        let all = self.tasks.join_all().await;
        let clock = self.clock.load(Ordering::SeqCst);
        let mut histories: Histories = BTreeMap::new();
        for (key, operation) in all.into_iter().flatten() {
            histories.entry(key).or_insert((Vec::new(), clock)).0.push(operation);
        }
        histories
    }
}

struct One {
    id: usize,
    endpoints: Vec<String>,
    clock: Arc<AtomicU64>,
    random: Pcg64Mcg,
    round: usize,
}

impl One {
    async fn run(mut self, stop: Arc<AtomicBool>) -> Vec<(String, Operation)> {
        let (mut at, mut history) = (self.id, Vec::new());
        let mut client = Client::to(&self.endpoints[at % self.endpoints.len()]);
        // What it saw last of each key, to swap from.
        let mut seen: Vec<Value> = vec![None; KEYS];
        for number in 0.. {
            if stop.load(Ordering::SeqCst) {
                break;
            }
            let key_number = self.random.random_range(0..KEYS);
            let key = format!("{}/{key_number}", self.round);
            let value = format!("{}.{number}", self.id);
            let last = &mut seen[key_number];
            let begin = self.clock.fetch_add(1, Ordering::SeqCst);
            let outcome = self.ask(&mut client, &key, value, last.clone()).await;
            let end = self.clock.fetch_add(1, Ordering::SeqCst);
            let (action, fault) = match outcome {
                Ok(action) => (Some(action), None),
                Err((action, fault)) => (action, Some(fault)),
            };
            let end = fault.is_none().then_some(end);
            if end.is_some() {
                *last = action.as_ref().and_then(last_of);
            }
            let client_id = self.id;
            history.extend(
                action.map(|action| (key, Operation { client: client_id, begin, end, action })),
            );
            if fault.is_some() || self.random.random_bool(0.05) {
                at += 1;
                client = Client::to(&self.endpoints[at % self.endpoints.len()]);
                sleep(Duration::from_millis(10)).await;
            }
        }
        history
    }

    /// What was done, or what may have been done and why nobody knows.
    async fn ask(
        &mut self,
        client: &mut Client,
        key: &str,
        value: String,
        last: Value,
    ) -> Result<Action, (Option<Action>, ClientError)> {
        let maybe = |action: Action, fault: ClientError| match fault {
            ClientError::Unreachable(_) => (None, fault),
            ClientError::Unknown { .. } => (Some(action), fault),
            ClientError::Refused(status) => panic!("refused: {status}"),
        };
        match self.random.random_range(0..10) {
            0..5 => match client.get(key).await {
                Ok(value) => Ok(Action::Read(value)),
                // A read without an answer saw nothing.
                Err(fault) => Err((None, fault)),
            },
            5..7 => match client.put(key, value.clone()).await {
                Ok(_) => Ok(Action::Write(value)),
                Err(fault) => Err(maybe(Action::Write(value), fault)),
            },
            _ => match client.swap(key, last.as_deref(), &value).await {
                Ok(Swap::Done) => Ok(Action::Swapped(last, value)),
                Ok(Swap::Found(found)) => Ok(Action::Kept { wanted: last, found }),
                Err(fault) => Err(maybe(Action::Swapped(last, value), fault)),
            },
        }
    }
}

/// What the key held after this.
fn last_of(action: &Action) -> Value {
    match action {
        Action::Read(value) | Action::Kept { found: value, .. } => value.clone(),
        Action::Write(value) | Action::Swapped(_, value) => Some(value.clone()),
    }
}
