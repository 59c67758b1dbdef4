//! The metrics of the outbox.

use super::store::{Books, Verdict};
use crate::source_metrics::{SourceMetrics, SourcesMetrics};
use prometheus_client::metrics::gauge::Gauge;

#[derive(Clone, Debug)]
pub(super) struct OutboxMetrics {
    source: SourceMetrics,
    truncation_held: Gauge,
}

// === impl OutboxMetrics ===

impl OutboxMetrics {
    pub(super) fn register(metrics: &SourcesMetrics) -> Self {
        let help = "Whether a transaction keeps settled rows from being truncated: 1 or 0";
        let truncation_held = metrics.own.register("outbox_truncation_held", help, Gauge::default());
        let registered = Self { source: metrics.of("outbox"), truncation_held };
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
            self.source.settled(outcome).inc_by(rows);
        }
    }

    /// Counts a turn that could not be carried out.
    pub(super) fn hold(&self) {
        self.source.hold();
    }

    pub(super) fn show(&self, books: &Books) {
        self.source.records("rejected", books.rejected);
        self.source.records("resting", books.resting);
        self.source.oldest(books.oldest.unwrap_or_default());
        self.source.size(books.bytes);
        self.truncation_held.set(i64::from(books.held.is_some()));
    }
}
