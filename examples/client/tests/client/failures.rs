//! What is sent again, what never is, and what the caller is told: the table of the crate.

use std::time::{Duration, Instant};

use kontiki_client::ClientError;
use kontiki_client::proto::etcdserverpb::{Compare, PutRequest, RangeRequest, TxnRequest};
use tonic::{Code, Status};

use crate::fake::{Answer, Fake, LATE};
use crate::proxy::{Proxy, silence};
use crate::{PATIENCE, client, free_port, url};

fn create_if_absent() -> TxnRequest {
    TxnRequest::when([Compare::create_revision("key", 0)]).then(PutRequest::new("key", "mine"))
}

fn unavailable() -> Answer {
    Answer::Refuse(Status::unavailable("etcdserver: request timed out"))
}

/// B76: the transaction is executed, its answer is lost, and a second try would find its compare
/// broken by the first.
#[tokio::test]
async fn a_transaction_whose_answer_is_lost_is_unknown_and_never_sent_again() {
    let (fake, port) = Fake::start(Answer::Never).await;
    let (other, other_port) = Fake::start(Answer::Good).await;
    let proxy = Proxy::before(port).await;
    fake.answer(Answer::Cut(proxy.scissors()));
    let client = client(&[proxy.port, other_port], PATIENCE);

    let error = client.txn(create_if_absent()).await.expect_err("the answer is lost");
    assert!(
        matches!(&error, ClientError::Unknown { endpoint, .. } if *endpoint == url(proxy.port)),
        "{error}"
    );
    assert!(!error.is_surely_not_executed());
    assert_eq!((fake.seen(), other.seen()), ((0, 1), (0, 0)));

    // Whoever reads after that is not sent to the endpoint that failed.
    client.range(RangeRequest::key("key")).await.expect("an answer");
    assert_eq!((fake.seen(), other.seen()), ((0, 1), (1, 0)));
}

#[tokio::test]
async fn a_read_whose_answer_is_lost_is_asked_elsewhere() {
    let (fake, port) = Fake::start(Answer::Never).await;
    let (other, other_port) = Fake::start(Answer::Good).await;
    let proxy = Proxy::before(port).await;
    fake.answer(Answer::Cut(proxy.scissors()));

    client(&[proxy.port, other_port], PATIENCE).get("key").await.expect("an answer");
    assert_eq!((fake.seen(), other.seen()), ((1, 0), (1, 0)));
}

#[tokio::test]
async fn a_write_moves_on_while_nothing_was_sent() {
    let (fake, port) = Fake::start(Answer::Good).await;
    let client = client(&[free_port(), free_port(), port], PATIENCE);
    client.put(PutRequest::new("key", "value")).await.expect("the third is there");
    assert_eq!(fake.seen(), (0, 1));
}

#[tokio::test]
async fn a_connection_that_ended_between_calls_sends_nothing_twice_and_loses_nothing() {
    let (first, first_port) = Fake::start(Answer::Good).await;
    let (second, second_port) = Fake::start(Answer::Good).await;
    let proxy = Proxy::before(first_port).await;
    let client = client(&[proxy.port, second_port], PATIENCE);
    client.put(PutRequest::new("key", "1")).await.expect("written");
    proxy.cut();
    drop(proxy); // Nobody listens there any more.

    // The connection may be found broken before something is sent, or after.
    let mut unknown = 0;
    for _ in 0..3 {
        match client.put(PutRequest::new("key", "2")).await {
            Ok(_) => {}
            Err(ClientError::Unknown { .. }) => unknown += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(unknown <= 1, "{unknown} writes into connections that were gone");
    assert_eq!((first.seen(), second.seen()), ((0, 1), (0, 3 - unknown)));
}

#[tokio::test]
async fn an_answer_that_leaves_it_open_ends_a_write_and_not_a_read() {
    let (first, first_port) = Fake::start(unavailable()).await;
    let (second, second_port) = Fake::start(Answer::Good).await;
    let client = client(&[first_port, second_port], PATIENCE);
    client.get("key").await.expect("the second answers");
    assert_eq!((first.seen(), second.seen()), ((1, 0), (1, 0)));

    // The first would take it now: a second try would be seen.
    first.answer(Answer::Good);
    second.answer(unavailable());
    let error = client.put(PutRequest::new("key", "value")).await.expect_err("no answer");
    assert!(matches!(&error, ClientError::Unknown { .. }), "{error}");
    assert!(error.to_string().contains("etcdserver: request timed out (Unavailable)"), "{error}");
    assert_eq!((first.seen(), second.seen()), ((1, 0), (1, 1)));
}

#[tokio::test]
async fn a_read_is_asked_again_until_somebody_answers() {
    let (fake, port) = Fake::start(unavailable()).await;
    let reader = client(&[port], PATIENCE);
    let call = tokio::spawn(async move { reader.get("key").await });
    while fake.seen().0 < 3 {
        assert!(!call.is_finished(), "it gave up after {:?}", fake.seen());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    fake.answer(Answer::Good);
    call.await.expect("no panic").expect("an answer");
}

#[tokio::test]
async fn a_definite_refusal_is_the_answer() {
    let refusal = Status::out_of_range("etcdserver: mvcc: required revision has been compacted");
    let (first, first_port) = Fake::start(Answer::Refuse(refusal)).await;
    let (second, second_port) = Fake::start(Answer::Good).await;
    let client = client(&[first_port, second_port], PATIENCE);
    for error in [
        client.get("key").await.expect_err("refused"),
        client.put(PutRequest::new("key", "value")).await.expect_err("refused"),
    ] {
        assert!(error.is_surely_not_executed());
        let ClientError::Refused(refusal) = error else { panic!("{error}") };
        assert_eq!(refusal.code(), Code::OutOfRange);
        assert_eq!(refusal.message(), "etcdserver: mvcc: required revision has been compacted");
    }
    assert_eq!((first.seen(), second.seen()), ((1, 1), (0, 0)));
}

#[tokio::test]
async fn a_learner_is_passed_over_even_by_a_write() {
    let learner = Status::failed_precondition("etcdserver: rpc not supported for learner");
    let (first, first_port) = Fake::start(Answer::Refuse(learner)).await;
    let (second, second_port) = Fake::start(Answer::Good).await;
    let both = client(&[first_port, second_port], PATIENCE);
    both.put(PutRequest::new("key", "value")).await.expect("a voter takes it");
    assert_eq!((first.seen(), second.seen()), ((0, 1), (0, 1)));

    let alone = client(&[first_port], PATIENCE).put(PutRequest::new("key", "value")).await;
    assert!(matches!(alone, Err(ClientError::Refused(_))), "{alone:?}");
}

#[tokio::test]
async fn a_silent_server_costs_a_call_its_time_and_no_more() {
    let silent = silence().await;
    let brief = Duration::from_millis(300);
    let started = Instant::now();
    let error = client(&[silent], brief).put(PutRequest::new("key", "value")).await;
    assert!(matches!(error, Err(ClientError::Unknown { .. })), "{error:?}");
    let error = client(&[silent], brief).get("key").await;
    assert!(matches!(error, Err(ClientError::Unreachable(_))), "{error:?}");
    let took = started.elapsed();
    assert!(took >= 2 * brief && took < PATIENCE / 2, "{took:?}");
}

#[tokio::test]
async fn a_silent_server_leaves_the_others_their_share_of_the_time() {
    let (fake, port) = Fake::start(Answer::Good).await;
    let client = client(&[silence().await, port], Duration::from_secs(4));
    client.get("key").await.expect("the second answers in the second half");
    client.put(PutRequest::new("key", "value")).await.expect("it is the first to be asked now");
    assert_eq!(fake.seen(), (1, 1));
}

#[tokio::test]
async fn without_any_connection_a_call_fails_at_once() {
    let ports = [free_port(), free_port()];
    let error = client(&ports, 10 * PATIENCE).get("key").await.expect_err("nobody is there");
    let ClientError::Unreachable(tried) = error else { panic!("{error}") };
    assert_eq!(tried.iter().map(|(url, _)| url.clone()).collect::<Vec<_>>(), ports.map(url));
}

/// Of what tests and checkers ask: whether this very read was answered.
#[tokio::test]
async fn whoever_asks_once_is_not_answered_by_a_second_try() {
    let (fake, port) = Fake::start(unavailable()).await;
    let error = client(&[port], PATIENCE).asking_once().get("key").await.expect_err("no answer");
    assert!(matches!(error, ClientError::Unknown { .. }), "{error}");
    assert_eq!(fake.seen(), (1, 0));
}

/// A lease counted from the answer would be believed in for as long as the answer took.
#[tokio::test]
async fn a_renewal_counts_from_when_it_was_sent() {
    let (_fake, port) = Fake::start(Answer::Good).await;
    let client = client(&[free_port(), port], PATIENCE);
    let asked = tokio::time::Instant::now();
    let kept = client.keep_alive_once(7).await.expect("renewed, late");
    assert_eq!(kept.ttl_s, 9);
    assert!(kept.sent_at >= asked, "it was not asked for before");
    assert!(
        kept.sent_at.elapsed() >= LATE,
        "{:?} after an answer of {LATE:?}",
        kept.sent_at.elapsed()
    );
}
