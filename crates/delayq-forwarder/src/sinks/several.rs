//! Several kinds in one sink: each parcel goes to all of them, and is delivered when all have confirmed it.
//!
//! If one of them fails, the parcel is retried at every one: those that had it get it twice, with the same id and a higher
//! delivery number.

use crate::Parcel;
use crate::sink::{CheckError, Outcome, Outcomes, Sink};
use async_trait::async_trait;
use futures_util::future::join_all;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::interval;

/// How often outcomes are collected while others are missing.
const COLLECT_EVERY: Duration = Duration::from_millis(50);

/// The sink of a table with several kinds.
pub(super) struct SeveralSink(Vec<Arc<dyn Sink>>);

// === impl SeveralSink ===

impl SeveralSink {
    pub(super) fn new(sinks: Vec<Arc<dyn Sink>>) -> Self {
        Self(sinks)
    }
}

#[async_trait]
impl Sink for SeveralSink {
    async fn check(&self, destination: Option<&str>) -> Result<Vec<String>, CheckError> {
        let mut warnings = Vec::new();
        for sink in &self.0 {
            warnings.extend(sink.check(destination).await?);
        }
        Ok(warnings)
    }

    async fn deliver(&self, parcels: &[Parcel], outcomes: &Arc<Outcomes>) {
        let of_each: Vec<Arc<Outcomes>> = self.0.iter().map(|_| Outcomes::new(parcels.len())).collect();
        let calls = self.0.iter().zip(&of_each).map(|(sink, own)| sink.deliver(parcels, own));
        let mut calls = pin!(join_all(calls));
        let mut all: Vec<Vec<Outcome>> = vec![Vec::new(); parcels.len()];
        let mut every = interval(COLLECT_EVERY);
        loop {
            let ended = tokio::select! {
                biased;
                _ = &mut calls => true,
                _ = every.tick() => false,
            };
            for (index, outcome) in of_each.iter().flat_map(|own| own.fresh()) {
                all[index].push(outcome);
                if all[index].len() == self.0.len() {
                    let whole = std::mem::take(&mut all[index]).into_iter().reduce(worse);
                    outcomes.put(index, whole.expect("there is one of each sink"));
                }
            }
            if ended {
                return;
            }
        }
    }

    async fn close(&self) -> Result<(), String> {
        let closed = join_all(self.0.iter().map(|sink| sink.close())).await;
        let faults: Vec<String> = closed.into_iter().filter_map(Result::err).collect();
        if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
    }
}

/// The outcome of a parcel at two destinations: a rejection is permanent, unavailability is not.
fn worse(one: Outcome, other: Outcome) -> Outcome {
    match (&one, &other) {
        (Outcome::Rejected { .. }, _) | (Outcome::Unavailable { .. }, Outcome::Delivered) => one,
        (Outcome::Unavailable { .. }, Outcome::Unavailable { .. }) => one,
        _ => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parcel_is_delivered_only_where_all_have_confirmed_it() {
        let (done, down, never) = (Outcome::Delivered, Outcome::down("down"), Outcome::rejected("too large"));
        for (one, other, all) in [
            (&done, &done, &done),
            (&done, &down, &down),
            (&down, &done, &down),
            (&never, &down, &never),
            (&down, &never, &never),
            (&done, &never, &never),
        ] {
            assert_eq!(&worse(one.clone(), other.clone()), all);
        }
    }
}
