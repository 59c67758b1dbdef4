//! Several kinds in one sink: each parcel goes to all of them, and is delivered when all have confirmed it.
//!
//! Where one of them fails the parcel is tried again at every one: those that had it get it twice, with the same id
//! and a higher delivery number.

use crate::{
    Parcel,
    sink::{CheckError, Outcome, Sink},
};
use async_trait::async_trait;
use futures_util::future::join_all;
use std::sync::Arc;

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
    fn kind(&self) -> &'static str {
        "several"
    }

    async fn check(&self, destination: Option<&str>) -> Result<Vec<String>, CheckError> {
        let mut warnings = Vec::new();
        for sink in &self.0 {
            warnings.extend(sink.check(destination).await?);
        }
        Ok(warnings)
    }

    async fn deliver(&self, parcels: &[Parcel]) -> Vec<Outcome> {
        let answers = join_all(self.0.iter().map(|sink| sink.deliver(parcels))).await;
        answers
            .into_iter()
            .reduce(|all, more| all.into_iter().zip(more).map(worse).collect())
            .unwrap_or_default()
    }

    async fn close(&self) -> Result<(), String> {
        let closed = join_all(self.0.iter().map(|sink| sink.close())).await;
        let faults: Vec<String> = closed.into_iter().filter_map(Result::err).collect();
        if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
    }
}

/// What is said of a parcel that two destinations answer for: a rejection is for ever, an absence may pass.
fn worse((one, other): (Outcome, Outcome)) -> Outcome {
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
            assert_eq!(&worse((one.clone(), other.clone())), all);
        }
    }
}
