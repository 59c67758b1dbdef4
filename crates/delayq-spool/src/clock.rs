//! This host's clocks, which date spooled records. They measure no due time.
//!
//! The wall clock may be set while a record waits, so each record also has the time since the host's boot. Within one boot, the
//! difference of the two says by how much the wall clock was set since, and the record's times are corrected by that.

use delayq_core::time::UnixMillis;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::sync::LazyLock;
use std::time::SystemTime;

/// A hash of the boot's id, which is the same for all processes and containers of a host; 0: unknown.
static BOOT: LazyLock<i64> = LazyLock::new(|| {
    let id = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    if id.is_empty() { 0 } else { i64::from(crc32fast::hash(&id) >> 1) | 1 }
});

/// The two clocks are read one after the other, and rounded.
const NOISE_MS: u64 = 5;

/// A point in time by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) wall: UnixMillis,
    /// Which boot; 0: unknown.
    pub(crate) boot: i64,
    /// The time since then.
    pub(crate) up_ms: i64,
}

/// This host's time; 0 before the epoch.
#[allow(clippy::disallowed_methods, reason = "the one place of this crate that reads the host's clock")]
pub(crate) fn now() -> UnixMillis {
    SystemTime::now().into()
}

// === impl Moment ===

impl Moment {
    pub(crate) fn now() -> Self {
        let up = clock_gettime(ClockId::Boottime);
        Self { wall: now(), boot: *BOOT, up_ms: up.tv_sec * 1000 + up.tv_nsec / 1_000_000 }
    }

    /// By how many milliseconds the wall clock was set between an earlier moment and this one; 0 if the host was booted
    /// between them, for then nothing is known of it.
    pub(crate) fn set_since(&self, earlier: &Self) -> i64 {
        // A time of 0 could not be read.
        if self.boot == 0 || self.boot != earlier.boot || earlier.wall.get() == 0 {
            return 0;
        }
        let booted = |at: &Self| at.wall.get().cast_signed().saturating_sub(at.up_ms);
        let set_ms = booted(self).saturating_sub(booted(earlier));
        if set_ms.unsigned_abs() > NOISE_MS { set_ms } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_a_boot_it_is_known_by_how_much_the_wall_clock_was_set() {
        let at = |wall, boot, up_ms| Moment { wall: UnixMillis::new(wall), boot, up_ms };
        let earlier = at(1_000_000, 7, 5_000);
        for (later, expected) in [
            (at(1_060_002, 7, 65_000), 0),
            (at(2_860_000, 7, 65_000), 1_800_000),
            (at(160_000, 7, 65_000), -900_000),
            (at(2_860_000, 8, 65_000), 0),
        ] {
            assert_eq!(later.set_since(&earlier), expected, "{later:?}");
        }
        assert_eq!(at(9, 0, 0).set_since(&at(1, 0, 0)), 0, "nothing is known of the boot");
        let now = Moment::now();
        assert!(now.boot != 0 && now.up_ms > 0, "{now:?}");
    }
}
