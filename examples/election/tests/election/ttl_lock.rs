//! Stories of the lock with a time to live.

use std::time::Duration;

use kontiki_client::proto::etcdserverpb::{DeleteRangeRequest, PutRequest};
use kontiki_election::TtlLock;
use kontiki_election::ttl_lock::{RenewError, TtlHeld};
use tokio::time::sleep;

use crate::system::Store;
use crate::{client, each_system, patiently};

each_system!(
    one_has_it_and_each_acquisition_counts,
    it_is_renewed_by_its_owner_only,
    it_ends_by_itself,
    an_acquisition_whose_answer_is_lost_is_found_or_ends,
);

const TTL: Duration = Duration::from_secs(2);

async fn acquire(lock: &TtlLock) -> TtlHeld {
    patiently("the lock", async {
        loop {
            match lock.acquire().await {
                Ok(Some(held)) => return held,
                Ok(None) => sleep(Duration::from_millis(50)).await,
                Err(error) => println!("not yet: {error}"),
            }
        }
    })
    .await
}

async fn one_has_it_and_each_acquisition_counts(store: &Store) {
    let (one, other) = (
        TtlLock::new(&store.client(), "lock", TTL * 10),
        TtlLock::new(&store.client(), "lock", TTL * 10),
    );
    let mut last = 0;
    for lock in [&one, &other, &other, &one] {
        let held = lock.acquire().await.expect("answered").expect("it is free");
        assert!(held.is_valid());
        assert_eq!(held.token().0, last + 1, "each counts one");
        last = held.token().0;
        assert!(one.acquire().await.expect("answered").is_none(), "and the others wait");
        assert!(held.release().await.expect("answered"), "it was the owner's");
        assert!(!held.is_valid());
        assert!(!held.release().await.expect("answered"), "and is no longer");
    }
}

async fn it_is_renewed_by_its_owner_only(store: &Store) {
    let lock = TtlLock::new(&store.client(), "lock", TTL);
    let held = acquire(&lock).await;
    for _ in 0..6 {
        sleep(TTL / 3).await;
        held.renew().await.expect("renewed");
    }
    assert!(held.is_valid() && lock.acquire().await.expect("answered").is_none());

    // Somebody breaks the lock, and another takes it.
    let client = store.client();
    client.delete(DeleteRangeRequest::key("lock")).await.expect("deleted");
    let other = acquire(&lock).await;
    let lost = held.renew().await.expect_err("it is another's");
    assert!(matches!(lost, RenewError::Lost), "{lost}");
    assert!(!held.is_valid());
    assert!(!held.release().await.expect("answered"), "it does not release another's");
    assert!(other.is_valid() && other.token() > held.token());
    other.renew().await.expect("it is still the other's");
}

async fn it_ends_by_itself(store: &Store) {
    let lock = TtlLock::new(&store.client(), "lock", TTL);
    let old = acquire(&lock).await;
    let new = acquire(&lock).await;
    assert!(!old.is_valid(), "its own clock said so before another could have it");
    let lost = old.renew().await.expect_err("too late");
    assert!(matches!(lost, RenewError::Lost), "{lost}");
    assert!(new.token() > old.token());
}

async fn an_acquisition_whose_answer_is_lost_is_found_or_ends(store: &Store) {
    let proxy = store.proxy().await;
    let lock = TtlLock::new(&client(&[proxy.port()]), "lock", TTL);
    proxy.hold();
    let acquired = lock.acquire().await;
    assert!(acquired.is_err(), "nobody answers: {acquired:?}");
    proxy.open();
    // Whatever came of it: somebody gets the lock, soon.
    let held = acquire(&lock).await;
    assert!(held.is_valid());
    store.client().put(PutRequest::new("done", "")).await.expect("written");
}
