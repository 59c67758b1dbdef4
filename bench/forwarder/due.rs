//! Due times, and how late something is by the host's clock, which is the Redis's too.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The host's clock.
#[allow(clippy::disallowed_methods, reason = "a measurement across processes of one host")]
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// So many times a second for so many seconds, from `from_ms` on, at chance distances.
pub(crate) fn spread(rate: usize, secs: usize, from_ms: u64) -> Vec<u64> {
    // A linear congruential generator: every run has the same times.
    let mut state = 88_172_645_463_325_252_u64;
    let mut dues: Vec<u64> = (0..rate * secs)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            from_ms + (state >> 33) % (secs as u64 * 1000)
        })
        .collect();
    dues.sort_unstable();
    dues
}

/// How late a message is whose body begins with its due time, in microseconds.
pub(crate) fn late_us(body: &[u8]) -> u64 {
    let digits = body.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let due: u64 = std::str::from_utf8(&body[..digits]).unwrap().parse().unwrap();
    let late = i64::try_from(now().as_micros()).unwrap() - i64::try_from(due * 1000).unwrap();
    u64::try_from(late).expect("nothing is early")
}

/// The smallest value that so great a part of them does not exceed, in milliseconds.
pub(crate) fn percentile_ms(values_us: &mut [u64], part: f64) -> f64 {
    values_us.sort_unstable();
    let place = (values_us.len() as f64 * part).ceil() as usize;
    values_us[place.clamp(1, values_us.len()) - 1] as f64 / 1000.0
}
