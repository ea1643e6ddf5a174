//! Stories of the queue behind elections and locks: in order, one at a time, and nobody holds who
//! has lost what it stood on.

use std::time::Duration;

use bytes::Bytes;
use kontiki_client::proto::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, TxnRequest,
};
use kontiki_election::{AcquireError, Election, FencedError, Mutex, Protected, Token};
use tokio::time::{sleep, timeout};

use crate::system::Store;
use crate::{client, each_system, patiently, session, session_of, until};

each_system!(
    holders_come_in_the_order_of_their_tokens_and_one_at_a_time,
    a_waiter_whose_own_lease_runs_out_never_leads,
    a_waiter_whose_key_was_deleted_never_leads,
    when_one_in_the_middle_goes_the_next_still_waits,
    a_holder_that_dies_is_followed_when_its_lease_has_run_out,
    an_answer_that_is_lost_is_found_again,
    a_first_write_that_is_never_answered_is_done_once,
    a_campaign_that_is_dropped_leaves_the_queue,
    tasks_of_one_session_wait_for_each_other,
    other_programs_stand_in_the_same_queue,
);

/// How many keys an election has.
async fn candidates(store: &Store, name: &str) -> usize {
    let all = RangeRequest::prefix(format!("{name}/"));
    store.client().range(all).await.map_or(0, |answer| answer.kvs.len())
}

async fn holders_come_in_the_order_of_their_tokens_and_one_at_a_time(store: &Store) {
    const HOLDERS: usize = 8;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("work.db");
    let mut tasks = Vec::new();
    for at in 0..HOLDERS {
        let (client, path) = (store.client(), path.clone());
        tasks.push(tokio::spawn(async move {
            let session = session_of(&client, 20).await;
            let held = Mutex::new(&session, "turn").lock().await.expect("it is held");
            let mut log = Protected::open(&path).expect("a database");
            let mut write = |what| {
                log.append(held.token(), &at.to_string(), &format!("{what} {at}")).expect(what)
            };
            write("begin");
            sleep(Duration::from_millis(10)).await;
            write("end");
            held.unlock().await.expect("unlocked");
            held.token()
        }));
    }
    let mut tokens = Vec::new();
    for task in tasks {
        tokens.push(patiently("a turn", task).await.expect("no panic"));
    }
    let log = Protected::open(&path).expect("a database").work(1, 100).expect("read");
    assert_eq!(log.len(), 2 * HOLDERS);
    for turn in log.chunks(2) {
        assert_eq!(turn[0].writer, turn[1].writer, "nobody is in between: {turn:?}");
        assert_eq!(turn[0].request, format!("begin {}", turn[0].writer));
    }
    assert!(log.is_sorted_by_key(|work| work.token), "in the order of their creation");
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), HOLDERS, "each has its own token");
}

/// The waiter is cut off until its lease has run out, and the holder goes meanwhile.
async fn a_waiter_whose_own_lease_runs_out_never_leads(store: &Store) {
    let holder = session_of(&store.client(), 30).await;
    let first = Election::new(&holder, "e").campaign("first").await.expect("leads");

    let proxy = store.proxy().await;
    let waiter = session(&client(&[proxy.port()])).await;
    let waiting = waiter.clone();
    let campaign =
        tokio::spawn(async move { Election::new(&waiting, "e").campaign("second").await });
    until("both are in the queue", async || candidates(store, "e").await == 2).await;
    proxy.hold();
    patiently("the waiter's session is lost", waiter.lost().cancelled()).await;
    until("and its lease", async || candidates(store, "e").await == 1).await;
    first.resign().await.expect("resigned");
    proxy.open();
    let outcome = patiently("the wait ends", campaign).await.expect("no panic");
    assert!(matches!(outcome, Err(AcquireError::Lost(_))), "{outcome:?}");
    assert_eq!(candidates(store, "e").await, 0);
}

/// It hears of nothing but that the one before it has gone.
async fn a_waiter_whose_key_was_deleted_never_leads(store: &Store) {
    let holder = session_of(&store.client(), 30).await;
    let first = Election::new(&holder, "e").campaign("first").await.expect("leads");
    let waiter = session_of(&store.client(), 30).await;
    let key = format!("e/{:x}", waiter.lease());
    let waiting = tokio::spawn(async move { Election::new(&waiter, "e").campaign("second").await });
    until("both are in the queue", async || candidates(store, "e").await == 2).await;
    store.client().delete(DeleteRangeRequest::key(key)).await.expect("deleted");
    first.resign().await.expect("resigned");
    let outcome = patiently("the wait ends", waiting).await.expect("no panic");
    assert!(matches!(outcome, Err(AcquireError::Removed)), "{outcome:?}");
}

async fn when_one_in_the_middle_goes_the_next_still_waits(store: &Store) {
    let [a, b, c] = [(), (), ()].map(|()| store.client());
    let (a, b, c) = (session(&a).await, session(&b).await, session(&c).await);
    let first = Mutex::new(&a, "m").lock().await.expect("held");
    let middle = tokio::spawn({
        let b = b.clone();
        async move { Mutex::new(&b, "m").lock().await.map(drop) }
    });
    until("the second waits", async || candidates(store, "m").await == 2).await;
    let mut last = tokio::spawn(async move { Mutex::new(&c, "m").lock().await });
    until("the third waits", async || candidates(store, "m").await == 3).await;

    b.close().await.expect("closed");
    let lost = patiently("the second hears of it", middle).await.expect("no panic");
    assert!(matches!(lost, Err(AcquireError::Lost(_))), "{lost:?}");
    assert!(timeout(Duration::from_secs(1), &mut last).await.is_err(), "the first still holds");
    assert!(first.is_held());
    first.unlock().await.expect("unlocked");
    let last = patiently("its turn", last).await.expect("no panic").expect("held");
    assert!(last.token() > first.token());
}

async fn a_holder_that_dies_is_followed_when_its_lease_has_run_out(store: &Store) {
    let proxy = store.proxy().await;
    let holder = session(&client(&[proxy.port()])).await;
    let first = Election::new(&holder, "e").campaign("first").await.expect("leads");
    let next = session(&store.client()).await;
    proxy.hold();
    let election = Election::new(&next, "e");
    let second = patiently("it is followed", election.campaign("second")).await.expect("leads");
    assert!(!first.is_held() && first.lost().is_cancelled(), "it knew before the other led");
    assert!(second.token() > first.token() && second.is_held());
}

/// The first write is done and its answer lost; what it did is found, not done again.
async fn an_answer_that_is_lost_is_found_again(store: &Store) {
    let proxy = store.proxy().await;
    let session = session_of(&client(&[proxy.port()]), 20).await;
    let key = format!("e/{:x}", session.lease());
    // As the first attempt left it, before the connection broke.
    let put = PutRequest::new(key.clone(), "older").with_lease(session.lease());
    let written = store.client().put(put).await.expect("written");
    let created = written.header.expect("every answer has one").revision;
    proxy.cut();
    let campaign = tokio::spawn({
        let session = session.clone();
        async move { Election::new(&session, "e").campaign("newer").await }
    });
    sleep(Duration::from_millis(200)).await;
    proxy.open();
    let leadership = patiently("it leads", campaign).await.expect("no panic").expect("leads");
    assert_eq!(leadership.token(), Token(u64::try_from(created).expect("positive")));
    let kv = store.client().get(key).await.expect("read").expect("there");
    assert_eq!((kv.value, kv.create_revision), (Bytes::from("newer"), created));
    assert_eq!(kv.lease, session.lease());
}

/// Requests arrive and answers do not, until the client has asked more than once.
async fn a_first_write_that_is_never_answered_is_done_once(store: &Store) {
    let proxy = store.proxy().await;
    let session = session_of(&client(&[proxy.port()]), 30).await;
    proxy.mute();
    let campaign = tokio::spawn({
        let session = session.clone();
        async move { Election::new(&session, "e").campaign("a").await }
    });
    until("it was executed", async || candidates(store, "e").await == 1).await;
    sleep(Duration::from_millis(1500)).await; // A call ends after a second, and is made again.
    assert!(!campaign.is_finished(), "nobody told it");
    let kv = store.client().get(format!("e/{:x}", session.lease())).await.expect("read");
    let created = kv.expect("there").create_revision;
    proxy.open();
    let leadership = patiently("it leads", campaign).await.expect("no panic").expect("leads");
    assert_eq!(leadership.token(), Token(u64::try_from(created).expect("positive")));
    leadership.confirm().await.expect("with the key of the first write");
    assert_eq!(candidates(store, "e").await, 1);
}

async fn a_campaign_that_is_dropped_leaves_the_queue(store: &Store) {
    let (holder, waiter) = (session(&store.client()).await, session(&store.client()).await);
    let first = Election::new(&holder, "e").campaign("first").await.expect("leads");
    let election = Election::new(&waiter, "e");
    let campaign = timeout(Duration::from_millis(500), election.campaign("second")).await;
    assert!(campaign.is_err(), "it waits");
    until("it has left", async || candidates(store, "e").await == 1).await;
    drop(first);
    until("so has a leadership that is dropped", async || candidates(store, "e").await == 0).await;
    let again = patiently("it leads", election.campaign("second")).await;
    again.expect("nothing is in the way");
}

async fn tasks_of_one_session_wait_for_each_other(store: &Store) {
    let session = session_of(&store.client(), 20).await;
    let mutex = Mutex::new(&session, "m");
    let first = mutex.lock().await.expect("held");
    let waiting = mutex.clone();
    let mut second = tokio::spawn(async move { waiting.lock().await });
    assert!(timeout(Duration::from_millis(500), &mut second).await.is_err(), "it is held");
    first.unlock().await.expect("unlocked");
    let second = patiently("its turn", second).await.expect("no panic").expect("held");
    assert!(second.token() > first.token() && !first.is_held() && second.is_held());
    first.unlock().await.expect("the old one does nothing");
    second.fence().write(&store.client(), TxnRequest::default()).await.expect("still held");
}

/// Somebody else's key of the same queue, with whatever name after the slash.
async fn other_programs_stand_in_the_same_queue(store: &Store) {
    let client = store.client();
    client.put(PutRequest::new("m/other-program", "")).await.expect("written");
    let session = session(&client).await;
    let mutex = Mutex::new(&session, "m");
    assert!(mutex.try_lock().await.expect("answered").is_none(), "somebody is there");
    let waiting = mutex.clone();
    let mut lock = tokio::spawn(async move { waiting.lock().await });
    assert!(timeout(Duration::from_millis(500), &mut lock).await.is_err(), "it waits for it");
    client.delete(DeleteRangeRequest::key("m/other-program")).await.expect("deleted");
    let held = patiently("its turn", lock).await.expect("no panic").expect("held");

    // Whose token is not the one in force writes nothing, not even beside its own conditions.
    let fence = kontiki_election::Fence::new("m/other-program", Token(1));
    let txn = TxnRequest::when([Compare::create_revision("x", 0)]).then(PutRequest::new("x", "1"));
    let stale = fence.write(&client, txn.clone()).await.expect_err("stale");
    assert!(matches!(stale, FencedError::Stale(Token(1))), "{stale}");
    assert!(held.fence().write(&client, txn.clone()).await.expect("written").succeeded);
    let again = held.fence().write(&client, txn).await.expect("answered");
    assert!(!again.succeeded, "its own condition does not hold, and that is an answer");
}
