//! `kontiki put`, `get` and `del`. Output and flags are etcdctl's where they mean the same.

use std::io::Read;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use kontiki_client::prefix_end;
use kontiki_kv::proto::etcdserverpb::{DeleteRangeRequest, PutRequest, RangeRequest};
use kontiki_kv::proto::mvccpb::KeyValue;

use super::{Connect, Failure, block_on, show};

#[derive(Args)]
pub(super) struct PutArgs {
    /// The key
    key: String,
    /// The value; without it, standard input is read
    #[arg(allow_hyphen_values = true)]
    value: Option<String>,
    /// Show what was there before
    #[arg(long)]
    prev_kv: bool,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Args)]
pub(super) struct GetArgs {
    #[command(flatten)]
    range: Range,
    /// As the store was at this revision
    #[arg(long, default_value_t = 0, value_name = "REVISION")]
    rev: i64,
    /// l: linearizable, sees every write that was acknowledged; s: what this node has applied
    #[arg(long, value_enum, default_value = "l")]
    consistency: Consistency,
    /// At most so many keys; 0 is all
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(i64).range(0..))]
    limit: i64,
    /// Without the values
    #[arg(long)]
    keys_only: bool,
    /// Without the keys
    #[arg(long, conflicts_with = "keys_only")]
    print_value_only: bool,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Args)]
pub(super) struct DelArgs {
    #[command(flatten)]
    range: Range,
    /// Show what was deleted
    #[arg(long)]
    prev_kv: bool,
    #[command(flatten)]
    connect: Connect,
}

/// A key, or all keys from one to another, or all that start alike, or all from one on.
#[derive(Args)]
struct Range {
    /// The key, or the first of a range
    key: String,
    /// The first key behind the range
    #[arg(conflicts_with_all = ["prefix", "from_key"])]
    range_end: Option<String>,
    /// All keys that start with KEY
    #[arg(long, conflicts_with = "from_key")]
    prefix: bool,
    /// All keys from KEY on
    #[arg(long)]
    from_key: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Consistency {
    #[value(name = "l", alias = "linearizable")]
    Linearizable,
    #[value(name = "s", alias = "serializable")]
    Serializable,
}

impl Range {
    /// `key` and `range_end` as the API wants them.
    fn bounds(self) -> (Vec<u8>, Vec<u8>) {
        let key = self.key.into_bytes();
        let end = match self.range_end {
            _ if self.prefix => prefix_end(&key),
            _ if self.from_key => vec![0],
            Some(end) => end.into_bytes(),
            None => Vec::new(),
        };
        // Where everything is meant, the empty key would mean none.
        let everything = key.is_empty() && end == [0];
        (if everything { vec![0] } else { key }, end)
    }
}

pub(super) fn put(args: PutArgs) -> Result<ExitCode, Failure> {
    let value = match args.value {
        Some(value) => value.into_bytes(),
        None => {
            let mut value = Vec::new();
            let read = std::io::stdin().read_to_end(&mut value);
            read.map_err(|error| Failure::new(format!("cannot read the value: {error}")))?;
            value
        }
    };
    let request = PutRequest {
        key: args.key.into(),
        value: value.into(),
        prev_kv: args.prev_kv,
        ..PutRequest::default()
    };
    let response = block_on(args.connect.client().put(request))??;
    let mut output = b"OK\n".to_vec();
    push_lines(&mut output, response.prev_kv.iter().flat_map(key_and_value));
    show(&output)
}

pub(super) fn get(args: GetArgs) -> Result<ExitCode, Failure> {
    let (key, range_end) = args.range.bounds();
    let request = RangeRequest {
        key: key.into(),
        range_end: range_end.into(),
        revision: args.rev,
        serializable: args.consistency == Consistency::Serializable,
        limit: args.limit,
        keys_only: args.keys_only,
        ..RangeRequest::default()
    };
    let response = block_on(args.connect.client().range(request))??;
    let mut output = Vec::new();
    let shown = |kv| key_and_value(kv).skip(usize::from(args.print_value_only));
    push_lines(&mut output, response.kvs.iter().flat_map(shown));
    show(&output)
}

pub(super) fn del(args: DelArgs) -> Result<ExitCode, Failure> {
    let (key, range_end) = args.range.bounds();
    let request =
        DeleteRangeRequest { key: key.into(), range_end: range_end.into(), prev_kv: args.prev_kv };
    let response = block_on(args.connect.client().delete(request))??;
    let mut output = format!("{}\n", response.deleted).into_bytes();
    push_lines(&mut output, response.prev_kvs.iter().flat_map(key_and_value));
    show(&output)
}

fn key_and_value(kv: &KeyValue) -> impl Iterator<Item = &[u8]> {
    [kv.key.as_ref(), kv.value.as_ref()].into_iter()
}

fn push_lines<'a>(output: &mut Vec<u8>, lines: impl Iterator<Item = &'a [u8]>) {
    for line in lines {
        output.extend_from_slice(line);
        output.push(b'\n');
    }
}
