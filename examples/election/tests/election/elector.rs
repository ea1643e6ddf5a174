//! Stories of the elector: candidates that trust their own clock, and a leader that stops in time.

use std::sync::Arc;
use std::time::Duration;

use kontiki_client::Client;
use kontiki_client::proto::etcdserverpb::PutRequest;
use kontiki_election::clock::Moment;
use kontiki_election::elector::{Candidate, ElectorOptions, Record};
use kontiki_election::{LeaseElector, Token};
use std::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::system::Store;
use crate::{client, each_system, patiently, until};

each_system!(
    one_leads_and_releases_when_it_is_told_to_end,
    a_leader_that_hangs_stops_before_another_starts,
    times_in_the_record_are_believed_by_nobody,
    a_record_that_another_took_stops_the_leader,
);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Started(Token),
    Stopped,
    Leader(String),
}

/// Notes what it is told, and when.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<(Moment, Told)>>>);

impl Notes {
    fn note(&self, told: Told) {
        self.0.lock().expect("no panic").push((Moment::now(), told));
    }

    fn all(&self) -> Vec<Told> {
        self.0.lock().expect("no panic").iter().map(|(_, told)| told.clone()).collect()
    }

    fn when(&self, holds: impl Fn(&Told) -> bool) -> Option<Moment> {
        let notes = self.0.lock().expect("no panic");
        notes.iter().find(|(_, told)| holds(told)).map(|(when, _)| *when)
    }

    fn token(&self) -> Option<Token> {
        self.all().iter().rev().find_map(|told| match told {
            Told::Started(token) => Some(*token),
            Told::Stopped | Told::Leader(_) => None,
        })
    }
}

impl Candidate for Notes {
    fn started(&mut self, token: Token, until: CancellationToken) {
        assert!(!until.is_cancelled());
        self.note(Told::Started(token));
    }
    fn stopped(&mut self) {
        self.note(Told::Stopped);
    }
    fn new_leader(&mut self, identity: &str) {
        self.note(Told::Leader(identity.to_owned()));
    }
}

struct Running {
    notes: Notes,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    fn start(client: &Client, identity: &str) -> Self {
        let times = [3000, 2000, 300].map(Duration::from_millis);
        Self::start_with(client, identity, times)
    }

    fn start_with(client: &Client, identity: &str, times: [Duration; 3]) -> Self {
        let [lease_duration, renew_deadline, retry_period] = times;
        let options = ElectorOptions {
            lease_duration,
            renew_deadline,
            retry_period,
            ..ElectorOptions::new("record", identity)
        };
        let elector = LeaseElector::new(client, options).expect("good options");
        let (notes, cancel) = (Notes::default(), CancellationToken::new());
        let (mut candidate, until) = (notes.clone(), cancel.clone());
        let task = tokio::spawn(async move { elector.run(&mut candidate, until).await });
        Self { notes, cancel, task }
    }

    async fn leads(&self) -> Token {
        until("it leads", async || self.notes.token().is_some()).await;
        self.notes.token().expect("it was just there")
    }

    async fn end(self) {
        self.cancel.cancel();
        patiently("it ends", self.task).await.expect("no panic");
    }
}

async fn record(store: &Store) -> Record {
    let kv = store.client().get("record").await.expect("read").expect("there");
    serde_json::from_slice(&kv.value).expect("a record")
}

async fn one_leads_and_releases_when_it_is_told_to_end(store: &Store) {
    let a = Running::start(&store.client(), "a");
    let first = a.leads().await;
    let held = record(store).await;
    assert_eq!((&held.holder_identity[..], held.lease_duration_seconds), ("a", 3));
    let b = Running::start(&store.client(), "b");
    until("b sees a", async || b.notes.all() == [Told::Leader("a".to_owned())]).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(b.notes.token(), None, "a renews");
    let renewed = record(store).await;
    assert_eq!(renewed.acquire_time, held.acquire_time);
    assert!(renewed.renew_time > held.renew_time);

    let ended_at = Moment::now();
    let notes = a.notes.clone();
    a.end().await;
    let second = b.leads().await;
    assert!(Moment::now().since(ended_at) < Duration::from_secs(3), "nobody waits for the lease");
    assert!(second > first);
    let own = Told::Leader("a".to_owned());
    assert_eq!(notes.all(), [own, Told::Started(first), Told::Stopped]);
    let taken = record(store).await;
    assert_eq!(taken.holder_identity, "b");
    assert_eq!(taken.lease_transitions, held.lease_transitions + 1);
    b.end().await;
    assert_eq!(record(store).await.holder_identity, "", "released");
}

async fn a_leader_that_hangs_stops_before_another_starts(store: &Store) {
    let proxy = store.proxy().await;
    // The renewal that hangs begins before the renew deadline, and would end long after it.
    let times = [8, 5, 4].map(Duration::from_secs);
    let slow_client = client(&[proxy.port()]);
    let a = Running::start_with(&slow_client, "a", times);
    let first = a.leads().await;
    let b = Running::start(&store.client(), "b");
    until("b sees a", async || !b.notes.all().is_empty()).await;
    proxy.hold();
    let held_at = Moment::now();
    let second = b.leads().await;
    let stopped = a.notes.when(|told| *told == Told::Stopped).expect("a has stopped");
    let started = b.notes.when(|told| matches!(told, Told::Started(_))).expect("b has started");
    assert!(stopped < started, "never two at once");
    let slow = Duration::from_millis(1500);
    assert!(stopped.since(held_at) <= Duration::from_secs(5) + slow, "at its renew deadline");
    assert!(second > first);
    proxy.open();
    until("a sees b", async || a.notes.all().last() == Some(&Told::Leader("b".to_owned()))).await;
    assert_eq!(a.notes.all().iter().filter(|told| **told == Told::Stopped).count(), 1);
}

/// A record whose times lie in the far future, or in the past, is left alone for as long as it
/// says, counted from when it was seen, and not a moment longer.
async fn times_in_the_record_are_believed_by_nobody(store: &Store) {
    for year in ["1970", "2970"] {
        let time = format!("{year}-01-01T00:00:00.000000Z");
        let other = Record {
            holder_identity: "other".to_owned(),
            lease_duration_seconds: 2,
            acquire_time: time.clone(),
            renew_time: time,
            lease_transitions: 41,
        };
        let value = serde_json::to_vec(&other).expect("a record");
        let written_at = Moment::now();
        store.client().put(PutRequest::new("record", value)).await.expect("written");
        let a = Running::start(&store.client(), "a");
        a.leads().await;
        let started = a.notes.when(|told| matches!(told, Told::Started(_))).expect("started");
        assert!(started.since(written_at) >= Duration::from_secs(2), "not before: {year}");
        assert_eq!(record(store).await.lease_transitions, 42);
        a.end().await;
    }
}

async fn a_record_that_another_took_stops_the_leader(store: &Store) {
    let a = Running::start(&store.client(), "a");
    a.leads().await;
    let usurper = Record { holder_identity: "other".to_owned(), ..record(store).await };
    let value = serde_json::to_vec(&usurper).expect("a record");
    let taken_at = Moment::now();
    store.client().put(PutRequest::new("record", value)).await.expect("written");
    until("it stops", async || a.notes.all().contains(&Told::Stopped)).await;
    let stopped = a.notes.when(|told| *told == Told::Stopped).expect("it has");
    assert!(stopped.since(taken_at) < Duration::from_secs(2), "with its next renewal");
    until("it sees who leads", async || {
        a.notes.all().last() == Some(&Told::Leader("other".to_owned()))
    })
    .await;
}
