//! The numbers of generated ids, which rise in the order in which they are made.

/// A clock that was set back by more than this is followed; by less, threads have only read it at once.
const SET_BACK_MS: u64 = 1000;

pub(crate) struct Rising {
    unix_ms: u64,
    number: u64,
}

// === impl Rising ===

impl Rising {
    pub(crate) const fn new() -> Self {
        Self { unix_ms: 0, number: 0 }
    }

    /// The next time, and a number of 62 bits: behind the last, unless the clock was set back. The first number of a millisecond
    /// is random and leaves room for half a billion steps, which are random too.
    pub(crate) fn next(&mut self, unix_ms: u64) -> (u64, u64) {
        if unix_ms <= self.unix_ms && self.unix_ms - unix_ms <= SET_BACK_MS {
            self.number += fastrand::u64(1..1 << 32);
        } else {
            (self.unix_ms, self.number) = (unix_ms, fastrand::u64(..1 << 61));
        }
        (self.unix_ms, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_rise_in_the_order_in_which_they_are_made_within_a_millisecond_and_over_threads() {
        let (mut rising, now) = (Rising::new(), 1_763_697_600_123);
        let mut last = rising.next(now);
        for n in 0..100_000_u64 {
            // Threads read the clock at once, and come here later.
            let next = rising.next(now + n / 1000 - n % 2);
            assert!(next > last, "{next:?} is not behind {last:?}");
            assert!(next.1 < 1 << 62);
            last = next;
        }
        assert_eq!(rising.next(now - 60_000).0, now - 60_000, "a clock that was set back is followed");
    }
}
