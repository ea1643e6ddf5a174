//! The first port of a cluster that lays out its ports by itself; single ones are drawn by
//! `kontiki_kv::ports`.

use std::sync::atomic::{AtomicU16, Ordering};

use kontiki_kv::ports::is_free;

/// First ports from which `kontiki cluster` counts 20000 and 30000 up, and stays below those of
/// the kernel.
const BASE_FIRST: u16 = 1_100;
const BASE_COUNT: u16 = 500;

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
