//! Both servers as one: what is asked is asked of both, and what differs is kept for the end.

use std::fmt::Debug;

use kontiki_kv::proto::etcdserverpb::RangeRequest;

use crate::call::{self, Answer, Call, Ids, Metadata};
use crate::known::{KNOWN, Known, is_measured};
use crate::server::Server;
use crate::text::{cut, difference};
use crate::web::Web;

/// More differences than this are counted and not shown: the first ones cause the others.
const SHOWN_MAX: usize = 50;

/// Two servers that got the same requests.
pub struct Pair {
    pub etcd: Side,
    pub ours: Side,
    /// The newest revision that etcd has named.
    pub revision: i64,
    version: String,
    scene: &'static str,
    compared: usize,
    differences: Vec<String>,
    /// The legitimate differences, and how often each was met.
    known: Vec<(&'static Known, usize)>,
}

/// One of them.
pub struct Side {
    pub server: Server,
    pub ids: Ids,
}

impl Side {
    async fn new(server: Server) -> Self {
        let ids = call::ids(&server.channel).await;
        Self { server, ids }
    }

    async fn ask(&mut self, call: &Call, metadata: Metadata) -> Answer {
        let answer = call.ask(&self.server.channel, metadata, self.ids).await;
        self.ids.newest = answer.newest.unwrap_or(self.ids.newest);
        if answer.is_broken {
            self.server.assert_alive();
        }
        answer
    }

    async fn ask_web(&self, web: &Web) -> String {
        web.ask(&self.server.place.client, self.ids).await
    }
}

impl Pair {
    pub async fn new(etcd: Server, ours: Server, version: &str) -> Self {
        let known = KNOWN.iter().filter(|known| version.starts_with(known.versions));
        let known = known.map(|known| (known, 0)).collect();
        let (etcd, ours) = (Side::new(etcd).await, Side::new(ours).await);
        let (revision, compared, differences) = (1, 0, Vec::new());
        let version = version.to_owned();
        Self { etcd, ours, revision, version, scene: "", compared, differences, known }
    }

    /// What follows belongs to this scene.
    pub fn scene(&mut self, name: &'static str) {
        self.scene = name;
    }

    /// Sends a request to both, and compares the answers.
    pub async fn ask(&mut self, call: impl Into<Call>) {
        self.ask_with(Metadata::Nothing, call).await;
    }

    pub async fn ask_with(&mut self, metadata: Metadata, call: impl Into<Call>) {
        let call = call.into();
        let (etcd, ours) =
            tokio::join!(self.etcd.ask(&call, metadata), self.ours.ask(&call, metadata));
        self.compared += 1;
        self.revision = self.revision.max(etcd.revision.unwrap_or(0));
        if etcd.text != ours.text {
            self.on_difference(&call, metadata, &etcd.text, &ours.text);
        }
    }

    /// Sends a request to both by HTTP, and compares the answers.
    pub async fn ask_web(&mut self, web: Web) {
        let (etcd, ours) = tokio::join!(self.etcd.ask_web(&web), self.ours.ask_web(&web));
        self.compared += 1;
        if etcd != ours {
            self.on_difference(&web, Metadata::Nothing, &etcd, &ours);
        }
    }

    /// Compares what both said to the same.
    pub fn compare(&mut self, what: &str, etcd: &str, ours: &str) {
        self.compared += 1;
        if etcd != ours {
            self.on_difference(&what, Metadata::Nothing, etcd, ours);
        }
    }

    /// Compares all that is there now, and the header with it.
    pub async fn dump(&mut self) {
        self.ask(everything(0)).await;
    }

    /// Compares all that was there at each of the newest `count` revisions.
    pub async fn dump_history(&mut self, count: i64) {
        for revision in (self.revision - count + 1).max(1)..=self.revision {
            self.ask(everything(revision)).await;
        }
    }

    /// Both servers crash, and come back.
    pub async fn restart(&mut self) {
        self.etcd.server.restart().await;
        self.ours.server.restart().await;
    }

    fn on_difference(&mut self, request: &impl Debug, metadata: Metadata, etcd: &str, ours: &str) {
        let request = format!("{request:?}");
        let matches = |known: &Known| {
            known.scene == self.scene
                && request.contains(known.request)
                && etcd.contains(known.etcd)
                && ours.contains(known.ours)
        };
        if let Some((_, met)) = self.known.iter_mut().find(|(known, _)| matches(known)) {
            *met += 1;
            return;
        }
        let beside = match metadata {
            Metadata::Nothing => String::new(),
            Metadata::HasLeader(value) => format!(" with hasleader: {value}"),
        };
        let number = self.compared;
        let shown = format!(
            "{}, request {number}:{beside}\n  {}\n{}",
            self.scene,
            cut(&request),
            difference(etcd, ours)
        );
        self.differences.push(shown);
    }

    /// Says what was compared, and panics if anything differs that may not.
    pub fn finish(self) {
        eprintln!("{} requests compared with etcd {}", self.compared, self.version);
        for (known, met) in &self.known {
            eprintln!("known to differ, {met} times in {}: {}", known.scene, known.reason);
        }
        let count = self.differences.len();
        for difference in self.differences.iter().take(SHOWN_MAX) {
            eprintln!("\n{difference}");
        }
        assert!(count == 0, "{count} answers differ; up to {SHOWN_MAX} are above");
        let gone = self.known.iter().find(|(_, met)| *met == 0);
        if let Some((known, _)) = gone
            && is_measured(&self.version)
        {
            panic!("take it out of the table, it does not differ any more: {}", known.reason);
        }
    }
}

fn everything(revision: i64) -> RangeRequest {
    RangeRequest { key: "\0".into(), range_end: "\0".into(), revision, ..RangeRequest::default() }
}
