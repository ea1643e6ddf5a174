//! What is asked, scene by scene, of two stores that begin fresh.
//!
//! A scene leaves the store as it likes; the next one stands on keys of its own. Go sorts rows
//! with equal targets in no promised order once there are more than six of them, so that no scene
//! sorts more by anything but the key.

mod alarms;
mod compact;
mod delete;
mod duplicates;
mod fresh;
mod lease;
mod limits;
mod members;
mod put;
mod random;
mod range;
mod services;
mod turns;
mod txn;
mod txn_compare;
mod watch;
mod web;

use crate::pair::Pair;

pub async fn play(pair: &mut Pair) {
    fresh::play(pair).await;
    range::play(pair).await;
    put::play(pair).await;
    delete::play(pair).await;
    txn::play(pair).await;
    txn_compare::play(pair).await;
    duplicates::play(pair).await;
    limits::play(pair).await;
    services::play(pair).await;
    web::play(pair).await;
    alarms::play(pair).await;
    watch::play(pair).await;
    turns::play(pair).await;
    compact::play(pair).await;
    random::play(pair).await;
    lease::play(pair).await;

    members::play(pair).await;

    pair.scene("after a crash");
    pair.restart().await;
    members::after(pair).await;
    lease::after(pair).await;
    pair.dump_history(random::HISTORY).await;
    compact::around(pair).await;
    pair.ask(crate::requests::put("after", "the crash")).await;
    pair.dump().await;
}
