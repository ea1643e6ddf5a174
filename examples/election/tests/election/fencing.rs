//! A holder that was paused for longer than its lease lived, and writes.

use kontiki_client::proto::etcdserverpb::{PutRequest, TxnRequest};
use kontiki_election::protected::{Appended, ProtectedError};
use kontiki_election::{Election, FencedError, Protected};

use crate::system::Store;
use crate::{client, each_system, patiently, session};

each_system!(what_a_paused_holder_writes_is_refused);

/// H1 is cut off, H2 leads and writes, H1 comes back and writes: into the cluster with the token
/// of old, and into the database.
async fn what_a_paused_holder_writes_is_refused(store: &Store) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("work.db");
    let balance = |value: &'static str| TxnRequest::default().then(PutRequest::new("b", value));
    let proxy = store.proxy().await;
    let own = client(&[proxy.port()]);
    let one = session(&own).await;
    let first = Election::new(&one, "e").campaign("first").await.expect("leads");
    first.fence().write(&own, balance("1")).await.expect("written");
    let mut database = Protected::open(&path).expect("a database");
    assert_eq!(database.append(first.token(), "first", "1").expect("written"), Appended::Now(1));

    proxy.hold();
    let (other, two) = (store.client(), session(&store.client()).await);
    let second = Election::new(&two, "e");
    let second = patiently("another leads", second.campaign("second")).await.expect("leads");
    assert!(second.token() > first.token());
    second.fence().write(&other, balance("2")).await.expect("written");
    let mut elsewhere = Protected::open(&path).expect("a database");
    assert_eq!(elsewhere.append(second.token(), "second", "2").expect("written"), Appended::Now(2));

    proxy.open();
    let stale = patiently("an answer", async {
        loop {
            match first.fence().write(&own, balance("3")).await {
                Err(FencedError::Store(error)) => println!("not yet: {error}"),
                answer => return answer.expect_err("not in force"),
            }
        }
    })
    .await;
    assert!(matches!(stale, FencedError::Stale(token) if token == first.token()), "{stale}");
    let kv = other.get("b").await.expect("read").expect("there");
    assert_eq!(&kv.value[..], b"2", "no update is lost");
    let stale = database.append(first.token(), "first", "3").expect_err("stale");
    assert!(
        matches!(stale, ProtectedError::Stale { token, fence }
            if token == first.token() && fence == second.token()),
        "{stale}"
    );
    assert_eq!(database.work(1, 10).expect("read").len(), 2);
}
