//! Ports of this machine for nodes that a program starts by itself.
//!
//! Nobody else is likely to take them between the choice and the use, or while their node is down:
//! they are below those that the kernel gives to connections, and one process never gets the same
//! twice before it has had them all.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

const FIRST: u16 = 10_000;
const COUNT: u16 = 18_000;

/// `count` ports that are free now.
pub fn free(count: usize) -> Vec<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Programs beside each other have neighbouring numbers, and start far apart.
    let start = (std::process::id().wrapping_mul(977) % u32::from(COUNT)) as u16;
    let candidates = std::iter::repeat_with(|| {
        FIRST + (start + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT) % COUNT
    });
    candidates.filter(|port| is_free(*port)).take(count).collect()
}

/// Whether nobody of this machine listens there.
pub fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}
