//! The processes of a deployment, by what each exports: lateness, destinations with their circuits, and sources of recorded writes.

use crate::deployment::Deployment;
use crate::endpoints::{Endpoint, endpoints};
use crate::exposition::{Exposition, Series};
use delayq_service::config::HostPort;
use futures_util::future::join_all;
use serde::Deserialize;
use std::collections::BTreeMap;

const LATENESS: [&str; 2] = ["delayq_lateness_seconds", "delayq_forwarder_lateness_seconds"];

/// A process: the exported metrics, or the reason for the missing answer.
#[derive(Clone, Debug)]
pub struct ProcessSeen {
    /// The name of the process: `timer-NAME`, or the address alone without a registration.
    pub name: String,
    /// The exports, or why there are none.
    pub exported: Result<Exposition, String>,
    /// The answer of `/readyz`.
    pub readiness: ReadinessSeen,
}

/// What a process says of itself at `/readyz`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ReadinessSeen {
    /// True if the process says that it is ready.
    pub ready: bool,
    /// The last error of each destination that refuses messages, by sink and destination.
    pub failing: BTreeMap<String, String>,
}

/// A destination of a forwarder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteEnd {
    /// The name of the sink.
    pub sink: String,
    /// The destination within the sink.
    pub destination: String,
    /// Whether the destination gets messages.
    pub circuit: Circuit,
    /// The last error, in the destination's own words, while it does not get all messages.
    pub reason: Option<String>,
}

/// Whether a destination gets messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Circuit {
    /// It does.
    Closed,
    /// One message tries whether it works again.
    HalfOpen,
    /// It rests after failures.
    Open,
    /// It rests because it rejects messages.
    Rests,
}

/// A source of recorded writes: the spool, the outbox, or an intake.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceSeen {
    /// `spool`, `outbox`, or `intake.NAME`.
    pub source: String,
    /// Writes that wait for their turn.
    pub waiting: u64,
    /// Writes that rest until a cause is gone.
    pub resting: u64,
    /// Writes that were set aside.
    pub rejected: u64,
    /// The age of the oldest.
    pub oldest_age_ms: u64,
    /// The bytes that the source takes, where it says so.
    pub size_bytes: Option<u64>,
}

// === impl ProcessSeen ===

impl ProcessSeen {
    /// `ready`, `not_ready`, `drained` or `silent`.
    pub fn state(&self) -> &'static str {
        match &self.exported {
            Err(_) => "silent",
            Ok(_) if !self.readiness.ready => "not_ready",
            Ok(exported) if exported.sum("delayq_timer_drained") == Some(1.0) => "drained",
            Ok(_) => "ready",
        }
    }

    /// The number of shards.
    pub fn shards(&self) -> Option<u64> {
        let exported = self.exported.as_ref().ok()?;
        let shards = exported.sum("delayq_timer_shards").or_else(|| exported.sum("delayq_forwarder_shards"));
        shards.map(|shards| shards as u64)
    }

    /// The bound below which `part` of the messages were late since `before`, in seconds.
    pub fn lateness(&self, before: Option<&Self>, part: f64) -> Option<f64> {
        let earlier = before.and_then(|before| before.exported.as_ref().ok());
        let exported = self.exported.as_ref().ok()?;
        LATENESS.iter().find_map(|name| exported.quantile(name, earlier, part))
    }

    /// How long the most overdue message has been due, in seconds.
    pub fn overdue(&self) -> Option<f64> {
        self.exported.as_ref().ok()?.sum("delayq_timer_oldest_overdue_seconds")
    }

    /// The destinations of a forwarder, each with its circuit.
    pub fn destinations(&self) -> Vec<RouteEnd> {
        let Ok(exported) = &self.exported else { return Vec::new() };
        let is_braked = |of: &Series| {
            exported.of("delayq_forwarder_braked").any(|one| one.labels == of.labels && one.value > 0.0)
        };
        let seen = |series: &Series| {
            let (sink, destination) = (label(series, "sink"), label(series, "destination"));
            let circuit = match series.value {
                _ if is_braked(series) => Circuit::Rests,
                value if value < 0.5 => Circuit::Closed,
                value if value < 1.5 => Circuit::HalfOpen,
                _ => Circuit::Open,
            };
            let reason = self.readiness.failing.get(&format!("{sink} {destination}")).cloned();
            RouteEnd { sink, destination, circuit, reason }
        };
        exported.of("delayq_forwarder_circuit").map(seen).collect()
    }

    /// The sources of a compensator.
    pub fn sources(&self) -> Vec<SourceSeen> {
        let Ok(exported) = &self.exported else { return Vec::new() };
        let mut seen: Vec<SourceSeen> = Vec::new();
        for series in exported.of("delayq_source_records") {
            let name = label(series, "source");
            let at = seen.iter().position(|one| one.source == name).unwrap_or_else(|| {
                seen.push(SourceSeen { source: name, ..SourceSeen::default() });
                seen.len() - 1
            });
            match label(series, "state").as_str() {
                "waiting" => seen[at].waiting = series.value as u64,
                "resting" => seen[at].resting = series.value as u64,
                "rejected" => seen[at].rejected = series.value as u64,
                _ => {}
            }
        }
        let of = |name, source: &str| {
            exported.of(name).find(|one| label(one, "source") == source).map(|one| one.value)
        };
        for one in &mut seen {
            let age = of("delayq_source_oldest_age_seconds", &one.source).unwrap_or_default();
            one.oldest_age_ms = (age.max(0.0) * 1000.0) as u64;
            one.size_bytes = of("delayq_source_size_bytes", &one.source).map(|bytes| bytes as u64);
        }
        seen
    }

    async fn seen(endpoint: Endpoint) -> Self {
        let (metrics, ready) = tokio::join!(endpoint.get("/metrics"), endpoint.get("/readyz"));
        Self {
            exported: metrics.map(|text| Exposition::read(&text)),
            readiness: ready.ok().and_then(|answer| serde_json::from_str(&answer).ok()).unwrap_or_default(),
            name: endpoint.name,
        }
    }
}

// === impl Circuit ===

impl Circuit {
    /// As in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half_open",
            Self::Open => "open",
            Self::Rests => "rests",
        }
    }
}

/// Every process with an admin endpoint that etcd or the caller names; and the reason, if etcd cannot be read.
pub async fn exporters(
    deployment: &Deployment,
    others: impl IntoIterator<Item = HostPort>,
) -> (Vec<ProcessSeen>, Option<String>) {
    let (endpoints, missing) = endpoints(deployment, others).await;
    (join_all(endpoints.into_iter().map(ProcessSeen::seen)).await, missing)
}

fn label(series: &Series, name: &str) -> String {
    series.labels.get(name).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exporter(text: &str) -> ProcessSeen {
        let readiness = serde_json::from_str(r#"{"ready":true,"unready":[],"failing":{"s c":"HTTP 503"}}"#);
        ProcessSeen {
            name: "a".to_owned(),
            exported: Ok(Exposition::read(text)),
            readiness: readiness.unwrap(),
        }
    }

    #[test]
    fn a_destination_that_rejects_rests_whatever_its_circuit_says() {
        let text = "delayq_forwarder_circuit{destination=\"a\",sink=\"s\"} 0\n\
                    delayq_forwarder_circuit{destination=\"b\",sink=\"s\"} 1\n\
                    delayq_forwarder_circuit{destination=\"c\",sink=\"s\"} 2\n\
                    delayq_forwarder_circuit{destination=\"d\",sink=\"s\"} 0\n\
                    delayq_forwarder_braked{destination=\"d\",sink=\"s\"} 1\n";
        let seen = exporter(text).destinations();
        assert_eq!(seen[2].reason.as_deref(), Some("HTTP 503"));
        assert!(seen.iter().filter(|one| one.destination != "c").all(|one| one.reason.is_none()));
        let circuits: Vec<&str> = seen.iter().map(|one| one.circuit.word()).collect();
        assert_eq!(circuits, ["closed", "half_open", "open", "rests"]);
    }

    #[test]
    fn the_records_of_a_source_are_told_by_state_with_the_age_of_the_oldest() {
        let text = "delayq_source_records{source=\"spool\",state=\"waiting\"} 3\n\
                    delayq_source_records{source=\"spool\",state=\"rejected\"} 1\n\
                    delayq_source_oldest_age_seconds{source=\"spool\"} 1.5\n\
                    delayq_source_records{source=\"intake.orders\",state=\"resting\"} 7\n";
        let sources = exporter(text).sources();
        let spool = SourceSeen {
            source: "spool".to_owned(),
            waiting: 3,
            rejected: 1,
            oldest_age_ms: 1500,
            ..SourceSeen::default()
        };
        let intake = SourceSeen { source: "intake.orders".to_owned(), resting: 7, ..SourceSeen::default() };
        assert_eq!(sources, [spool, intake]);
    }
}
