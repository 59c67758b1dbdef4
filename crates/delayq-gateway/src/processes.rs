//! The processes of the deployment, by their admin endpoints: asked for requests, at most every two seconds, and once a minute for
//! the lateness of the last hour.

use delayq_look::{Deployment, Exposition, ProcessSeen, RouteEnd, SourceSeen, exporters};
use delayq_service::Shutdown;
use delayq_service::config::HostPort;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Minimum age of the exports before they are read again.
const MIN_AGE: Duration = Duration::from_secs(2);
const MINUTE: Duration = Duration::from_secs(60);
const MAX_MINUTES: usize = 60;

/// From the due time of a message until it was ready.
const LATENESS: &str = "delayq_lateness_seconds";

/// Clones share the state.
#[derive(Clone)]
pub(crate) struct Processes {
    deployment: Deployment,
    /// The endpoints that etcd does not name.
    given: Arc<[HostPort]>,
    latest: Arc<Mutex<Option<Arc<Sighting>>>>,
    hour: Arc<Mutex<Hour>>,
}

/// What the processes export at one moment.
struct Sighting {
    at: Instant,
    all: Vec<ProcessSeen>,
    missing: Option<String>,
}

/// The last minutes, the latest at the end.
#[derive(Default)]
struct Hour {
    /// The exports at the end of the latest minute.
    last: Option<Arc<Sighting>>,
    minutes: VecDeque<LatenessMinute>,
}

struct LatenessMinute {
    end: Instant,
    messages: u64,
    p50_ms: f64,
    p99_ms: f64,
}

// === impl Processes ===

impl Processes {
    pub(crate) fn new(deployment: Deployment, given: &[HostPort]) -> Self {
        Self { deployment, given: given.into(), latest: Arc::default(), hour: Arc::default() }
    }

    /// Notes the lateness of each minute.
    pub(crate) async fn run(self, shutdown: Shutdown) {
        loop {
            let seen = self.latest().await;
            self.hour.lock().await.note(&seen);
            if shutdown.or(tokio::time::sleep(MINUTE)).await.is_none() {
                return;
            }
        }
    }

    pub(crate) async fn shown(&self) -> Value {
        let seen = self.latest().await;
        let hour = self.hour.lock().await;
        let before = |name: &str| hour.last.as_ref()?.all.iter().find(|one| one.name == name);
        let minutes: Vec<Value> = hour.minutes.iter().map(LatenessMinute::json).collect();
        json!({
            "processes": seen.all.iter().map(|one| process(one, before(&one.name))).collect::<Vec<_>>(),
            "destinations": seen.all.iter().flat_map(|one| one.destinations().into_iter().map(|end| destination(&one.name, &end))).collect::<Vec<_>>(),
            "sources": seen.all.iter().flat_map(|one| one.sources().into_iter().map(|of| source(&one.name, &of))).collect::<Vec<_>>(),
            "lateness": minutes,
            "missing": seen.missing.iter().collect::<Vec<_>>(),
            "age_ms": seen.at.elapsed().as_millis() as u64,
        })
    }

    /// Cancel safe: the exports are read without the request.
    async fn latest(&self) -> Arc<Sighting> {
        let processes = self.clone();
        let taken = tokio::spawn(async move { processes.fresh().await }).await;
        taken.unwrap_or_else(|error| Arc::new(Sighting::none(error.to_string())))
    }

    async fn fresh(&self) -> Arc<Sighting> {
        let mut latest = self.latest.lock().await;
        if let Some(seen) = latest.as_ref().filter(|seen| seen.at.elapsed() < MIN_AGE) {
            return Arc::clone(seen);
        }
        let (all, missing) = exporters(&self.deployment, self.given.iter().cloned()).await;
        let seen = Arc::new(Sighting { at: Instant::now(), all, missing });
        *latest = Some(Arc::clone(&seen));
        seen
    }
}

// === impl Sighting ===

impl Sighting {
    fn none(why: String) -> Self {
        Self { at: Instant::now(), all: Vec::new(), missing: Some(why) }
    }
}

// === impl Hour ===

impl Hour {
    fn note(&mut self, seen: &Arc<Sighting>) {
        let before = self.last.replace(Arc::clone(seen));
        let Some(before) = before else { return };
        // A process that answered only once has no count of this minute.
        let both = seen.all.iter().filter_map(|now| {
            let earlier = before.all.iter().find(|one| one.name == now.name)?;
            Some((earlier.exported.as_ref().ok()?, now.exported.as_ref().ok()?))
        });
        let (earlier, now): (Vec<&Exposition>, Vec<&Exposition>) = both.unzip();
        let (earlier, now) = (Exposition::of_all(earlier), Exposition::of_all(now));
        let quantile = |part| now.quantile(LATENESS, Some(&earlier), part).map(|seconds| seconds * 1000.0);
        let sum = |of: &Exposition| of.sum(&format!("{LATENESS}_count")).unwrap_or_default();
        if let (Some(p50_ms), Some(p99_ms)) = (quantile(0.5), quantile(0.99)) {
            let messages = (sum(&now) - sum(&earlier)).max(0.0) as u64;
            self.minutes.push_back(LatenessMinute { end: seen.at, messages, p50_ms, p99_ms });
        }
        self.minutes.retain(|minute| minute.end.elapsed() < MINUTE * MAX_MINUTES as u32);
    }
}

// === impl LatenessMinute ===

impl LatenessMinute {
    /// A bound beyond the last bucket is null.
    fn json(&self) -> Value {
        json!({
            "ago_ms": self.end.elapsed().as_millis() as u64, "messages": self.messages,
            "p50_ms": finite(self.p50_ms), "p99_ms": finite(self.p99_ms),
        })
    }
}

fn finite(ms: f64) -> Option<f64> {
    ms.is_finite().then_some(ms)
}

fn process(one: &ProcessSeen, before: Option<&ProcessSeen>) -> Value {
    let ms = |seconds: Option<f64>| seconds.and_then(|seconds| finite(seconds * 1000.0));
    json!({
        "process": one.name, "state": one.state(), "why": one.exported.as_ref().err(), "shards": one.shards(),
        "overdue_ms": ms(one.overdue()), "p50_ms": ms(one.lateness(before, 0.5)), "p99_ms": ms(one.lateness(before, 0.99)),
    })
}

fn destination(process: &str, end: &RouteEnd) -> Value {
    let RouteEnd { sink, destination, circuit, reason } = end;
    json!({ "process": process, "sink": sink, "destination": destination, "circuit": circuit.word(), "reason": reason })
}

fn source(process: &str, of: &SourceSeen) -> Value {
    let SourceSeen { source, waiting, resting, rejected, oldest_age_ms, size_bytes } = of;
    json!({
        "process": process, "source": source, "waiting": waiting, "resting": resting, "rejected": rejected,
        "oldest_age_ms": oldest_age_ms, "size_bytes": size_bytes,
    })
}
