//! A watch stream at both servers: the same requests, and what each is told of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kontiki_kv::proto::etcdserverpb::watch_client::WatchClient;
use kontiki_kv::proto::etcdserverpb::watch_request::RequestUnion;
use kontiki_kv::proto::etcdserverpb::{
    WatchCancelRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use kontiki_kv::proto::mvccpb::{Event, KeyValue};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_stream::wrappers::UnboundedReceiverStream;

use crate::call::{Ids, placeholder};
use crate::pair::{Pair, Side};

/// How long the slower one may take, and how long nothing more must come then.
const SAME_MAX: Duration = Duration::from_secs(10);
const QUIET: Duration = Duration::from_millis(150);

/// A stream at each.
pub struct Watching {
    etcd: Stream,
    ours: Stream,
}

struct Stream {
    requests: Option<mpsc::UnboundedSender<WatchRequest>>,
    told: Arc<Mutex<Told>>,
    ids: Ids,
}

/// What a stream was told since the last look.
#[derive(Default)]
struct Told(Vec<Result<WatchResponse, String>>);

impl Stream {
    async fn open(side: &Side) -> Self {
        let (requests, sent) = mpsc::unbounded_channel();
        let told = Arc::<Mutex<Told>>::default();
        let mut client =
            WatchClient::new(side.server.channel.clone()).max_decoding_message_size(usize::MAX);
        let kept = Arc::clone(&told);
        tokio::spawn(async move {
            let keep = |it| kept.lock().expect("nobody panicked").0.push(it);
            let text =
                |status: &tonic::Status| format!("{:?}: {}", status.code(), status.message());
            match client.watch(UnboundedReceiverStream::new(sent)).await {
                Err(status) => keep(Err(text(&status))),
                Ok(answer) => {
                    let mut answers = answer.into_inner();
                    loop {
                        match answers.message().await {
                            Ok(Some(answer)) => keep(Ok(answer)),
                            Ok(None) => return keep(Err("the end".to_owned())),
                            Err(status) => return keep(Err(text(&status))),
                        }
                    }
                }
            }
        });
        Self { requests: Some(requests), told, ids: side.ids }
    }

    fn send(&self, request: &WatchRequest) {
        let requests = self.requests.as_ref().expect("it is not half closed");
        requests.send(request.clone()).expect("the stream is open");
    }

    /// What came, by watch: in which order several watches are told of one thing is chance.
    fn text(&self) -> String {
        let told = self.told.lock().expect("nobody panicked");
        let mut by_watch: BTreeMap<i64, Vec<String>> = BTreeMap::new();
        for it in &told.0 {
            let (id, line) = match it {
                Ok(answer) => (answer.watch_id, self.line(answer)),
                Err(end) => (i64::MAX, end.clone()),
            };
            let lines = by_watch.entry(id).or_default();
            // How often an idle watch was told that it is, is chance too.
            if lines.last() != Some(&line) {
                lines.push(line);
            }
        }
        let lines = by_watch.into_iter();
        lines.map(|(id, lines)| format!("watch {id}\n  {}\n", lines.join("\n  "))).collect()
    }

    fn line(&self, answer: &WatchResponse) -> String {
        let header = answer.header.as_ref().expect("every answer has a header");
        let own = placeholder(header.cluster_id, self.ids.cluster) == 1
            && placeholder(header.member_id, self.ids.member) == 1;
        let events: Vec<_> = answer.events.iter().map(event).collect();
        format!(
            "own {own}, at {}, created {}, canceled {} {:?}, compacted {}, fragment {}, {events:?}",
            header.revision,
            answer.created,
            answer.canceled,
            answer.cancel_reason,
            answer.compact_revision,
            answer.fragment
        )
    }
}

fn event(event: &Event) -> String {
    let show = |kv: &Option<KeyValue>| kv.as_ref().map_or_else(|| "nothing".to_owned(), key_value);
    format!("{} {}, before {}", event.r#type, show(&event.kv), show(&event.prev_kv))
}

fn key_value(kv: &KeyValue) -> String {
    let (key, value) = (String::from_utf8_lossy(&kv.key), String::from_utf8_lossy(&kv.value));
    let KeyValue { create_revision, mod_revision, version, lease, .. } = kv;
    format!("{key:?}={value:?} {create_revision} {mod_revision} {version} {lease}")
}

impl Watching {
    pub async fn open(pair: &Pair) -> Self {
        Self { etcd: Stream::open(&pair.etcd).await, ours: Stream::open(&pair.ours).await }
    }

    pub fn create(&self, create: WatchCreateRequest) {
        self.send(RequestUnion::CreateRequest(create));
    }

    pub fn cancel(&self, watch_id: i64) {
        self.send(RequestUnion::CancelRequest(WatchCancelRequest { watch_id }));
    }

    pub fn ask_progress(&self) {
        self.send(RequestUnion::ProgressRequest(WatchProgressRequest {}));
    }

    /// Sends nothing more.
    pub fn half_close(&mut self) {
        (self.etcd.requests, self.ours.requests) = (None, None);
    }

    fn send(&self, request: RequestUnion) {
        let request = WatchRequest { request_union: Some(request) };
        self.etcd.send(&request);
        self.ours.send(&request);
    }

    /// Compares what came since the last time, once it is the same or cannot become it any more.
    pub async fn compare(&self, pair: &mut Pair, what: &str) {
        let began = Instant::now();
        while self.etcd.text() != self.ours.text() || self.etcd.text().is_empty() {
            if began.elapsed() > SAME_MAX {
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
        self.still(pair, what).await;
    }

    /// The same where nothing may come at all.
    pub async fn still(&self, pair: &mut Pair, what: &str) {
        sleep(QUIET).await;
        pair.compare(what, &self.etcd.text(), &self.ours.text());
        for stream in [&self.etcd, &self.ours] {
            stream.told.lock().expect("nobody panicked").0.clear();
        }
    }
}
