//! One request by HTTP/1.1 and its answer, as text that can be compared: the status, the headers
//! that tell something, and the body, in which ids are replaced as they are in [`crate::call`].

use std::fmt;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::call::Ids;
use crate::call::without_port;

/// No answer takes so long.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Headers that are compared.
const HEADERS: [&str; 5] =
    ["allow", "content-type", "grpc-metadata-content-type", "location", "x-content-type-options"];

/// A request.
#[derive(Clone, Debug)]
pub struct Web {
    method: &'static str,
    path: String,
    headers: &'static [(&'static str, &'static str)],
    body: String,
    wanted: Wanted,
}

/// What of the answer is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Whole,
    /// So many lines, of an answer that goes on.
    Lines(usize),
    /// Not its words: they are Go's.
    Code,
}

impl Web {
    pub fn new(method: &'static str, path: &str) -> Self {
        let (path, body) = (path.to_owned(), String::new());
        Self { method, path, headers: &[], body, wanted: Wanted::Whole }
    }

    pub fn post(path: &str, body: &str) -> Self {
        Self { body: body.to_owned(), ..Self::new("POST", path) }
    }

    /// Goes away after so many lines.
    pub fn lines(self, count: usize) -> Self {
        Self { wanted: Wanted::Lines(count), ..self }
    }

    pub fn code_only(self) -> Self {
        Self { wanted: Wanted::Code, ..self }
    }

    pub fn with(self, headers: &'static [(&'static str, &'static str)]) -> Self {
        Self { headers, ..self }
    }

    /// Sends it to the server at `address`, and gives the answer as text.
    pub async fn ask(&self, address: &str, ids: Ids) -> String {
        match timeout(ANSWER_MAX, self.exchange(address)).await {
            Ok(Ok(answer)) => self.show(&answer, ids),
            Ok(Err(error)) => format!("no answer: {error}"),
            Err(_) => format!("no answer within {ANSWER_MAX:?}"),
        }
    }

    async fn exchange(&self, address: &str) -> std::io::Result<Vec<u8>> {
        let mut connection = TcpStream::connect(address).await?;
        connection.write_all(self.to_string().as_bytes()).await?;
        let mut answer = Vec::new();
        loop {
            let read = connection.read_buf(&mut answer).await?;
            let is_enough =
                |count| parts(&answer).is_some_and(|(_, body)| body.matches('\n').count() >= count);
            if read == 0 || matches!(self.wanted, Wanted::Lines(count) if is_enough(count)) {
                return Ok(answer);
            }
        }
    }

    fn show(&self, answer: &[u8], ids: Ids) -> String {
        let Some((head, body)) = parts(answer) else {
            return format!("no HTTP: {}", String::from_utf8_lossy(answer));
        };
        let mut headers: Vec<String> = head.lines().skip(1).map(str::to_lowercase).collect();
        headers.retain(|line| HEADERS.iter().any(|name| line.starts_with(&format!("{name}:"))));
        headers.sort_unstable();
        let mut text = format!("{}\n{}\n", head.lines().next().unwrap_or(""), headers.join("\n"));
        for line in body.lines() {
            let shown = match serde_json::from_str(line) {
                Ok(value) => self.normal(value, ids),
                Err(_) => line.to_owned(),
            };
            text.push_str(&shown);
            text.push('\n');
        }
        text
    }

    fn normal(&self, mut value: Value, ids: Ids) -> String {
        replace(&mut value, ids);
        if self.wanted == Wanted::Code
            && let Value::Object(fields) = &mut value
        {
            fields.retain(|name, _| name == "code");
        }
        serde_json::to_string_pretty(&value).expect("JSON")
    }
}

/// As it goes out.
impl fmt::Display for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, path, body, .. } = self;
        write!(f, "{method} {path} HTTP/1.1\r\nhost: compared\r\nconnection: close\r\n")?;
        for (name, value) in self.headers {
            write!(f, "{name}: {value}\r\n")?;
        }
        write!(f, "content-length: {}\r\n\r\n{body}", body.len())
    }
}

/// Head and body, when the head has come. Of a body in chunks there is what has come.
fn parts(answer: &[u8]) -> Option<(String, String)> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n")?;
    if !head.to_lowercase().contains("transfer-encoding: chunked") {
        return Some((head.to_owned(), body.to_owned()));
    }
    let (mut whole, mut rest) = (String::new(), body);
    while let Some((len, behind)) = rest.split_once("\r\n")
        && let Ok(len @ 1..) = usize::from_str_radix(len, 16)
        && let Some((chunk, behind)) = behind.split_at_checked(len)
    {
        whole.push_str(chunk);
        rest = behind.strip_prefix("\r\n").unwrap_or(behind);
    }
    Some((head.to_owned(), whole))
}

/// Replaces what legitimately differs.
fn replace(value: &mut Value, ids: Ids) {
    let Value::Object(fields) = value else { return };
    // Fields that came after the versions that we compare with.
    for name in ["dbSizeQuota", "storageVersion", "downgradeInfo"] {
        fields.remove(name);
    }
    let is_lease = fields.contains_key("grantedTTL");
    for (name, value) in fields {
        let is = |id: u64| value.as_str() == Some(&*id.to_string());
        match name.as_str() {
            "cluster_id" if is(ids.cluster) => *value = "the cluster".into(),
            "member_id" | "ID" | "leader" if is(ids.member) => *value = "the member".into(),
            // It becomes less.
            "TTL" if is_lease => *value = "a while".into(),
            "raft_term" | "raftTerm" | "raftIndex" | "raftAppliedIndex" | "dbSize"
            | "dbSizeInUse" => *value = "a number".into(),
            "hash" => *value = "a hash".into(),
            "version" | "etcdserver" | "etcdcluster" if value.as_str().is_some_and(is_version) => {
                *value = "a version".into();
            }
            "peerURLs" | "clientURLs" => without_ports(value),
            _ => match value {
                Value::Array(values) => values.iter_mut().for_each(|value| replace(value, ids)),
                value => replace(value, ids),
            },
        }
    }
}

fn is_version(text: &str) -> bool {
    text.split('.').count() == 3
}

fn without_ports(urls: &mut Value) {
    for url in urls.as_array_mut().into_iter().flatten() {
        *url = without_port(url.as_str().unwrap_or_default()).into();
    }
}
