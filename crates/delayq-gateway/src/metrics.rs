//! The gateway's metrics.

use delayq_service::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

const STREAM_STATES: [&str; 3] = ["opening", "waiting", "full"];

/// Clones share the state.
#[derive(Clone, Debug)]
pub(crate) struct GatewayMetrics {
    requests: Family<OfRoute, Counter>,
    connections: Gauge,
    refused: Counter,
    handshake_errors: Counter,
    polls: Gauge,
    streams: Family<OfStream, Gauge>,
    streams_closed: Family<OfCode, Counter>,
    given_back: Counter,
    over_quota: Family<OfQuota, Counter>,
    actions_lost: Counter,
    operated: Family<OfOutcome, Counter>,
    operations: Gauge,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfRoute {
    route: &'static str,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfStream {
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfCode {
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfQuota {
    quota: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfOutcome {
    outcome: &'static str,
}

#[derive(Debug)]
pub(crate) struct GaugeGuard(Gauge);

// === impl GatewayMetrics ===

impl GatewayMetrics {
    /// Once in a process.
    pub(crate) fn register(metrics: &Metrics) -> Self {
        let requests = "Answered requests, by route and status; the route is none where no route was found";
        let refused = "Connections answered 503 because too many were open";
        let handshakes = "Connections closed because their TLS handshake failed or took too long";
        let polls = "Reserves that wait for a message";
        let streams = "Open streams, by state: opening (not asked for messages yet), waiting (for messages), or full (the client has \
                       as many messages as its credits)";
        let closed = "Streams that have ended, by the code of the close frame: 1000 for those that the client closed, 1006 for those \
                      whose client went without one";
        let given_back = "Messages given back: their client was gone, or the answer had no room for them";
        let over = "Refusals by a quota of a tenant: puts, pending, bytes, polls or turns";
        let lost = "Actions that are missing in the log of actions: Redis was away, or too many came at once";
        let operated = "Messages that operations acted on, by outcome";
        let operations = "Operations that this gateway advances";
        let streams = metrics.register("gateway_streams", streams, Family::default());
        let streams_closed: Family<OfCode, Counter> =
            metrics.register("gateway_streams_closed", closed, Family::default());
        // Shown before the first stream, too.
        for state in STREAM_STATES {
            drop(streams.get_or_create(&OfStream { state }));
        }
        drop(streams_closed.get_or_create(&OfCode { code: 1000 }));
        Self {
            requests: metrics.register("gateway_requests", requests, Family::default()),
            connections: metrics.register("gateway_connections", "Open connections", Gauge::default()),
            refused: metrics.register("gateway_connections_refused", refused, Counter::default()),
            handshake_errors: metrics.register("gateway_handshake_errors", handshakes, Counter::default()),
            polls: metrics.register("gateway_polls", polls, Gauge::default()),
            streams,
            streams_closed,
            given_back: metrics.register("gateway_given_back", given_back, Counter::default()),
            over_quota: metrics.register("gateway_over_quota", over, Family::default()),
            actions_lost: metrics.register("gateway_actions_lost", lost, Counter::default()),
            operated: metrics.register("gateway_operated", operated, Family::default()),
            operations: metrics.register("gateway_operations", operations, Gauge::default()),
        }
    }

    pub(crate) fn answered(&self, route: &'static str, status: u16) {
        self.requests.get_or_create(&OfRoute { route, status }).inc();
    }

    pub(crate) fn connection_opened(&self) -> GaugeGuard {
        GaugeGuard::one(&self.connections)
    }

    pub(crate) fn connection_refused(&self) {
        self.refused.inc();
    }

    pub(crate) fn handshake_failed(&self) {
        self.handshake_errors.inc();
    }

    pub(crate) fn poll_began(&self) -> GaugeGuard {
        GaugeGuard::one(&self.polls)
    }

    pub(crate) fn stream_in(&self, state: &'static str) -> GaugeGuard {
        GaugeGuard::one(&self.streams.get_or_create(&OfStream { state }))
    }

    pub(crate) fn stream_closed(&self, code: u16) {
        self.streams_closed.get_or_create(&OfCode { code }).inc();
    }

    pub(crate) fn over_quota(&self, quota: &'static str) {
        self.over_quota.get_or_create(&OfQuota { quota }).inc();
    }

    pub(crate) fn actions_lost(&self, actions: u64) {
        self.actions_lost.inc_by(actions);
    }

    pub(crate) fn operated(&self, outcome: &'static str) {
        self.operated.get_or_create(&OfOutcome { outcome }).inc();
    }

    pub(crate) fn operation_taken(&self) -> GaugeGuard {
        GaugeGuard::one(&self.operations)
    }

    pub(crate) fn given_back(&self, messages: usize) {
        self.given_back.inc_by(messages as u64);
    }
}

// === impl GaugeGuard ===

impl GaugeGuard {
    fn one(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}
