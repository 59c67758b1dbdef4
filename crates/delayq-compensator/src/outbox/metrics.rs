//! The metrics of the outbox.

use super::store::{Books, Verdict};
use delayq_service::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Unit;
use std::sync::atomic::AtomicU64;

#[derive(Clone, Debug)]
pub(super) struct OutboxMetrics {
    settled: Family<OfOutcome, Counter>,
    held: Counter,
    aside: Family<OfState, Gauge>,
    oldest: Gauge<f64, AtomicU64>,
    size: Gauge,
    truncation_held: Gauge,
}

/// What became of a row.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfOutcome {
    outcome: &'static str,
}

/// How a row is kept aside.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfState {
    state: &'static str,
}

// === impl OutboxMetrics ===

impl OutboxMetrics {
    pub(super) fn register(metrics: &Metrics) -> Self {
        let registered = Self {
            settled: metrics.register(
                "outbox_settled",
                "Rows of the outbox that this process carried out (done), set aside (rejected) or let rest (resting)",
                Family::default(),
            ),
            held: metrics.register(
                "outbox_held",
                "Turns that ended because Redis or the database could not be used",
                Counter::default(),
            ),
            aside: metrics.register(
                "outbox_aside",
                "Rows of the outbox that are kept aside: rejected, or resting until they are tried again",
                Family::default(),
            ),
            oldest: metrics.register_with_unit(
                "outbox_oldest_age",
                "How long the oldest row of the outbox has waited",
                Unit::Seconds,
                Gauge::default(),
            ),
            size: metrics.register_with_unit(
                "outbox_size",
                "What the rows of the outbox take, settled ones included until they are truncated",
                Unit::Bytes,
                Gauge::default(),
            ),
            truncation_held: metrics.register(
                "outbox_truncation_held",
                "Whether a transaction keeps settled rows from being truncated: 1 or 0",
                Gauge::default(),
            ),
        };
        registered.count(&[]);
        registered.show(&Books::default());
        registered
    }

    /// Counts what a turn did.
    pub(super) fn count(&self, verdicts: &[Verdict]) {
        let (mut done, mut rejected, mut resting) = (0, 0, 0);
        for verdict in verdicts {
            match verdict {
                Verdict::Done => done += 1,
                Verdict::Rejected(_) => rejected += 1,
                Verdict::Rests(_) => resting += 1,
                Verdict::Untried => {}
            }
        }
        for (outcome, rows) in [("done", done), ("rejected", rejected), ("resting", resting)] {
            self.settled.get_or_create(&OfOutcome { outcome }).inc_by(rows);
        }
    }

    /// Counts a turn that could not be carried out.
    pub(super) fn hold(&self) {
        self.held.inc();
    }

    pub(super) fn show(&self, books: &Books) {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        for (state, rows) in [("rejected", books.rejected), ("resting", books.resting)] {
            self.aside.get_or_create(&OfState { state }).set(number(rows));
        }
        self.oldest.set(books.oldest.unwrap_or_default().as_secs_f64());
        self.size.set(number(books.bytes));
        self.truncation_held.set(i64::from(books.held.is_some()));
    }
}
