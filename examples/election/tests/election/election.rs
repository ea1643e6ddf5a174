//! Stories of elections: what leaders say, and what others see.

use std::time::Duration;

use kontiki_client::proto::etcdserverpb::{CompactionRequest, DeleteRangeRequest, PutRequest};
use kontiki_election::{AcquireError, Election, FencedError, Session, Token};
use tokio::time::timeout;

use crate::system::Store;
use crate::{each_system, patiently, session_of};

each_system!(
    it_can_be_resigned_twice_and_the_newer_one_stays,
    what_a_leader_proclaims_is_seen,
    observers_see_every_holder_and_nobody,
    observers_go_on_after_a_compaction,
    a_leader_can_ask_whether_it_still_leads,
);

async fn lead(session: &Session, value: &str) -> kontiki_election::Leadership {
    let election = Election::new(session, "e");
    patiently("it leads", election.campaign(value.to_owned())).await.expect("leads")
}

async fn it_can_be_resigned_twice_and_the_newer_one_stays(store: &Store) {
    let session = session_of(&store.client(), 20).await;
    let old = lead(&session, "old").await;
    assert!(old.is_held());
    old.resign().await.expect("resigned");
    assert!(!old.is_held());
    // The same key, put there anew.
    let new = lead(&session, "new").await;
    assert_eq!(old.fence().key(), new.fence().key());
    assert!(new.token() > old.token());
    old.resign().await.expect("once more, for nothing");
    drop(old);
    tokio::time::sleep(Duration::from_millis(300)).await;
    new.confirm().await.expect("it still leads");
}

/// The first resignation is executed and its answer never comes; the second must not be harm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resignation_that_is_repeated_late_deletes_no_newer_key() {
    let Some(store) = Store::etcd().await else { return };
    let session = session_of(&store.client(), 20).await;
    let old = lead(&session, "old").await;
    let key = old.fence().key().clone();
    store.client().delete(DeleteRangeRequest::key(key.clone())).await.expect("deleted");
    let put = PutRequest::new(key.clone(), "newer").with_lease(session.lease());
    store.client().put(put).await.expect("written");
    old.resign().await.expect("resigned");
    assert!(store.client().get(key).await.expect("read").is_some(), "another's key is left alone");
}

async fn what_a_leader_proclaims_is_seen(store: &Store) {
    let session = session_of(&store.client(), 20).await;
    let election = Election::new(&session, "e");
    assert_eq!(election.leader().await.expect("read"), None);
    let leadership = lead(&session, "one").await;
    leadership.proclaim("two").await.expect("proclaimed");
    let leader = election.leader().await.expect("read").expect("somebody");
    assert_eq!((&leader.value[..], leader.fence.token()), (&b"two"[..], leadership.token()));
    assert_eq!(leader.lease, session.lease());

    leadership.resign().await.expect("resigned");
    let refused = leadership.proclaim("three").await.expect_err("it leads no more");
    assert!(matches!(refused, FencedError::Stale(token) if token == leadership.token()));
    assert_eq!(election.leader().await.expect("read"), None);
}

async fn observers_see_every_holder_and_nobody(store: &Store) {
    let client = store.client();
    let mut observer = Election::observe(&client, "e").await.expect("observes");
    let (a, b) = (session_of(&client, 20).await, session_of(&client, 20).await);
    let first = lead(&a, "a").await;
    let waiting = tokio::spawn({
        let b = b.clone();
        async move { Election::new(&b, "e").campaign("b").await }
    });
    first.proclaim("a2").await.expect("proclaimed");
    let other = PutRequest::new("elsewhere", "");
    client.put(other).await.expect("written");
    crate::until("b waits", async || {
        let all = kontiki_client::proto::etcdserverpb::RangeRequest::prefix("e/");
        client.range(all).await.is_ok_and(|answer| answer.kvs.len() == 2)
    })
    .await;
    first.resign().await.expect("resigned");
    let second = patiently("b leads", waiting).await.expect("no panic").expect("leads");
    b.close().await.expect("closed");

    let mut seen: Vec<(i64, Option<(String, Token)>)> = Vec::new();
    for _ in 0..5 {
        let next = patiently("an observation", observer.next()).await.expect("observed");
        let holder = next.holder.map(|holder| {
            (String::from_utf8_lossy(&holder.value).into_owned(), holder.fence.token())
        });
        seen.push((next.revision, holder));
    }
    let (one, two) = (first.token(), second.token());
    let told: Vec<_> = seen.iter().map(|(_, holder)| holder.clone()).collect();
    let expected = [
        None,
        Some(("a".to_owned(), one)),
        Some(("a2".to_owned(), one)),
        Some(("b".to_owned(), two)),
        None,
    ];
    assert_eq!(told, expected);
    assert!(seen.is_sorted_by(|(one, _), (other, _)| one < other), "in order: {seen:?}");
    assert_eq!(seen[1].0, i64::try_from(one.0).expect("small"), "at the revision itself");
    assert!(timeout(Duration::from_millis(300), observer.next()).await.is_err(), "no more");
}

async fn observers_go_on_after_a_compaction(store: &Store) {
    let client = store.client();
    let proxy = store.proxy().await;
    let observed = crate::client(&[proxy.port()]);
    let mut observer = Election::observe(&observed, "e").await.expect("observes");
    let nobody = patiently("an observation", observer.next()).await.expect("observed");
    assert_eq!(nobody.holder, None);
    proxy.cut();
    let session = session_of(&client, 20).await;
    for value in ["a", "b"] {
        lead(&session, value).await.resign().await.expect("resigned");
    }
    let last = lead(&session, "c").await;
    let now = client.put(PutRequest::new("x", "")).await.expect("written").header;
    let revision = now.expect("every answer has one").revision;
    let request = CompactionRequest { revision, physical: false };
    client.compact(request).await.expect("compacted");
    proxy.open();
    let seen = patiently("an observation", async {
        loop {
            match observer.next().await {
                Ok(seen) if seen.holder.is_some() => return seen,
                Ok(_) => {}
                Err(error) => println!("not yet: {error}"),
            }
        }
    })
    .await;
    let holder = seen.holder.expect("somebody");
    assert_eq!((holder.fence.token(), &holder.value[..]), (last.token(), &b"c"[..]));
}

async fn a_leader_can_ask_whether_it_still_leads(store: &Store) {
    let session = session_of(&store.client(), 20).await;
    let leadership = lead(&session, "a").await;
    leadership.confirm().await.expect("it does");
    let key = leadership.fence().key().clone();
    store.client().delete(DeleteRangeRequest::key(key)).await.expect("deleted");
    let refused = leadership.confirm().await.expect_err("its key is gone");
    assert!(matches!(refused, AcquireError::Removed), "{refused}");
    session.close().await.expect("closed");
    let refused = leadership.confirm().await.expect_err("its session is");
    assert!(matches!(refused, AcquireError::Lost(_)), "{refused}");
}
