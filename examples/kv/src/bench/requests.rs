//! The requests of one client: random keys of the key space, and values that do not compress.

use bytes::{BufMut, Bytes, BytesMut};
use kontiki_kv::proto::etcdserverpb::{PutRequest, RangeRequest};
use prost::Message;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::load::Mix;
use super::wire::Rpc;

/// Draws requests.
pub(super) struct Requests {
    random: Pcg64Mcg,
    mix: Mix,
    key_space: u64,
    value_bytes: usize,
    /// Values are stretches of this.
    noise: Bytes,
}

impl Requests {
    /// The requests of the client `seed`; two with the same seed are the same.
    pub(super) fn new(seed: u64, mix: Mix, key_space: u64, value_bytes: usize) -> Self {
        const STARTS: usize = 1024;
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut noise = vec![0; value_bytes + STARTS];
        random.fill_bytes(&mut noise);
        Self { random, mix, key_space, value_bytes, noise: noise.into() }
    }

    /// The next request.
    pub(super) fn next(&mut self) -> (Rpc, Bytes) {
        let key = self.random.random_range(0..self.key_space);
        if self.random.random_range(0..100) < self.mix.read_percent {
            (Rpc::Range, self.range(key))
        } else {
            (Rpc::Put, self.put(key))
        }
    }

    /// Writes the key with this number.
    pub(super) fn put(&mut self, key: u64) -> Bytes {
        let start = self.random.random_range(0..=self.noise.len() - self.value_bytes);
        let value = self.noise.slice(start..start + self.value_bytes);
        frame(&PutRequest { key: name(key), value, ..PutRequest::default() })
    }

    fn range(&self, key: u64) -> Bytes {
        let serializable = self.mix.serializable;
        frame(&RangeRequest { key: name(key), serializable, ..RangeRequest::default() })
    }
}

fn name(key: u64) -> Bytes {
    format!("bench/{key:08}").into()
}

/// A message as gRPC sends it: not compressed, its length, its bytes.
pub(super) fn frame(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(5 + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).expect("values are far below 4 GiB"));
    message.encode(&mut frame).expect("there is room");
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_follow_the_mix_and_stay_in_the_key_space() {
        let mix = Mix { read_percent: 25, serializable: true };
        let mut requests = Requests::new(1, mix, 3, 16);
        let mut reads = 0;
        for _ in 0..4000 {
            let (rpc, frame) = requests.next();
            let message = &frame[5..];
            let key = match rpc {
                Rpc::Range => {
                    reads += 1;
                    let range = RangeRequest::decode(message).expect("a range");
                    assert!(range.serializable);
                    range.key
                }
                Rpc::Put => {
                    let put = PutRequest::decode(message).expect("a put");
                    assert_eq!(put.value.len(), 16);
                    put.key
                }
            };
            let names = ["bench/00000000", "bench/00000001", "bench/00000002"];
            assert!(names.iter().any(|name| key == name.as_bytes()));
        }
        assert!((900..1100).contains(&reads), "{reads}");
    }
}
