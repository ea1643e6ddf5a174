//! We answer as etcd does: the same requests go to an etcd and to a node of ours, odd ones above
//! all, and every answer is compared, its code, its message and every field.
//!
//! ```text
//!                     ┌─▶ etcd            ─┐
//!   scenes ─▶ Pair ───┤                    ├──▶ equal, or in `known.rs` with a reason,
//!                     └─▶ kontiki serve   ─┘    or printed, and the test fails
//! ```
//! The etcd is the one that `KONTIKI_ETCD` names, or that is found on the path; `etcdctl` lies
//! beside it, is named by `KONTIKI_ETCDCTL`, or is found on the path. Where there is none, the
//! tests say so and do nothing. Ours is meant to be as etcd 3.5, and what 3.4 does differently is
//! in the table too. `KONTIKI_ETCD_SEED` replays the random requests of a run.
//!
//! It never looks into either store: what clients cannot see may differ.

mod call;
mod etcdctl;
mod known;
mod lease_call;
mod member_call;
mod pair;
mod requests;
mod scenes;
mod server;
mod text;
mod watching;
mod web;

use pair::Pair;
use server::{Etcd, Server};

/// Runs what is asynchronous of a test.
fn block_on(story: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(story);
}

/// Both servers, fresh, or nothing but a line that says why.
async fn start() -> Option<(Etcd, Pair)> {
    let etcd = match Etcd::find() {
        Ok(etcd) => etcd,
        Err(reason) => {
            eprintln!("SKIPPED, nothing was compared: {reason}");
            return None;
        }
    };
    let theirs = Server::start("etcd", |at| etcd.command(at)).await;
    let ours = Server::start("kontiki", server::kontiki).await;
    let pair = Pair::new(theirs, ours, &etcd.version).await;
    Some((etcd, pair))
}

#[test]
fn the_same_requests_get_the_same_answers() {
    block_on(async {
        let Some((_, mut pair)) = start().await else { return };
        scenes::play(&mut pair).await;
        pair.finish();
    });
}

#[test]
fn etcdctl_prints_the_same() {
    block_on(async {
        let Some((etcd, pair)) = start().await else { return };
        match etcd.etcdctl() {
            Ok(etcdctl) => etcdctl::compare(&etcdctl, &pair),
            Err(reason) => eprintln!("SKIPPED, nothing was compared: {reason}"),
        }
    });
}
