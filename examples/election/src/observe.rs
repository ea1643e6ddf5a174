//! Who leads, revision after revision: the holder is the key of the election that was created
//! first. It never takes the last event for the truth: a candidate that joins or goes changes
//! nothing, and of one that leads it is told again only when it shows another value.
//!
//! *Guarantees*: what is told of a revision was true in the cluster at that revision, "nobody"
//! included; no holder between two revisions is left out, unless history was compacted meanwhile.
//! *Not guaranteed*: that it is still so, or that the holder knows it. *Costs*: one watch, and
//! memory for the keys of the candidates.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use kontiki_client::proto::etcdserverpb::{RangeRequest, WatchCreateRequest};
use kontiki_client::proto::mvccpb::event::EventType;
use kontiki_client::proto::mvccpb::{Event, KeyValue};
use kontiki_client::{Client, ClientError, WatchError, Watcher};

use crate::fence::{Fence, Token};

/// Who holds, as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The key of the holder, and its token.
    pub fence: Fence,
    /// What it shows.
    pub value: Bytes,
    /// The lease that it goes with.
    pub lease: i64,
}

/// Who held at a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The store's revision from which on this is so.
    pub revision: i64,
    /// `None`: nobody.
    pub holder: Option<Holder>,
}

/// Why there is nothing more to observe for now.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The watch has ended, and would again.
    #[error(transparent)]
    Watch(WatchError),
    /// No endpoint answers; asked again, it goes on where it was.
    #[error(transparent)]
    Store(#[from] ClientError),
}

/// Follows one election.
#[derive(Debug)]
pub struct Observer {
    client: Client,
    prefix: Bytes,
    candidates: Candidates,
    watcher: Option<Watcher>,
    /// What one answer of the watch told, until it is asked for.
    due: VecDeque<Observation>,
}

/// The keys of an election at one revision.
#[derive(Debug, Default)]
struct Candidates {
    by_key: BTreeMap<Bytes, KeyValue>,
    told: Option<Option<Holder>>,
}

impl From<KeyValue> for Holder {
    fn from(kv: KeyValue) -> Self {
        let fence = Fence::new(kv.key, Token::of_revision(kv.create_revision));
        Self { fence, value: kv.value, lease: kv.lease }
    }
}

impl Observer {
    pub(crate) async fn open(client: &Client, prefix: Bytes) -> Result<Self, ClientError> {
        let client = client.clone();
        let (candidates, due) = (Candidates::default(), VecDeque::new());
        let mut observer = Self { client, prefix, candidates, watcher: None, due };
        observer.reread().await?;
        Ok(observer)
    }

    /// Who holds now, the first time; then each change, in the order of revisions. Waits as long
    /// as there is none; may be dropped and called again without a loss.
    ///
    /// # Errors
    /// When the watch is refused, or after a compaction nobody answers.
    pub async fn next(&mut self) -> Result<Observation, ObserveError> {
        loop {
            if let Some(observation) = self.due.pop_front() {
                return Ok(observation);
            }
            let Some(watcher) = &mut self.watcher else {
                self.reread().await?;
                continue;
            };
            match watcher.next().await {
                Ok(changes) => self.due.extend(self.candidates.follow(changes.events)),
                Err(WatchError::Compacted { .. }) => self.watcher = None,
                Err(error) => return Err(ObserveError::Watch(error)),
            }
        }
    }

    /// Starts from what is there now, and watches from the revision behind.
    async fn reread(&mut self) -> Result<(), ClientError> {
        let answer = self.client.range(RangeRequest::prefix(self.prefix.clone())).await?;
        let revision = answer.header.map_or(0, |header| header.revision);
        let watch = WatchCreateRequest::prefix(self.prefix.clone()).from_revision(revision + 1);
        self.watcher = Some(self.client.watch(watch).await?);
        self.candidates.by_key = answer.kvs.into_iter().map(|kv| (kv.key.clone(), kv)).collect();
        self.due.extend(self.candidates.tell(revision));
        Ok(())
    }
}

impl Candidates {
    /// Takes events in, those of one revision as one step.
    fn follow(&mut self, events: Vec<Event>) -> Vec<Observation> {
        let mut observations = Vec::new();
        let mut events = events.into_iter().peekable();
        while let Some(event) = events.next() {
            let deletes = event.r#type() == EventType::Delete;
            let Some(kv) = event.kv else { continue };
            let revision = kv.mod_revision;
            if deletes {
                self.by_key.remove(&kv.key);
            } else {
                self.by_key.insert(kv.key.clone(), kv);
            }
            let next = events.peek().and_then(|event| event.kv.as_ref());
            if next.is_none_or(|next| next.mod_revision != revision) {
                observations.extend(self.tell(revision));
            }
        }
        observations
    }

    /// Who holds, if that was not told last.
    fn tell(&mut self, revision: i64) -> Option<Observation> {
        // Two keys of one transaction have one creation; of them the server sorts by key.
        let first = self.by_key.values().min_by_key(|kv| kv.create_revision);
        let holder = first.cloned().map(Holder::from);
        if self.told.as_ref() == Some(&holder) {
            return None;
        }
        self.told = Some(holder.clone());
        Some(Observation { revision, holder })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &'static str, created: i64, revision: i64, value: &'static str) -> Event {
        let kv = KeyValue {
            key: Bytes::from_static(key.as_bytes()),
            value: Bytes::from_static(value.as_bytes()),
            create_revision: created,
            mod_revision: revision,
            ..KeyValue::default()
        };
        Event { r#type: EventType::Put.into(), kv: Some(kv), prev_kv: None }
    }

    fn delete(key: &'static str, revision: i64) -> Event {
        Event { r#type: EventType::Delete.into(), ..put(key, 0, revision, "") }
    }

    fn told(events: Vec<Event>) -> Vec<(i64, Option<String>)> {
        let show = |holder: Holder| String::from_utf8_lossy(&holder.value).into_owned();
        let mut candidates = Candidates::default();
        let told = candidates.follow(events).into_iter();
        told.map(|seen| (seen.revision, seen.holder.map(show))).collect()
    }

    #[test]
    fn the_first_created_holds_whoever_wrote_last() {
        let events = vec![
            put("e/b", 2, 2, "b"),
            put("e/a", 3, 3, "a"),  // waits
            put("e/b", 2, 4, "b2"), // proclaims
            put("e/a", 3, 5, "a2"), // waits on
            delete("e/b", 6),
            delete("e/a", 7),
        ];
        let name = |name: &str| Some(name.to_owned());
        let expected = [(2, name("b")), (4, name("b2")), (6, name("a2")), (7, None)];
        assert_eq!(told(events), expected);
    }

    #[test]
    fn what_one_revision_does_is_one_step() {
        let events = vec![
            put("e/a", 2, 2, "a"),
            delete("e/a", 3),
            put("e/b", 3, 3, "b"), // in the transaction of the deletion
        ];
        let expected = [(2, Some("a".to_owned())), (3, Some("b".to_owned()))];
        assert_eq!(told(events), expected);
    }

    #[test]
    fn a_new_incarnation_with_the_same_value_is_told() {
        let events = vec![put("e/a", 2, 2, "a"), delete("e/a", 3), put("e/a", 4, 4, "a")];
        let holder = Some("a".to_owned());
        assert_eq!(told(events), [(2, holder.clone()), (3, None), (4, holder)]);
    }
}
