//! A lane: the pipeline to one destination of one sink, with its own room and circuit.
//!
//! Lanes are independent: a lane that is full or open reserves nothing, and its messages stay in Redis. Where the
//! destination depends on the message, all destinations share the lane's room and the circuit of the server. Each
//! failing destination also has a circuit of its own; `failing.rs` bounds the number.

use crate::Sink;
use crate::circuit::{Circuit, CircuitSettings, Evidence, Pass};
use crate::encoding::Encoding;
use crate::failing::Failing;
use crate::routes::Route;
use crate::sink::CheckError;
use crate::sinks::{Kind, SinkConfig};
use crate::stats::Stats;
use delayq_service::brokers::Outcome;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) struct NamedSink {
    pub(crate) name: String,
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) encoding: Encoding,
    pub(crate) kind: &'static str,
    pub(crate) event_prefix: &'static str,
    pub(crate) batch: usize,
    pub(crate) in_flight: usize,
    pub(crate) in_flight_bytes: usize,
    pub(crate) timeout: Duration,
}

pub(crate) struct Lane {
    pub(crate) to: Arc<NamedSink>,
    /// `None` if the message decides.
    pub(crate) fixed: Option<String>,
    checked: AtomicBool,
    circuits: Mutex<Circuits>,
    settings: CircuitSettings,
    stats: Stats,
}

struct Circuits {
    /// Of the fixed destination, else of the server.
    whole: Circuit,
    failing: Failing,
}

/// For the messages of one destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conclusion {
    pub(crate) evidence: Evidence,
    pub(crate) rest: Option<Duration>,
    pub(crate) burials: u32,
}

// === impl NamedSink ===

impl NamedSink {
    pub(crate) fn new(name: &str, sink: Arc<dyn Sink>, config: &SinkConfig) -> Self {
        Self {
            name: name.to_owned(),
            sink,
            encoding: config.encoding,
            kind: config.kind().map_or("", Kind::word),
            event_prefix: config.kind().map_or("ce-", Kind::event_prefix),
            batch: usize::from(config.batch),
            in_flight: config.in_flight as usize,
            in_flight_bytes: usize::try_from(config.in_flight_bytes.bytes()).unwrap_or(usize::MAX),
            timeout: *config.timeout,
        }
    }

    /// Within the timeout. Returns warnings.
    pub(crate) async fn check(&self, destination: Option<&str>) -> Result<Vec<String>, CheckError> {
        let checked = tokio::time::timeout(self.timeout, self.sink.check(destination)).await;
        let silent = |_| Err(CheckError::Unreachable(format!("no reply within {:?}", self.timeout)));
        checked.unwrap_or_else(silent)
    }
}

// === impl Lane ===

impl Lane {
    pub(crate) fn new(to: Arc<NamedSink>, route: &Route, settings: CircuitSettings, stats: Stats) -> Self {
        let fixed = route.to.fixed().map(str::to_owned);
        let circuits = Circuits { whole: Circuit::new(settings), failing: Failing::default() };
        Self { to, fixed, checked: AtomicBool::new(false), circuits: Mutex::new(circuits), settings, stats }
    }

    pub(crate) fn mark_checked(&self) {
        self.checked.store(true, Ordering::Relaxed);
    }

    /// Limits an unchecked destination to probes until a check succeeds.
    pub(crate) fn open(&self, now: Instant) {
        self.circuits().whole = Circuit::open(self.settings, now);
        self.show();
    }

    /// Once. The error tells why nothing may be delivered.
    pub(crate) async fn check(&self) -> Result<(), CheckError> {
        if self.checked.load(Ordering::Relaxed) {
            return Ok(());
        }
        let warnings = self.to.check(self.fixed.as_deref()).await?;
        if !self.checked.swap(true, Ordering::Relaxed) {
            for warning in warnings {
                tracing::warn!(sink = self.to.name, destination = self.fixed, "{warning}");
            }
        }
        Ok(())
    }

    pub(crate) fn pass(&self, now: Instant) -> Pass {
        self.circuits().whole.pass(now)
    }

    pub(crate) fn is_braked(&self) -> bool {
        self.circuits().whole.is_braked()
    }

    pub(crate) fn pass_to(&self, destination: &str, now: Instant) -> Pass {
        self.circuits().failing.get(destination).map_or(Pass::All, |circuit| circuit.pass(now))
    }

    pub(crate) fn probing(&self) {
        self.circuits().whole.probing();
        self.show();
    }

    pub(crate) fn probing_to(&self, destination: &str) {
        if let Some(circuit) = self.circuits().failing.get_mut(destination) {
            circuit.probing();
        }
    }

    pub(crate) fn unprobed(&self, now: Instant) {
        self.circuits().whole.unprobed(now);
        self.show();
    }

    /// Judges the outcomes of a batch in order, destination by destination. Messages that the route cannot encode count
    /// like rejections of the lane as a whole.
    pub(crate) fn judge(
        &self,
        batch: &[(&str, Vec<&Outcome>)],
        unencoded: &[&Outcome],
        probe: bool,
        now: Instant,
    ) -> (Vec<Conclusion>, Conclusion) {
        let each: Vec<Evidence> =
            batch.iter().map(|(_, outcomes)| Evidence::of(outcomes.iter().copied())).collect();
        let mut whole = match self.fixed {
            Some(_) => each.first().copied().unwrap_or_default(),
            None => Evidence::of_server(each.iter().copied()),
        };
        whole.rejected += Evidence::of(unencoded.iter().copied()).rejected;
        if probe && whole.is_empty() {
            self.unprobed(now);
        }
        let all = batch.iter().flat_map(|(_, outcomes)| outcomes).chain(unencoded).copied();
        let whole = self.judge_whole(whole, all, now);
        let mut burials = whole.burials;
        let judge = |((destination, outcomes), evidence): (&(&str, Vec<&Outcome>), Evidence)| {
            let own = match self.fixed {
                Some(_) => whole,
                None => self.judge_one(destination, outcomes, evidence, now),
            };
            let may = if evidence.took { u32::MAX } else { own.burials.min(burials) };
            burials = burials.saturating_sub(may.min(evidence.rejected));
            Conclusion { evidence, rest: own.rest.max(whole.rest), burials: may }
        };
        let judgements = batch.iter().zip(each).map(judge).collect();
        (judgements, Conclusion { burials, ..whole })
    }

    fn judge_whole<'o>(
        &self,
        evidence: Evidence,
        outcomes: impl Iterator<Item = &'o Outcome> + Clone,
        now: Instant,
    ) -> Conclusion {
        let mut circuits = self.circuits();
        let burials = if evidence.took { u32::MAX } else { circuits.whole.burials_left() };
        let changed = circuits.whole.judge(evidence, now);
        let (rest, braked) = (rest(&circuits.whole, now), circuits.whole.is_braked());
        drop(circuits);
        self.show();
        let reason = rest.and_then(|_| reason(outcomes.clone()));
        if changed || reason.is_some() {
            self.stats.refusal(&self.to.name, self.label(), reason);
        }
        if changed {
            self.announce(self.label(), outcomes, rest, braked);
        }
        Conclusion { evidence, rest, burials }
    }

    fn judge_one(
        &self,
        destination: &str,
        outcomes: &[&Outcome],
        evidence: Evidence,
        now: Instant,
    ) -> Conclusion {
        let mut circuits = self.circuits();
        if evidence.is_empty() {
            circuits.failing.get_mut(destination).into_iter().for_each(|circuit| circuit.unprobed(now));
            return Conclusion { evidence, rest: None, burials: 0 };
        }
        if evidence.took {
            if circuits.failing.forget(destination).is_some_and(|circuit| circuit.rests(now)) {
                self.announce(destination, outcomes.iter().copied(), None, false);
            }
            return Conclusion { evidence, rest: None, burials: u32::MAX };
        }
        let Some(circuit) = circuits.failing.entry(destination, self.settings, now) else {
            // The table of failing destinations is full: the server's circuit decides.
            let burials = Circuit::new(self.settings).burials_left();
            return Conclusion { evidence, rest: None, burials };
        };
        let burials = circuit.burials_left();
        let changed = circuit.judge(evidence, now);
        let (rest, braked) = (rest(circuit, now), circuit.is_braked());
        if changed {
            self.announce(destination, outcomes.iter().copied(), rest, braked);
        }
        Conclusion { evidence, rest, burials }
    }

    fn announce<'o>(
        &self,
        destination: &str,
        outcomes: impl Iterator<Item = &'o Outcome>,
        rest: Option<Duration>,
        braked: bool,
    ) {
        let sink = &self.to.name;
        let Some(rest) = rest else {
            tracing::info!(sink, destination, "the destination accepts messages again");
            return;
        };
        let reason = reason(outcomes);
        let rest_ms = u64::try_from(rest.as_millis()).unwrap_or(u64::MAX);
        if braked {
            self.stats.brakes.inc();
            tracing::error!(
                sink,
                destination,
                rest_ms,
                reason,
                "the destination rejects message after message: resting it, so no more are buried until one \
                 is delivered; fix the destination, then replay the dead letters"
            );
        } else {
            tracing::warn!(
                sink,
                destination,
                rest_ms,
                reason,
                "the destination does not accept messages: they wait in Redis"
            );
        }
    }

    fn show(&self) {
        let circuits = self.circuits();
        let (number, braked) = (circuits.whole.number(), circuits.whole.is_braked());
        drop(circuits);
        self.stats.circuit(&self.to.name, self.label(), number, braked);
    }

    /// `*` where destinations depend on messages, to bound the number of series.
    pub(crate) fn label(&self) -> &str {
        self.fixed.as_deref().unwrap_or("*")
    }

    fn circuits(&self) -> MutexGuard<'_, Circuits> {
        // A circuit changes by one assignment: a panic cannot leave a half-made change.
        self.circuits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first error.
fn reason<'o>(mut outcomes: impl Iterator<Item = &'o Outcome>) -> Option<&'o str> {
    outcomes.find_map(|outcome| match outcome {
        Outcome::Unavailable { reason, .. } | Outcome::Rejected { reason } => Some(reason.as_str()),
        Outcome::Delivered => None,
    })
}

/// `None`: closed.
fn rest(circuit: &Circuit, now: Instant) -> Option<Duration> {
    match circuit.pass(now) {
        Pass::None(Some(until)) => Some(until.saturating_duration_since(now)),
        Pass::Probe | Pass::None(None) => Some(Duration::ZERO),
        Pass::All => None,
    }
}
