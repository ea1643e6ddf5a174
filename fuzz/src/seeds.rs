//! The targets that the testkit does not know, without a fuzzer: on the seeds, on what was found
//! once, and on small changes of them. From the root of the repository:
//! `cargo test --manifest-path fuzz/Cargo.toml --lib`.

use std::fs;
use std::path::Path;

use raft_testkit::fuzz::{Target, mutated};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

const COPIES: usize = 5;

fn run(name: &str, target: Target) {
    let mut count = 0;
    for kind in ["seeds", "regressions"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(kind).join(name);
        for file in fs::read_dir(folder).into_iter().flatten() {
            let path = file.expect("a folder lists its files").path();
            let bytes = fs::read(&path).expect("a file can be read");
            eprintln!("{}", path.display());
            target(&bytes);
            let mut random = Pcg64Mcg::seed_from_u64(count);
            (0..COPIES).for_each(|_| target(&mutated(&bytes, &mut random)));
            count += 1;
        }
    }
    assert!(count >= 20, "the seeds of {name} are there");
}

#[cfg(feature = "kv")]
#[test]
fn kv_store() {
    run("kv_store", crate::kv_store::run);
}

#[cfg(feature = "grpc")]
#[test]
fn peer_messages() {
    run("peer_messages", crate::peer_messages::run);
}
