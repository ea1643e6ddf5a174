//! One client: asks, and notes what it asked and what it was answered.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use kontiki_client::{Client, ClientError, Timeouts};
use kontiki_kv::proto::etcdserverpb::response_op::Response;
use kontiki_kv::proto::etcdserverpb::{PutRequest, RangeRequest, ResponseHeader, TxnRequest};
use kontiki_kv::proto::mvccpb::KeyValue;
use raft_testkit::history::register::{Input, Output};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use tokio::sync::watch;
use tokio::time::sleep;

use super::{KEYS, Phase, Shared};
use crate::torture::record::{Once, Value, parse, text};

/// After so long a client asks another node.
const TIMEOUTS: Timeouts =
    Timeouts { dial: Duration::from_secs(1), command: Duration::from_secs(3) };
/// Between two requests of a client: the machine has other things to do.
const THINK: Duration = Duration::from_millis(1);
/// After a request that failed.
const PAUSE: Duration = Duration::from_millis(10);
/// Requests to one key, after which another takes its place: lists do not grow for ever, nor does
/// the search through their histories.
const KEY_REQUESTS_MAX: u64 = 400;

/// One client.
pub(super) struct One {
    number: usize,
    /// Whom it asks.
    at: usize,
    epoch: u64,
    /// How many keys it has written once in this epoch.
    once: u64,
    client: Option<Client>,
    random: Pcg64Mcg,
    shared: Arc<Shared>,
}

impl One {
    pub(super) fn new(number: usize, random: Pcg64Mcg, shared: Arc<Shared>) -> Self {
        Self { number, at: number, epoch: 0, once: 0, client: None, random, shared }
    }

    pub(super) async fn run(mut self, mut phase: watch::Receiver<Phase>) {
        // What it saw last of each key.
        let mut seen = Seen::default();
        loop {
            let now = *phase.borrow_and_update();
            match now {
                Phase::End => return,
                Phase::Rest => {
                    self.shared.resting.fetch_add(1, Ordering::SeqCst);
                    let changed = phase.changed().await;
                    self.shared.resting.fetch_sub(1, Ordering::SeqCst);
                    if changed.is_err() {
                        return;
                    }
                    continue;
                }
                Phase::Work(epoch) if epoch != self.epoch => {
                    (self.epoch, self.once, seen) = (epoch, 0, Seen::default());
                }
                Phase::Work(_) => {}
            }
            let outcome = match self.random.random_range(0..10) {
                0..8 => self.ask(&mut seen).await,
                _ => self.write_once(&phase, now).await,
            };
            let pause = if let Err(fault) = outcome {
                self.shared.lock().on_fault(&fault);
                self.client = None;
                PAUSE
            } else {
                THINK
            };
            if pause == PAUSE || self.random.random_bool(0.03) {
                (self.at, self.client) = (self.at + 1, None);
            }
            sleep(pause).await;
        }
    }

    /// A request to one of the keys that all clients share.
    async fn ask(&mut self, seen: &mut Seen) -> Result<(), ClientError> {
        let slot = self.random.random_range(0..2 * KEYS);
        let count = self.shared.requests[slot].fetch_add(1, Ordering::SeqCst);
        let kind = if slot < KEYS { "value" } else { "list" };
        let key = format!("t/{}/{kind}/{slot}.{}", self.epoch, count / KEY_REQUESTS_MAX);
        let last = seen.of(slot, &key);
        let input = match (self.random.random_range(0..10), slot < KEYS) {
            (0..4, _) => Input::Read,
            (4..7, true) => Input::Write(vec![self.shared.value()]),
            (_, true) => Input::Cas { from: last.clone(), to: vec![self.shared.value()] },
            (_, false) => {
                let mut to = last.clone().unwrap_or_default();
                to.push(self.shared.value());
                Input::Cas { from: last.clone(), to }
            }
        };
        let begin = self.shared.tick();
        let (client, call) = (self.number as u64, input.clone());
        let id = self.shared.lock().record.history.call(client, begin, key.clone(), call);
        let floor = self.shared.revision.load(Ordering::SeqCst);
        let outcome = self.send(&key, &input).await;
        let end = self.shared.tick();
        let mut notes = self.shared.lock();
        match outcome {
            Ok((output, header)) => {
                *last = after(&input, &output);
                notes.record.history.ok(id, end, output.clone());
                match output {
                    Output::Value(_) => notes.counts.reads += 1,
                    Output::Done | Output::Kept(_) => notes.on_write(),
                }
                drop(notes);
                self.note_revision(&key, floor, header.as_ref());
                Ok(())
            }
            // A read without an answer saw nothing, and so was none.
            Err(fault) => {
                if input == Input::Read || !matches!(fault, ClientError::Unknown { .. }) {
                    notes.record.history.refused(id);
                }
                Err(fault)
            }
        }
    }

    async fn send(&mut self, key: &str, input: &Input<Value>) -> Result<Answer, ClientError> {
        let key_bytes = Bytes::from(key.to_owned());
        let client = self.client();
        match input {
            Input::Read => {
                let answer =
                    client.range(RangeRequest { key: key_bytes, ..Default::default() }).await?;
                Ok((Output::Value(value_of(answer.kvs)), answer.header))
            }
            Input::Write(value) => {
                let value = text(value).into();
                let request = PutRequest { key: key_bytes, value, ..Default::default() };
                Ok((Output::Done, client.put(request).await?.header))
            }
            Input::Cas { from, to } => {
                let old = from.as_ref().map(|value| text(value).into());
                let answer = client.txn(TxnRequest::swap(&key_bytes, old, text(to).into())).await?;
                let found = match answer.responses.into_iter().next().and_then(|it| it.response) {
                    Some(Response::ResponseRange(found)) => value_of(found.kvs),
                    _ => None,
                };
                let output = if answer.succeeded { Output::Done } else { Output::Kept(found) };
                Ok((output, answer.header))
            }
            Input::Delete => unreachable!("nobody deletes"),
        }
    }

    /// Writes a key of its own, until that is acknowledged or the clients are to rest.
    async fn write_once(
        &mut self,
        phase: &watch::Receiver<Phase>,
        now: Phase,
    ) -> Result<(), ClientError> {
        self.once += 1;
        let key = format!("t/{}/once/{}.{}", self.epoch, self.number, self.once);
        let (value, key_bytes) = (self.shared.value(), Bytes::from(key.clone()));
        let put = PutRequest {
            key: key_bytes.clone(),
            value: text(&[value]).into(),
            ..PutRequest::default()
        };
        let floor = self.shared.revision.load(Ordering::SeqCst);
        match self.client().put(put).await {
            Ok(answer) => {
                let revision = answer.header.as_ref().map(|header| header.revision);
                self.note_revision(&key, floor, answer.header.as_ref());
                self.acknowledge(Once { key, value, revision });
                return Ok(());
            }
            Err(fault @ ClientError::Unknown { .. }) => self.shared.lock().on_fault(&fault),
            // What was not sent, or was refused, is not written at all.
            Err(fault) => return Err(fault),
        }
        while *phase.borrow() == now {
            (self.at, self.client) = (self.at + 1, None);
            sleep(PAUSE).await;
            let request = TxnRequest::swap(&key_bytes, None, text(&[value]).into());
            match self.client().txn(request).await {
                // Who finds it there finds what he wrote himself, or it will show in the end.
                Ok(_) => {
                    self.acknowledge(Once { key, value, revision: None });
                    break;
                }
                Err(fault) => self.shared.lock().on_fault(&fault),
            }
        }
        Ok(())
    }

    fn acknowledge(&self, once: Once) {
        let mut notes = self.shared.lock();
        notes.on_write();
        notes.record.once.push(once);
    }

    /// No answer may stand before one that had been given when it was asked for.
    fn note_revision(&self, key: &str, floor: i64, header: Option<&ResponseHeader>) {
        let revision = header.map_or(0, |header| header.revision);
        self.shared.revision.fetch_max(revision, Ordering::SeqCst);
        if revision < floor {
            let found = format!("{key}: the answer is of revision {revision}, after {floor}");
            self.shared.lock().record.found.push(found);
        }
    }

    fn client(&mut self) -> &Client {
        self.client.get_or_insert_with(|| {
            let endpoints = self.shared.endpoints.borrow();
            let endpoint = endpoints[self.at % endpoints.len()].clone();
            Client::new(vec![endpoint], TIMEOUTS).asking_once()
        })
    }
}

type Answer = (Output<Value>, Option<ResponseHeader>);

/// What a client knows of the keys in use.
#[derive(Default)]
struct Seen(Vec<(String, Option<Value>)>);

impl Seen {
    fn of(&mut self, slot: usize, key: &str) -> &mut Option<Value> {
        self.0.resize(2 * KEYS, (String::new(), None));
        let entry = &mut self.0[slot];
        if entry.0 != key {
            *entry = (key.to_owned(), None);
        }
        &mut entry.1
    }
}

fn value_of(found: Vec<KeyValue>) -> Option<Value> {
    found.into_iter().next().map(|kv| parse(&kv.value))
}

/// What the key held when it was answered.
fn after(input: &Input<Value>, output: &Output<Value>) -> Option<Value> {
    match (output, input) {
        (Output::Value(value) | Output::Kept(value), _) => value.clone(),
        (Output::Done, Input::Write(value) | Input::Cas { to: value, .. }) => Some(value.clone()),
        (Output::Done, Input::Read | Input::Delete) => None,
    }
}
