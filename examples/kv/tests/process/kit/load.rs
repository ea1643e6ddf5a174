//! Clients that write all the time, and remember what was acknowledged, and when.
//!
//! A key is written once, by a put that says nothing of what was there. Where there is no answer,
//! the client asks the next node to write the key if it is not there, until somebody acknowledges:
//! so whoever retries loses nothing, and a put that was applied twice shows in the key's version.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kontiki_kv::proto::mvccpb::KeyValue;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tokio::task::JoinSet;

use super::{Client, ClientError, Swap, text, until};

/// After so long a writer asks another node.
const ANSWER_MAX: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(10);

/// What was acknowledged, by its key.
pub(crate) type Acknowledged = BTreeMap<String, Write>;

/// One acknowledged write.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) value: String,
    /// Where it stands, if the first answer was the acknowledgement; otherwise it may have been
    /// written by any of several requests.
    revision: Option<i64>,
}

/// Writers, each with keys of its own. Each moves on to the next node after a failure.
pub(crate) struct Load {
    writers: JoinSet<Vec<(String, Write)>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    acknowledged: AtomicU64,
    moments: Mutex<Vec<Instant>>,
}

impl Shared {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn acknowledge(&self) {
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
        self.moments.lock().expect("nobody panics with it").push(Instant::now());
    }
}

impl Load {
    pub(crate) fn start(name: &str, endpoints: &[String], writers: usize) -> Self {
        Self::of_size(name, endpoints, writers, 0)
    }

    /// With values of so many bytes, which nothing can be packed into.
    pub(crate) fn of_size(
        name: &str,
        endpoints: &[String],
        writers: usize,
        value_bytes: usize,
    ) -> Self {
        let mut load = Self { writers: JoinSet::new(), shared: Arc::default() };
        for number in 0..writers {
            let writer = Writer {
                prefix: format!("{name}/{number}"),
                endpoints: endpoints.to_owned(),
                at: number,
                value_bytes,
                random: Pcg64Mcg::seed_from_u64(number as u64),
                shared: Arc::clone(&load.shared),
            };
            load.writers.spawn(writer.run());
        }
        load
    }

    /// Waits until so many more writes are acknowledged.
    pub(crate) async fn more(&self, count: u64) {
        let acknowledged = &self.shared.acknowledged;
        let goal = acknowledged.load(Ordering::Relaxed) + count;
        until("writes are acknowledged", async || {
            (acknowledged.load(Ordering::Relaxed) >= goal).then_some(())
        })
        .await;
    }

    /// The longest time without an acknowledgement since then.
    pub(crate) fn longest_gap(&self, since: Instant) -> Duration {
        let moments = self.shared.moments.lock().expect("nobody panics with it").clone();
        let (mut before, mut longest) = (since, Duration::ZERO);
        let later = moments.into_iter().filter(|moment| *moment >= since);
        for moment in later.chain([Instant::now()]) {
            longest = longest.max(moment.saturating_duration_since(before));
            before = moment;
        }
        longest
    }

    /// Ends it: everything that was acknowledged.
    pub(crate) async fn stop(self) -> Acknowledged {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.writers.join_all().await.into_iter().flatten().collect()
    }
}

struct Writer {
    prefix: String,
    endpoints: Vec<String>,
    at: usize,
    value_bytes: usize,
    random: Pcg64Mcg,
    shared: Arc<Shared>,
}

impl Writer {
    async fn run(mut self) -> Vec<(String, Write)> {
        let (mut writes, mut client) = (Vec::new(), self.next_client());
        for number in 0_u64.. {
            let (key, value) = (format!("{}/{number}", self.prefix), self.value(number));
            let Some(revision) = self.write(&mut client, &key, &value).await else { break };
            self.shared.acknowledge();
            writes.push((key, Write { value, revision }));
        }
        writes
    }

    /// Where the write stands, as far as that is known; nothing at all once the load ends.
    async fn write(&mut self, client: &mut Client, key: &str, value: &str) -> Option<Option<i64>> {
        let mut may_be_there = false;
        while !self.shared.is_stopped() {
            let fault = if may_be_there {
                match client.swap(key, None, value).await {
                    Ok(Swap::Done) => return Some(None),
                    Ok(Swap::Found(found)) => {
                        assert_eq!(found.as_deref(), Some(value), "{key} is somebody else's");
                        return Some(None);
                    }
                    Err(fault) => fault,
                }
            } else {
                match client.put(key, value.to_owned()).await {
                    Ok(revision) => return Some(Some(revision)),
                    Err(fault) => fault,
                }
            };
            match fault {
                ClientError::Refused(status) => panic!("a write was refused: {status}"),
                ClientError::Unknown { .. } => may_be_there = true,
                ClientError::Unreachable(_) => {}
            }
            *client = self.next_client();
            tokio::time::sleep(PAUSE).await;
        }
        None
    }

    fn value(&mut self, number: u64) -> String {
        let mut value = format!("value {number} ");
        while value.len() < self.value_bytes {
            value += &format!("{:016x}", self.random.next_u64());
        }
        value
    }

    fn next_client(&mut self) -> Client {
        self.at += 1;
        Client::to(&self.endpoints[self.at % self.endpoints.len()]).within(ANSWER_MAX)
    }
}

/// What was acknowledged and is not in `held`, or is there twice, or otherwise than it was.
pub(crate) fn lost_or_doubled(acknowledged: &Acknowledged, held: &[KeyValue]) -> Vec<String> {
    let held: BTreeMap<String, &KeyValue> = held.iter().map(|kv| (text(&kv.key), kv)).collect();
    let fault = |(key, write): (&String, &Write)| {
        let Some(kv) = held.get(key) else { return Some(format!("{key} is lost")) };
        let stands = (kv.version, kv.create_revision, kv.mod_revision);
        let is_once = write.revision.is_none_or(|revision| stands == (1, revision, revision));
        let is_whole = text(&kv.value) == write.value;
        let revision = write.revision;
        (!is_once || !is_whole).then(|| format!("{key}: {revision:?}, stands at {stands:?}"))
    };
    acknowledged.iter().filter_map(fault).collect()
}
