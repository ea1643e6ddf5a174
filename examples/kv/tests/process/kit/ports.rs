//! Ports that nobody else is likely to take between the choice and the use: below those that the
//! kernel gives to connections, and no two tests of this process get the same.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

const FIRST: u16 = 10_000;
const COUNT: u16 = 18_000;
/// First ports from which `kontiki cluster` counts 20000 and 30000 up, and stays below those of
/// the kernel.
const BASE_FIRST: u16 = 1_100;
const BASE_COUNT: u16 = 500;

/// `count` free ports.
pub(crate) fn ports(count: usize) -> Vec<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id().wrapping_mul(977) % u32::from(COUNT)) as u16;
    let candidates = std::iter::repeat_with(|| {
        FIRST + (start + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT) % COUNT
    });
    candidates.filter(|port| is_free(*port)).take(count).collect()
}

/// A free `--base-port` for a cluster of up to three.
pub(crate) fn base_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Test runs beside each other have neighbouring numbers, and start far apart.
    let start = (std::process::id().wrapping_mul(97) % u32::from(BASE_COUNT)) as u16;
    let mut candidates = std::iter::repeat_with(|| {
        BASE_FIRST + 2 * ((start + NEXT.fetch_add(1, Ordering::Relaxed)) % BASE_COUNT)
    });
    let all_free = |base: &u16| {
        [0, 1, 20_000, 20_001, 30_000, 30_001].iter().all(|offset| is_free(base + offset))
    };
    candidates.by_ref().take(usize::from(BASE_COUNT)).find(all_free).expect("a free base port")
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}
