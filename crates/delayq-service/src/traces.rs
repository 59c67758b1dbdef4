//! Traces: spans of recorded traces, queued by the caller and exported by a separate task.
//!
//! A span is created where its times and its trace are known, not around the work: the pump reads no message, so the
//! forwarder creates the pump's span. Spans that a collector does not accept in time are lost and counted: nothing
//! waits.

mod counts;
#[cfg(feature = "otlp")]
mod otlp;
mod span;

use crate::config::TracesConfig;
use crate::fault::Fault;
use crate::life::Process;
use crate::program::Program;
use counts::{Counts, DROPPED};
#[cfg(feature = "otlp")]
pub use otlp::Exporter;
pub use span::Span;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Maximum number of queued spans, at a few hundred bytes each.
const QUEUE: usize = 8192;

/// The destination of spans; clones share it. By default spans are discarded.
#[derive(Clone, Debug, Default)]
pub struct Traces(Option<SpanQueue>);

#[derive(Clone, Debug)]
struct SpanQueue {
    spans: mpsc::Sender<Span>,
    counts: Counts,
    /// Notifies the exporter when the last clone is dropped.
    _end: Arc<DropGuard>,
}

/// The exporter of a program without the feature `otlp`, which cannot exist.
#[cfg(not(feature = "otlp"))]
#[derive(Debug)]
pub enum Exporter {}

/// Opens the queue of spans to the configured collector, and registers its metrics; `instance` is the name of this
/// process. The caller must run the exporter, which is absent without a collector.
///
/// # Errors
/// [`CONFIG_FAULTY`](crate::codes::CONFIG_FAULTY): the endpoint or a header cannot be used, or the program was built
/// without the feature `otlp`.
pub fn open(
    config: &TracesConfig,
    process: &Process,
    instance: &str,
) -> Result<(Traces, Option<Exporter>), Fault> {
    let counts = Counts::new(&process.metrics);
    if config.endpoint.is_empty() {
        return Ok((Traces::default(), None));
    }
    let (spans, queued) = mpsc::channel(QUEUE);
    let Program { name, version } = process.program;
    let own = [("service.name", name), ("service.version", version), ("service.instance.id", instance)];
    let ended = CancellationToken::new();
    let exporter = Exporter::new(config, own, (queued, ended.clone()), counts.clone())?;
    Ok((Traces(Some(SpanQueue { spans, counts, _end: Arc::new(ended.drop_guard()) })), Some(exporter)))
}

// === impl Traces ===

impl Traces {
    /// True if spans are exported.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Queues a span; a full queue drops the span. Never waits.
    pub fn record(&self, span: Span) {
        if let Some(SpanQueue { spans, counts, .. }) = &self.0
            && spans.try_send(span).is_err()
        {
            counts.add(DROPPED, 1);
        }
    }
}

// === impl Exporter ===

#[cfg(not(feature = "otlp"))]
impl Exporter {
    fn new(
        _: &TracesConfig,
        own: span::Own<'_>,
        _: (mpsc::Receiver<Span>, CancellationToken),
        _: Counts,
    ) -> Result<Self, Fault> {
        let program = own[0].1;
        let why = format!("traces.endpoint: this {program} was built without the `otlp` feature");
        Err(Fault::new(&crate::codes::CONFIG_FAULTY, why))
    }

    /// Never called.
    ///
    /// # Errors
    /// None.
    #[allow(clippy::unused_async, reason = "as with the feature")]
    pub async fn run(self) -> Result<(), Fault> {
        match self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;
    use crate::traceparent::TraceParent;
    use delayq::protocol::UnixMicros;

    fn process() -> Process {
        Process::new(Program { name: "delayq-test", version: "1.2.3" })
    }

    fn span() -> Span {
        let put = TraceParent::recorded("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
        let own = put.another();
        let (start, end) = (UnixMicros(1), UnixMicros(2));
        Span { name: "x", own, parent: put.span, sends: false, start, end, attributes: vec![], failure: None }
    }

    #[test]
    fn without_room_a_span_is_dropped_and_counted() {
        let metrics = Metrics::new();
        let (spans, mut queued) = mpsc::channel(1);
        let _end = Arc::new(CancellationToken::new().drop_guard());
        let traces = Traces(Some(SpanQueue { spans, counts: Counts::new(&metrics), _end }));
        traces.record(span());
        traces.record(span());
        assert!(queued.try_recv().is_ok() && queued.try_recv().is_err());
        let text = metrics.encode();
        assert!(text.contains("delayq_traces_spans_total{outcome=\"dropped\"} 1"), "{text}");
    }

    #[test]
    fn without_a_collector_there_is_no_exporter() {
        let (traces, exporter) = open(&TracesConfig::default(), &process(), "one").unwrap();
        assert!(!traces.is_on() && exporter.is_none());
    }

    #[cfg(not(feature = "otlp"))]
    #[test]
    fn a_collector_is_refused_by_a_program_that_was_built_without_the_feature() {
        let config = TracesConfig { endpoint: "http://localhost:4317".to_owned(), ..TracesConfig::default() };
        let fault = open(&config, &process(), "one").unwrap_err().to_string();
        assert!(fault.contains("traces.endpoint") && fault.contains("`otlp`"), "{fault}");
    }
}
