//! What a tenant uses of its quotas through this gateway.

use super::bucket::Bucket;
use super::share::share;
use crate::problem::{Over, Quota};
use crate::tenants::Quotas;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Messages leave only as they become due or are taken: an earlier repeat is of no use.
const PENDING_WAIT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Usage {
    /// `None`: no put since the quota was set.
    bucket: Option<Bucket>,
    /// Wanted puts of this second, and of the last.
    demand: u64,
    last_demand: u64,
    /// Of the other gateways.
    others: Vec<u64>,
    /// Admitted puts ever.
    admitted: u64,
    /// Messages at the last count, and the admitted puts before it.
    counted: Option<(u64, u64)>,
    room: Limited,
    places: Limited,
    connections: Limited,
    turns: Limited,
}

/// A semaphore of a size that may change.
#[derive(Debug)]
struct Limited {
    most: usize,
    permits: Arc<Semaphore>,
}

// === impl Usage ===

impl Usage {
    pub(super) fn new() -> Self {
        Self {
            bucket: None,
            demand: 0,
            last_demand: 0,
            others: Vec::new(),
            admitted: 0,
            counted: None,
            room: Limited::of(0),
            places: Limited::of(0),
            connections: Limited::of(0),
            turns: Limited::of(0),
        }
    }

    /// Returns how many of the puts are admitted, and the quota that refuses the others.
    pub(super) fn admit(&mut self, quotas: &Quotas, puts: usize, now: Instant) -> (usize, Option<Over>) {
        self.demand += puts as u64;
        let (mut admitted, mut over) = (puts, None);
        if let Some(most) = quotas.pending {
            let left = most.saturating_sub(self.pending());
            if left < admitted as u64 {
                admitted = left as usize;
                over = Some(Over::new(Quota::Pending, most).wait(PENDING_WAIT));
            }
        }
        match quotas.puts_per_second {
            None => self.bucket = None,
            Some(most) => {
                let rate = share(f64::from(most), self.demand.max(self.last_demand), &self.others);
                let second_ago = now.checked_sub(Duration::from_secs(1)).unwrap_or(now);
                let bucket = self.bucket.get_or_insert_with(|| Bucket::empty(second_ago));
                let taken = bucket.take(admitted, rate, now);
                if taken < admitted {
                    admitted = taken;
                    over = Some(Over::new(Quota::Puts, most.into()).wait(bucket.wait(rate)));
                }
            }
        }
        self.admitted += admitted as u64;
        (admitted, over)
    }

    pub(super) fn end_second(&mut self) -> u64 {
        self.last_demand = std::mem::take(&mut self.demand);
        self.last_demand
    }

    pub(super) fn deal(&mut self, others: Vec<u64>) {
        self.others = others;
    }

    pub(super) fn admitted(&self) -> u64 {
        self.admitted
    }

    /// `before`: the admitted puts before the count.
    pub(super) fn counted(&mut self, pending: u64, before: u64) {
        self.counted = Some((pending, before));
    }

    pub(super) fn room(&mut self, most: usize) -> Arc<Semaphore> {
        self.room.of_size(most)
    }

    pub(super) fn places(&mut self, most: usize) -> Arc<Semaphore> {
        self.places.of_size(most)
    }

    pub(super) fn connections(&mut self, most: usize) -> Arc<Semaphore> {
        self.connections.of_size(most)
    }

    pub(super) fn turns(&mut self, most: usize) -> Arc<Semaphore> {
        self.turns.of_size(most)
    }

    /// At most: messages that left since the count are counted still.
    fn pending(&self) -> u64 {
        let (counted, before) = self.counted.unwrap_or((0, 0));
        counted + (self.admitted - before)
    }
}

// === impl Limited ===

impl Limited {
    fn of(most: usize) -> Self {
        Self { most, permits: Arc::new(Semaphore::new(most)) }
    }

    /// After a change, what was taken before does not count.
    fn of_size(&mut self, most: usize) -> Arc<Semaphore> {
        if self.most != most {
            *self = Self::of(most);
        }
        Arc::clone(&self.permits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotas(puts_per_second: Option<u32>, pending: Option<u64>) -> Quotas {
        Quotas { puts_per_second, pending, bytes: None }
    }

    #[test]
    fn the_first_quota_that_is_used_up_refuses_the_rest_of_a_batch() {
        let (mut usage, now) = (Usage::new(), Instant::now());
        assert_eq!(usage.admit(&quotas(None, None), 1000, now), (1000, None));
        let (admitted, over) = usage.admit(&quotas(Some(100), None), 150, now);
        assert_eq!((admitted, over.unwrap().quota), (100, Quota::Puts));
        let (admitted, over) = usage.admit(&quotas(None, Some(1105)), 10, now);
        assert_eq!((admitted, over.unwrap().quota), (5, Quota::Pending));
        let before = usage.admitted();
        usage.admit(&quotas(None, None), 3, now);
        usage.counted(40, before);
        assert_eq!(usage.admit(&quotas(None, Some(50)), 10, now).0, 7);
        assert_eq!(usage.admit(&quotas(None, Some(50)), 1, now).0, 0);
        usage.counted(20, usage.admitted());
        assert_eq!(usage.admit(&quotas(None, Some(50)), 1, now).0, 1);
    }

    #[test]
    fn a_gateway_admits_its_share() {
        let (mut usage, now) = (Usage::new(), Instant::now());
        usage.admit(&quotas(Some(100), None), 500, now);
        usage.end_second();
        usage.deal(vec![500]);
        let later = now + Duration::from_secs(10);
        assert_eq!(usage.admit(&quotas(Some(100), None), 500, later).0, 50);
    }
}
