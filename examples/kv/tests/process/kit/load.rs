//! Clients that write all the time, and remember what was acknowledged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use kontiki_kv::proto::mvccpb::KeyValue;
use tokio::task::JoinSet;

use super::{Client, Fault, text, until};

/// Writers, each with keys of its own. Each moves on to the next node after a failure.
pub(crate) struct Load {
    name: String,
    writers: JoinSet<Vec<(String, String)>>,
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
}

impl Load {
    pub(crate) fn start(name: &str, ports: &[u16], writers: usize) -> Self {
        let mut load = Self {
            name: name.to_owned(),
            writers: JoinSet::new(),
            stop: Arc::default(),
            acknowledged: Arc::default(),
        };
        for writer in 0..writers {
            let (stop, acknowledged) = (Arc::clone(&load.stop), Arc::clone(&load.acknowledged));
            let (name, ports) = (load.name.clone(), ports.to_owned());
            load.writers.spawn(async move {
                let mut writes = Vec::new();
                let mut at = writer;
                let mut client = Client::new(ports[at % ports.len()]);
                for number in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let key = format!("{name}/{writer}/{number}");
                    let value = format!("{number} of {writer}");
                    match client.put(&key, value.clone()).await {
                        Ok(_) => {
                            acknowledged.fetch_add(1, Ordering::Relaxed);
                            writes.push((key, value));
                        }
                        Err(Fault::Refused(status)) => panic!("a put was refused: {status}"),
                        Err(Fault::NotSent(_) | Fault::Unknown(_)) => {
                            at += 1;
                            client = Client::new(ports[at % ports.len()]);
                            tokio::time::sleep(Duration::from_millis(10)).await;
                        }
                    }
                }
                writes
            });
        }
        load
    }

    /// Waits until so many more writes are acknowledged.
    pub(crate) async fn more(&self, count: u64) {
        let goal = self.acknowledged.load(Ordering::Relaxed) + count;
        until("writes are acknowledged", async || {
            (self.acknowledged.load(Ordering::Relaxed) >= goal).then_some(())
        })
        .await;
    }

    /// Ends it: everything that was acknowledged.
    pub(crate) async fn stop(self) -> BTreeMap<String, String> {
        self.stop.store(true, Ordering::Relaxed);
        self.writers.join_all().await.into_iter().flatten().collect()
    }
}

/// Everything in `acknowledged` that is not in `held` as it was written.
pub(crate) fn missing<'a>(
    acknowledged: &'a BTreeMap<String, String>,
    held: &[KeyValue],
) -> Vec<&'a str> {
    let held: BTreeMap<String, String> =
        held.iter().map(|kv| (text(&kv.key), text(&kv.value))).collect();
    let lost = acknowledged.iter().filter(|(key, value)| held.get(*key) != Some(value));
    lost.map(|(key, _)| key.as_str()).collect()
}
