//! Stories of locks that are not told in `queue`.

use kontiki_client::proto::etcdserverpb::RangeRequest;
use kontiki_election::Mutex;

use crate::system::Store;
use crate::{each_system, patiently, session};

each_system!(a_lock_is_tried_in_one_step, it_ends_with_the_session);

async fn a_lock_is_tried_in_one_step(store: &Store) {
    let (a, b) = (session(&store.client()).await, session(&store.client()).await);
    let (one, other) = (Mutex::new(&a, "m"), Mutex::new(&b, "m"));
    let held = one.try_lock().await.expect("answered").expect("nobody has it");
    let revision = async || {
        let answer = store.client().range(RangeRequest::prefix("m/")).await.expect("read");
        answer.header.expect("every answer has one").revision
    };
    let before = revision().await;
    assert!(other.try_lock().await.expect("answered").is_none());
    assert_eq!(revision().await, before, "it has not even queued");
    held.unlock().await.expect("unlocked");
    held.unlock().await.expect("twice is once");
    let next = other.try_lock().await.expect("answered").expect("it is free");
    assert!(next.token() > held.token() && next.is_held());
}

async fn it_ends_with_the_session(store: &Store) {
    let (a, b) = (session(&store.client()).await, session(&store.client()).await);
    let held = Mutex::new(&a, "m").lock().await.expect("held");
    let next = Mutex::new(&b, "m");
    let (closed, next) = tokio::join!(a.close(), patiently("its turn", next.lock()));
    closed.expect("closed");
    assert!(!held.is_held() && held.lost().is_cancelled());
    assert!(next.expect("held").token() > held.token());
}
