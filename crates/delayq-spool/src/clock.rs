//! The clocks that date spooled records. Due times are measured by Redis.
//!
//! The wall clock may be set while a record waits, so each record also has the time since the host's boot. Within one boot,
//! the difference of the two says by how much the wall clock was set since, and corrects the record's times. Across boots,
//! Redis's clock does: the compensator notes Redis's time at each boot.

use delayq_core::time::UnixMillis;
use rusqlite::{Connection, params};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::fs;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

/// A hash of the boot's id, which is the same for all processes and containers of a host; 0: unknown.
static BOOT: LazyLock<i64> = LazyLock::new(|| {
    let id = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    if id.is_empty() { 0 } else { i64::from(crc32fast::hash(&id) >> 1) | 1 }
});

/// Noise of the two clocks, which are read one after the other, and rounded.
const NOISE_MS: u64 = 5;
/// Maximum time for Redis's answer, which bounds the error of a note.
const ROUND_TRIP_MS: i64 = 500;
/// Maximum number of boots that are kept.
const BOOTS: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) wall: UnixMillis,
    /// Which boot; 0: unknown.
    pub(crate) boot: i64,
    /// The time since then.
    pub(crate) up_ms: i64,
}

/// The moment at which Redis is asked for its time.
#[derive(Clone, Copy, Debug)]
pub struct Asked(Moment);

/// The time of Redis's clock at this host's boot: a lower bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    pub(crate) boot: i64,
    pub(crate) redis_ms: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct Clocks {
    pub(crate) now: Moment,
    redis_ms: HashMap<i64, i64>,
}

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
}

// === impl Asked ===

impl Asked {
    /// Maximum time for Redis's answer.
    pub const PATIENCE: Duration = Duration::from_millis(ROUND_TRIP_MS.unsigned_abs());

    /// Now.
    pub fn now() -> Self {
        Self(Moment::now())
    }

    /// Takes Redis's answer, which arrived just now; `None`: the answer took too long, or the boot is unknown.
    pub fn answered(self, answer: UnixMillis) -> Option<Heard> {
        self.answered_at(answer, Moment::now())
    }

    fn answered_at(self, answer: UnixMillis, now: Moment) -> Option<Heard> {
        let took = now.up_ms - self.0.up_ms;
        let redis_ms = answer.get().cast_signed().saturating_sub(now.up_ms);
        (now.boot != 0 && took <= ROUND_TRIP_MS).then_some(Heard { boot: now.boot, redis_ms })
    }
}

// === impl Clocks ===

impl Clocks {
    /// `heard` takes precedence.
    pub(crate) fn read(connection: &Connection, heard: Option<Heard>) -> rusqlite::Result<Self> {
        let mut read = connection.prepare_cached("SELECT boot, redis_ms FROM clocks")?;
        let rows = read.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        // Skip rows of another type.
        let heard = heard.map(|heard| (heard.boot, heard.redis_ms));
        Ok(Self { now: Moment::now(), redis_ms: rows.flatten().chain(heard).collect() })
    }

    /// In milliseconds; 0 where nothing is known of the earlier moment.
    pub(crate) fn set_since(&self, earlier: &Moment) -> i64 {
        // A time of 0 could not be read.
        if self.now.boot == 0 || earlier.boot == 0 || earlier.wall.get() == 0 {
            return 0;
        }
        let by_wall = self.now.wall.get().cast_signed().saturating_sub(earlier.wall.get().cast_signed());
        let set_ms = by_wall.saturating_sub(self.passed_since(earlier).unwrap_or(by_wall));
        if set_ms.unsigned_abs() > NOISE_MS { set_ms } else { 0 }
    }

    /// An upper bound; `None`: unknown.
    fn passed_since(&self, earlier: &Moment) -> Option<i64> {
        if self.now.boot == earlier.boot {
            return Some(self.now.up_ms.saturating_sub(earlier.up_ms));
        }
        let redis_at = |moment: &Moment| Some(self.redis_ms.get(&moment.boot)?.saturating_add(moment.up_ms));
        // The older note may be too low by that much, and no delay may end early.
        Some(redis_at(&self.now)?.saturating_sub(redis_at(earlier)?).saturating_sub(ROUND_TRIP_MS))
    }
}

/// Keeps an earlier note.
pub(crate) fn note(connection: &Connection, heard: Heard) -> rusqlite::Result<()> {
    let known = "SELECT 1 FROM clocks WHERE boot = ? AND abs(redis_ms - ?) <= ?";
    if connection.prepare_cached(known)?.exists(params![heard.boot, heard.redis_ms, ROUND_TRIP_MS])? {
        return Ok(());
    }
    let insert =
        "INSERT INTO clocks VALUES (?, ?) ON CONFLICT (boot) DO UPDATE SET redis_ms = excluded.redis_ms";
    connection.execute(insert, params![heard.boot, heard.redis_ms])?;
    let forget =
        "DELETE FROM clocks WHERE boot NOT IN (SELECT boot FROM clocks ORDER BY redis_ms DESC LIMIT ?)";
    connection.execute(forget, [BOOTS]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(wall: u64, boot: i64, up_ms: i64) -> Moment {
        Moment { wall: UnixMillis::new(wall), boot, up_ms }
    }

    #[test]
    fn within_a_boot_it_is_known_by_how_much_the_wall_clock_was_set() {
        let set_since = |now, earlier| Clocks { now, redis_ms: HashMap::new() }.set_since(&earlier);
        for (later, expected) in [
            (at(1_060_002, 7, 65_000), 0),
            (at(2_860_000, 7, 65_000), 1_800_000),
            (at(160_000, 7, 65_000), -900_000),
            (at(2_860_000, 8, 65_000), 0),
        ] {
            assert_eq!(set_since(later, at(1_000_000, 7, 5_000)), expected, "{later:?}");
        }
        assert_eq!(set_since(at(9, 0, 0), at(1, 0, 0)), 0, "nothing is known of the boot");
        let now = Moment::now();
        assert!(now.boot != 0 && now.up_ms > 0, "{now:?}");
    }

    #[test]
    fn across_boots_it_is_known_by_redis_and_no_delay_ends_early() {
        // The boot 8 began 100 s after the boot 7, by Redis.
        let clocks = |wall, up_ms| Clocks {
            now: at(wall, 8, up_ms),
            redis_ms: HashMap::from([(7, 5_000_000), (8, 5_100_000)]),
        };
        // 155 s passed.
        for (wall, set_ms) in [(1_155_000, 0), (2_955_000, 1_800_000), (255_000, -900_000)] {
            let found = clocks(wall, 60_000).set_since(&at(1_000_000, 7, 5_000));
            assert!((set_ms..=set_ms + ROUND_TRIP_MS).contains(&found), "{wall}: {found}");
        }
        assert_eq!(clocks(2_955_000, 60_000).set_since(&at(1_000_000, 6, 5_000)), 0, "no such message");
    }

    #[test]
    fn an_answer_that_took_long_says_nothing() {
        let (now, asked) = (at(1, 7, 10_000), |up_ms| Asked(at(1, 7, up_ms)));
        let heard = |up_ms, answer| asked(up_ms).answered_at(UnixMillis::new(answer), now);
        assert_eq!(heard(9_000, 5_070_000), None, "it took a second");
        assert_eq!(heard(9_990, 5_070_000), Some(Heard { boot: 7, redis_ms: 5_060_000 }));
    }
}
