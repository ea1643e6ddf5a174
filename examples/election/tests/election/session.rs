//! Stories of sessions: who believes in them, and for how long.

use std::time::Duration;

use kontiki_client::proto::etcdserverpb::{LeaseTimeToLiveRequest, PutRequest};
use kontiki_election::clock::Moment;
use kontiki_election::proxy::Proxy;
use kontiki_election::{Session, SessionError, SessionLost, SessionOptions};
use tokio::time::{Instant, sleep, timeout};

use crate::system::Store;
use crate::{client, each_system, patiently, session, until};

each_system!(
    it_lives_on_and_ends_with_close,
    it_is_lost_at_its_deadline_while_a_call_hangs,
    one_endpoint_that_hangs_costs_nothing,
    a_renewal_that_fails_is_tried_again,
    a_read_extends_nothing,
    a_late_answer_counts_from_its_question,
    it_is_lost_at_once_where_the_lease_is_gone,
    dropped_it_is_no_longer_renewed,
    options_are_checked,
);

async fn lease_lives(store: &Store, lease: i64) -> bool {
    let request = LeaseTimeToLiveRequest { id: lease, keys: false };
    store.client().lease_time_to_live(request).await.is_ok_and(|answer| answer.ttl > 0)
}

async fn it_lives_on_and_ends_with_close(store: &Store) {
    let client = store.client();
    let session = session(&client).await;
    let key = PutRequest::new("k", "v").with_lease(session.lease());
    client.put(key).await.expect("written");
    sleep(session.ttl() * 3).await;
    assert!(session.is_alive(), "renewals keep it");
    assert!(client.get("k").await.expect("read").is_some(), "and its keys");

    session.close().await.expect("closed");
    assert!(!session.is_alive() && session.lost().is_cancelled());
    assert_eq!(session.remaining(), Duration::ZERO);
    assert!(client.get("k").await.expect("read").is_none(), "its keys go with it");
    session.close().await.expect("closing it again does nothing");
    assert_eq!(session.run(async {}).await, Err(SessionLost));
}

/// The renewal hangs for ever; so does the leader's work. Both end at the deadline.
async fn it_is_lost_at_its_deadline_while_a_call_hangs(store: &Store) {
    let proxy = store.proxy().await;
    let own = client(&[proxy.port()]).within(Duration::from_secs(600));
    let session = session(&own).await;
    sleep(session.ttl() / 2).await;
    proxy.hold();
    let held_at = Moment::now();
    let (lost, work) = (session.lost(), session.clone());
    let work = tokio::spawn(async move { work.run(own.get("k")).await.map(drop) });
    patiently("it is lost", lost.cancelled()).await;
    let lived = Moment::now().since(held_at);
    // Its last renewal was sent before the hold: the margin is a tenth of the time to live.
    assert!(lived <= session.ttl() * 9 / 10 + Duration::from_secs(1), "lived on for {lived:?}");
    assert!(!session.is_alive());
    let ended = timeout(Duration::from_secs(5), work).await.expect("the work ends, too");
    assert_eq!(ended.expect("no panic"), Err(SessionLost));

    // What was lost stays lost, also when the renewal's answer arrives at last.
    proxy.open();
    sleep(Duration::from_millis(500)).await;
    assert!(!session.is_alive());
    until("the cluster ends it, later", async || !lease_lives(store, session.lease()).await).await;
}

async fn one_endpoint_that_hangs_costs_nothing(store: &Store) {
    let (silent, good) = (store.proxy().await, store.proxy().await);
    let session = session(&client(&[silent.port(), good.port()])).await;
    silent.hold();
    sleep(session.ttl() * 3).await;
    assert!(session.is_alive(), "the other endpoint renews it in time");
}

/// Cut off for longer than one renewal may take, and for less than is left then.
async fn a_renewal_that_fails_is_tried_again(store: &Store) {
    let proxy = store.proxy().await;
    let session = crate::session_of(&client(&[proxy.port()]), 12).await;
    proxy.cut();
    sleep(Duration::from_millis(8500)).await; // The renewal of the 4th second ends with the 8th.
    proxy.open();
    sleep(Duration::from_secs(5)).await; // Without another it is lost before the 11th.
    assert!(session.is_alive(), "it was tried again");
}

/// Renewals hang and reads do not: that the cluster still knows the lease extends nothing.
async fn a_read_extends_nothing(store: &Store) {
    let proxy = store.proxy().await;
    let session = session(&client(&[proxy.port()])).await;
    proxy.hold();
    let began = Instant::now();
    while session.is_alive() {
        lease_lives(store, session.lease()).await;
        assert!(began.elapsed() < session.ttl() * 2, "reads must not keep it");
        sleep(Duration::from_millis(20)).await;
    }
}

/// A renewal is asked for, and answered more than a second later.
async fn a_late_answer_counts_from_its_question(store: &Store) {
    let (late, proxy) = (Duration::from_millis(1500), store.proxy().await);
    let session = crate::session_of(&client(&[proxy.port()]), 12).await;
    let first = session.remaining();
    let (ttl, margin) = (session.ttl(), session.ttl() / 10);
    sleep((ttl / 3).saturating_sub(Duration::from_millis(500))).await;
    proxy.mute(); // The renewal is sent half a second from now.
    sleep(Duration::from_millis(500) + late).await;
    proxy.open();
    until("it is renewed", async || session.remaining() > first.saturating_sub(ttl / 3)).await;
    let remaining = session.remaining();
    assert!(
        remaining <= ttl - margin - late / 2,
        "{remaining:?} are left: counted from the answer"
    );
}

async fn it_is_lost_at_once_where_the_lease_is_gone(store: &Store) {
    let session = crate::session_of(&store.client(), 30).await;
    store.client().lease_revoke(session.lease()).await.expect("revoked");
    patiently("a renewal finds it out", session.lost().cancelled()).await;
    assert!(!session.is_alive());
}

async fn dropped_it_is_no_longer_renewed(store: &Store) {
    let first = session(&store.client()).await;
    let (lease, lost, second) = (first.lease(), first.lost(), first.clone());
    drop(first);
    sleep(second.ttl() * 2).await;
    assert!(second.is_alive(), "a clone is enough");
    drop(second);
    assert!(lost.is_cancelled());
    until("the lease ends by itself", async || !lease_lives(store, lease).await).await;
}

async fn options_are_checked(store: &Store) {
    let client = store.client();
    let open = async |ttl, margin| Session::open(&client, SessionOptions { ttl, margin }).await;
    let (second, half) = (Duration::from_secs(1), Duration::from_millis(1500));
    let refused = open(half, Duration::ZERO).await.expect_err("no whole seconds");
    assert!(matches!(refused, SessionError::Ttl(_)), "{refused}");
    let refused = open(Duration::ZERO, Duration::ZERO).await.expect_err("no time");
    assert!(matches!(refused, SessionError::Ttl(_)), "{refused}");
    let refused = open(second * 2, half).await.expect_err("too much margin");
    assert!(matches!(refused, SessionError::Margin { .. }), "{refused}");
}

/// No store, no renewal, and the clock alone decides: also before any timer has fired.
#[tokio::test(flavor = "current_thread")]
async fn after_a_pause_the_clock_is_believed_and_no_timer() {
    let Some(store) = Store::etcd().await else { return };
    let proxy: Proxy = store.proxy().await;
    let session = session(&client(&[proxy.port()])).await;
    let mut steps = 0;
    let work = async {
        loop {
            steps += 1;
            // The process stands still: no timer of this runtime can fire meanwhile.
            std::thread::sleep(session.ttl());
            assert!(!session.is_alive(), "the clock says so at once");
            tokio::task::yield_now().await;
        }
    };
    assert_eq!(session.run(work).await, Err::<(), _>(SessionLost));
    assert_eq!(steps, 1, "no second step of the work");
}
