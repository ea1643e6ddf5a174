//! The same requests to etcd itself. It must be installed (Debian: etcd-server); so this runs
//! only when asked for:
//!
//! ```sh
//! cargo test --release -p kontiki-kv etcd_answers_the_same -- --ignored
//! ```

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

use super::requests::{Asked, action, range, read_txn};
use super::{Fixture, eager};
use crate::proto::etcdserverpb::kv_client::KvClient;
use crate::proto::etcdserverpb::response_op::Response as OpResponse;
use crate::proto::etcdserverpb::{RangeRequest, ResponseHeader, TxnRequest, TxnResponse};
use crate::proto::kontiki::command::Action;
use crate::store::{
    Answer, Failure, KvError, validate_delete_range, validate_put, validate_range, validate_txn,
};

/// An etcd with a directory of its own.
struct Etcd(Child, #[expect(dead_code)] tempfile::TempDir);

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn start() -> (Etcd, KvClient<Channel>) {
    let free = || TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let (client, peer) = (free().expect("a port"), free().expect("a port"));
    let (client, peer) = (format!("http://{client}"), format!("http://{peer}"));
    let directory = super::directory();
    let mut command = Command::new("etcd");
    command.arg("--data-dir").arg(directory.path());
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args(["--initial-cluster", &format!("default={peer}")]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let etcd = Etcd(child.expect("etcd is installed"), directory);
    for _ in 0..100 {
        if let Ok(mut kv) = KvClient::connect(client.clone()).await
            && kv.range(super::range("a", "")).await.is_ok()
        {
            return (etcd, kv);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("etcd does not answer");
}

#[derive(Clone, Debug)]
enum Ask {
    Apply(Action),
    Range(RangeRequest),
    Txn(TxnRequest),
}

fn ask() -> impl Strategy<Value = Ask> {
    prop_oneof![
        8 => action(Asked::Etcd).prop_map(Ask::Apply),
        4 => range().prop_map(Ask::Range),
        1 => read_txn().prop_map(Ask::Txn),
    ]
}

type Said = Result<Answer, (Code, String)>;

fn ours(fixture: &mut Fixture, ask: &Ask) -> Said {
    let said = |error: KvError| Err((error.code(), error.message().to_owned()));
    let valid = match ask {
        Ask::Apply(Action::Put(request)) => validate_put(request),
        Ask::Apply(Action::DeleteRange(request)) => validate_delete_range(request),
        Ask::Apply(Action::Txn(request)) | Ask::Txn(request) => validate_txn(request, 128),
        Ask::Range(request) => validate_range(request),
        Ask::Apply(_) => Ok(()),
    };
    if let Err(error) = valid {
        return said(error);
    }
    let answer = match ask {
        Ask::Apply(action) => return fixture.apply(vec![action.clone()]).remove(0).or_else(said),
        // A range is wrapped, so that all answers are of one type.
        Ask::Range(request) => fixture.reader().range(request).map(wrapped),
        Ask::Txn(request) => fixture.reader().txn(request.clone()).map(Answer::Txn),
    };
    match answer {
        Ok(answer) => Ok(answer),
        Err(Failure::Refused(error)) => said(error),
        Err(Failure::Store(error)) => panic!("{error}"),
    }
}

fn wrapped(response: crate::proto::etcdserverpb::RangeResponse) -> Answer {
    let response = OpResponse::ResponseRange(response);
    let response = crate::proto::etcdserverpb::ResponseOp { response: Some(response) };
    Answer::Txn(TxnResponse { responses: vec![response], ..TxnResponse::default() })
}

async fn theirs(kv: &mut KvClient<Channel>, ask: &Ask) -> Said {
    fn answer<T>(result: Result<Response<T>, Status>, wrap: fn(T) -> Answer) -> Said {
        match result {
            Ok(response) => Ok(plain(wrap(response.into_inner()))),
            Err(status) => Err((status.code(), status.message().to_owned())),
        }
    }
    match ask.clone() {
        Ask::Apply(Action::Put(request)) => answer(kv.put(request).await, Answer::Put),
        Ask::Apply(Action::DeleteRange(request)) => {
            answer(kv.delete_range(request).await, Answer::DeleteRange)
        }
        Ask::Apply(Action::Txn(request)) | Ask::Txn(request) => {
            answer(kv.txn(request).await, Answer::Txn)
        }
        Ask::Apply(Action::Compact(request)) => answer(kv.compact(request).await, Answer::Compact),
        Ask::Range(request) => answer(kv.range(request).await, wrapped),
        Ask::Apply(Action::SetMember(_)) => unreachable!("none are made"),
    }
}

/// Without what the server fills in.
fn plain(mut answer: Answer) -> Answer {
    let strip = |header: &mut Option<ResponseHeader>| {
        if let Some(header) = header {
            *header = ResponseHeader { revision: header.revision, ..ResponseHeader::default() };
        }
    };
    match &mut answer {
        Answer::Put(response) => strip(&mut response.header),
        Answer::DeleteRange(response) => strip(&mut response.header),
        Answer::Compact(response) => strip(&mut response.header),
        Answer::Txn(response) => {
            strip(&mut response.header);
            for inner in &mut response.responses {
                if let Some(OpResponse::ResponseRange(range)) = &mut inner.response {
                    strip(&mut range.header);
                }
            }
        }
        Answer::SetMember => {}
    }
    answer
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs etcd"]
async fn etcd_answers_the_same() {
    let rounds = std::env::var("KONTIKI_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let asks = ask();
    for round in 0..rounds.unwrap_or(4) {
        let (_etcd, mut kv) = start().await;
        let mut fixture = Fixture::new(eager());
        let mut runner = TestRunner::default();
        let (mut asked, mut refused, mut read) = (0, 0, 0);
        for step in 0..1500 {
            let ask = asks.new_tree(&mut runner).expect("a strategy").current();
            let (ours, theirs) = (ours(&mut fixture, &ask), theirs(&mut kv, &ask).await);
            if let Err((Code::Unknown | Code::Unavailable, message)) = &theirs {
                // It panics where a transaction deletes a key and then puts it with an ignore
                // flag, for one.
                println!("etcd died of step {step} ({message}): {ask:?}");
                break;
            }
            assert_eq!(ours, theirs, "ours and etcd's, round {round} step {step}: {ask:#?}");
            asked += 1;
            refused += usize::from(ours.is_err());
            read += usize::from(!matches!(ask, Ask::Apply(_)));
        }
        println!("round {round}: {asked} requests, {read} reads, {refused} refused");
    }
}
