//! Anything may happen in any order, and every watch gets just what it should.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::*;
use crate::proto::mvccpb::KeyValue;
use crate::server::watch::queue::{Content, Happening, Previous};

const BOUNDS: Bounds = Bounds { replies: 4, bytes: 600 };

#[derive(Clone, Debug)]
enum Start {
    Now,
    Past(i64),
    Future(i64),
}

#[derive(Clone, Debug)]
enum Doing {
    Put(u8, u8),
    Delete(u8, u8),
    Txn(u8, u8, u8),
    Compact(i64),
    Flush,
    Create { client: usize, key: u8, end: u8, start: Start, kinds: u8, previous: bool },
    Cancel(usize, i64),
    AskProgress(usize),
    Live,
    Past,
    Read(usize, u8),
}

fn doing() -> impl Strategy<Value = Doing> {
    let (key, client) = (0_u8..6, 0_usize..3);
    let start = prop_oneof![
        3 => Just(Start::Now),
        3 => (0_i64..30).prop_map(Start::Past),
        1 => (1_i64..8).prop_map(Start::Future),
    ];
    let create = (client.clone(), key.clone(), 0_u8..8, start, 0_u8..8, any::<bool>());
    prop_oneof![
        16 => (key.clone(), any::<u8>()).prop_map(|(key, value)| Doing::Put(key, value)),
        3 => (key.clone(), key.clone()).prop_map(|(key, end)| Doing::Delete(key, end)),
        4 => (key.clone(), key.clone(), key).prop_map(|(a, b, c)| Doing::Txn(a, b, c)),
        1 => (0_i64..12).prop_map(Doing::Compact),
        2 => Just(Doing::Flush),
        5 => create.prop_map(|(client, key, end, start, kinds, previous)| {
            Doing::Create { client, key, end, start, kinds, previous }
        }),
        1 => (client.clone(), 0_i64..6).prop_map(|(client, id)| Doing::Cancel(client, id)),
        2 => client.clone().prop_map(Doing::AskProgress),
        10 => Just(Doing::Live),
        5 => Just(Doing::Past),
        12 => (client, 1_u8..5).prop_map(|(client, count)| Doing::Read(client, count)),
    ]
}

/// What happened, with what was there before.
#[derive(Clone, Debug, PartialEq)]
struct Expected {
    revision: i64,
    key: u8,
    put: Option<KeyValue>,
    before: Option<KeyValue>,
}

#[derive(Debug)]
struct Watched {
    keys: Keys,
    from: i64,
    puts: bool,
    deletions: bool,
    previous: bool,
    got: Vec<Arc<Happening>>,
    /// Canceled, or ended by a compaction.
    is_over: bool,
}

impl Watched {
    fn wants(&self, event: &Expected) -> bool {
        let key = name(event.key).into_bytes();
        let holds = match &self.keys {
            Keys::One(one) => one[..] == key[..],
            Keys::Range(start, end) => {
                use crate::server::watch::ranges::End;
                start[..] <= key[..]
                    && match end {
                        End::Before(end) => key[..] < end[..],
                        End::Never => true,
                    }
            }
        };
        let kind = if event.put.is_some() { self.puts } else { self.deletions };
        holds && kind && event.revision >= self.from
    }
}

fn name(key: u8) -> String {
    format!("k{key}")
}

struct World {
    node: Node,
    content: BTreeMap<u8, KeyValue>,
    history: Vec<Expected>,
    compacted: i64,
    clients: Vec<Client>,
    watches: Vec<BTreeMap<i64, Watched>>,
    /// At which revision progress was asked for, and the newest answer.
    asked: Vec<Vec<i64>>,
    answered: Vec<i64>,
    /// Created, but the answer is not read yet: in order.
    creating: Vec<Vec<Watched>>,
}

impl World {
    fn new() -> Self {
        let node = Node::new();
        let clients: Vec<_> = (0..3).map(|_| node.client(BOUNDS)).collect();
        Self {
            node,
            content: BTreeMap::new(),
            history: Vec::new(),
            compacted: -1,
            clients,
            watches: (0..3).map(|_| BTreeMap::new()).collect(),
            asked: vec![Vec::new(); 3],
            answered: vec![0; 3],
            creating: (0..3).map(|_| Vec::new()).collect(),
        }
    }

    fn revision(&self) -> i64 {
        self.node.reader.revision()
    }

    fn happen(&mut self, key: u8, value: Option<String>, revision: i64) {
        let before = self.content.get(&key).cloned();
        let put = value.map(|value| KeyValue {
            key: name(key).into(),
            create_revision: before.as_ref().map_or(revision, |kv| kv.create_revision),
            mod_revision: revision,
            version: before.as_ref().map_or(1, |kv| kv.version + 1),
            value: value.into(),
            lease: 0,
        });
        match &put {
            Some(kv) => drop(self.content.insert(key, kv.clone())),
            None => drop(self.content.remove(&key)),
        }
        self.history.push(Expected { revision, key, put, before });
    }

    fn act(&mut self, doing: Doing) -> Result<(), TestCaseError> {
        let next = self.revision() + 1;
        match doing {
            Doing::Put(key, value) => {
                let value = "v".repeat(usize::from(value));
                self.happen(key, Some(value.clone()), next);
                self.node.put(&name(key), &value);
            }
            Doing::Delete(key, end) => {
                let gone: Vec<u8> = self.content.range(key..end.max(key)).map(|it| *it.0).collect();
                gone.into_iter().for_each(|key| self.happen(key, None, next));
                let (key, end) = (name(key), name(end.max(key)));
                if key < end {
                    self.node.apply(Action::DeleteRange(delete(&key, &end)));
                }
            }
            Doing::Txn(a, b, c) => {
                let mut keys = vec![a];
                keys.extend((b != a).then_some(b));
                let mut requests = Vec::new();
                for key in &keys {
                    self.happen(*key, Some("t".to_owned()), next);
                    requests.push(Request::RequestPut(put(&name(*key), "t")));
                }
                if !keys.contains(&c) {
                    if self.content.contains_key(&c) {
                        self.happen(c, None, next);
                    }
                    requests.push(Request::RequestDeleteRange(delete(&name(c), "")));
                }
                self.node.apply(txn(requests));
            }
            Doing::Compact(back) => {
                let revision = self.revision() - back;
                if revision > self.compacted && revision > 0 {
                    self.compacted = revision;
                    self.node.apply(compact(revision));
                }
            }
            Doing::Flush => self.node.store.flush().expect("the store works"),
            Doing::Create { client, key, end, start, kinds, previous } => {
                self.create(client, key, end, &start, kinds, previous);
            }
            Doing::Cancel(client, id) => {
                if !self.clients[client].queue.is_full() {
                    self.node.hub.cancel(self.clients[client].stream, id);
                }
            }
            Doing::AskProgress(client) => {
                if !self.clients[client].queue.is_full() {
                    let revision = self.revision();
                    self.asked[client].push(revision);
                    self.node.hub.ask_progress(self.clients[client].stream);
                }
            }
            Doing::Live => drop(self.node.hub.live(On::Thread).expect("the store works")),
            Doing::Past => drop(self.node.hub.past(On::Thread).expect("the store works")),
            Doing::Read(client, count) => {
                for _ in 0..count {
                    let Some(reply) = self.node.read(&self.clients[client]) else { break };
                    self.on_reply(client, reply)?;
                }
            }
        }
        for client in &self.clients {
            let (replies, bytes) = client.queue.weight();
            // One answer to a progress request, and one reply that is larger than the bound.
            prop_assert!(replies <= BOUNDS.replies + 1, "{replies} replies wait");
            prop_assert!(bytes <= BOUNDS.bytes + (64 << 10), "{bytes} bytes wait");
        }
        Ok(())
    }

    fn create(
        &mut self,
        client: usize,
        key: u8,
        end: u8,
        start: &Start,
        kinds: u8,
        previous: bool,
    ) {
        if self.clients[client].queue.is_full() {
            return;
        }
        let revision = self.revision();
        let start = match start {
            Start::Now => 0,
            Start::Past(back) => (revision - back).max(1),
            Start::Future(ahead) => revision + ahead,
        };
        let end = match end {
            6 => String::new(),
            7 => "\0".to_owned(),
            end => name(end),
        };
        let wants = Wants { puts: kinds != 0, deletions: kinds != 1, previous, ..Wants::default() };
        let create = Create { wants, ..create(&name(key), &end, start) };
        if let Some(keys) = create.keys.clone() {
            let from = if start == 0 { revision + 1 } else { start };
            let (puts, deletions) = (wants.puts, wants.deletions);
            let (got, is_over) = (Vec::new(), false);
            let watched = Watched { keys, from, puts, deletions, previous, got, is_over };
            self.creating[client].push(watched);
        }
        self.node.hub.create(self.clients[client].stream, create);
    }

    fn on_reply(&mut self, client: usize, reply: Reply) -> Result<(), TestCaseError> {
        let id = reply.watch_id;
        match reply.content {
            Content::Created => {
                let watched = self.creating[client].remove(0);
                self.watches[client].insert(id, watched);
            }
            Content::Refused(_) => prop_assert_eq!(id, -1),
            Content::Events(happenings, showing) => {
                let compacted = self.compacted;
                let watched = self.watches[client].get_mut(&id).expect("created comes first");
                prop_assert!(!watched.is_over, "events after the end");
                prop_assert_eq!(showing.previous, watched.previous);
                let last = watched.got.last().map_or(0, |last| last.revision());
                prop_assert!(happenings[0].revision() > last, "a revision is split");
                prop_assert!(reply.revision >= happenings[happenings.len() - 1].revision());
                for happening in &happenings {
                    prop_assert_eq!(
                        check(happening, &self.history, compacted, showing.previous),
                        ""
                    );
                }
                watched.got.extend(happenings);
            }
            Content::Canceled => {
                let watched = self.watches[client].get_mut(&id).expect("it was there");
                watched.is_over = true;
                self.check(client, id, None)?;
            }
            Content::Compacted(compacted) => {
                prop_assert_eq!(reply.revision, 0);
                self.check(client, id, None)?;
                let watched = self.watches[client].get_mut(&id).expect("it was there");
                watched.is_over = true;
                // What is missing first is before the compaction, or nothing is known of it.
                let missing = self.history.iter().filter(|event| watched.wants(event));
                let missing = missing.map(|event| event.revision).nth(watched.got.len());
                let from = watched.got.last().map_or(watched.from, |last| last.revision() + 1);
                prop_assert!(from < compacted && compacted <= self.compacted, "{missing:?}");
            }
            Content::Progress => {
                prop_assert_eq!(id, -1);
                // Requests that come while one waits get an answer together with it.
                let asked = self.asked[client].remove(0);
                prop_assert!(reply.revision >= asked);
                self.answered[client] = reply.revision;
                let ids: Vec<i64> = self.watches[client].keys().copied().collect();
                for id in ids {
                    self.check(client, id, Some(reply.revision))?;
                }
            }
        }
        Ok(())
    }

    /// What the watch has is the beginning of what it should have: up to `until`, if that is known.
    fn check(&self, client: usize, id: i64, until: Option<i64>) -> Result<(), TestCaseError> {
        let watched = &self.watches[client][&id];
        let expected = self.history.iter().filter(|event| watched.wants(event));
        let expected: Vec<_> = expected.map(|event| (event.revision, event.key)).collect();
        let got = watched.got.iter().map(|it| {
            let key = std::str::from_utf8(it.key()).expect("a name");
            (it.revision(), key[1..].parse::<u8>().expect("a number"))
        });
        let got: Vec<_> = got.collect();
        prop_assert!(expected.starts_with(&got), "got {got:?}, expected {expected:?}");
        if let Some(until) = until.filter(|_| !watched.is_over) {
            let due = expected.iter().filter(|(revision, _)| *revision <= until).count();
            prop_assert!(got.len() >= due, "got {got:?}, expected {expected:?} up to {until}");
            prop_assert!(watched.from <= until + 1, "it has not begun");
        }
        Ok(())
    }

    /// Everybody reads until there is nothing more to read.
    fn finish(mut self) -> Result<(), TestCaseError> {
        loop {
            self.node.settle();
            let mut is_over = true;
            for client in 0..self.clients.len() {
                while let Some(reply) = self.node.read(&self.clients[client]) {
                    self.on_reply(client, reply)?;
                    is_over = false;
                }
            }
            if is_over {
                break;
            }
        }
        for client in 0..self.clients.len() {
            prop_assert!(self.creating[client].is_empty(), "an answer is missing");
            for id in self.watches[client].keys() {
                let watched = &self.watches[client][id];
                let until = Some(self.revision()).filter(|it| watched.from <= it + 1);
                self.check(client, *id, until)?;
            }
            let mut running = self.watches[client].values().filter(|watched| !watched.is_over);
            if running.all(|watched| watched.from <= self.revision() + 1) {
                let answered = self.answered[client];
                prop_assert!(self.asked[client].iter().all(|asked| *asked <= answered));
            }
        }
        Ok(())
    }
}

/// What is wrong with an event, if anything is.
fn check(
    it: &Happening,
    history: &[Expected],
    compacted: i64,
    with_previous: bool,
) -> &'static str {
    let named = |event: &&Expected| {
        event.revision == it.revision() && name(event.key).as_bytes() == it.key()
    };
    let Some(event) = history.iter().find(named) else { return "it never happened" };
    let kv = it.event.kv.as_ref();
    let is_same = match &event.put {
        Some(put) => kv == Some(put),
        None => kv.is_some_and(|kv| kv.version == 0 && kv.create_revision == 0),
    };
    let before = match &it.previous {
        Previous::Was(kv) => event.before.as_ref() == Some(kv),
        Previous::Nothing => event.before.is_none() || event.revision <= compacted,
        Previous::Unread => !with_previous,
    };
    match (is_same, before) {
        (true, true) => "",
        (false, _) => "another thing happened",
        (true, false) => "another thing was there before",
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]
    #[test]
    fn every_watch_gets_what_it_should_in_order_and_once(
        doings in prop::collection::vec(doing(), 1..150),
    ) {
        let mut world = World::new();
        for doing in doings {
            world.act(doing)?;
        }
        world.finish()?;
    }
}
