//! A lane: one destination of one sink, with its own room and its own circuit.
//!
//! Nothing of one lane waits for another: a lane that is full or open is not reserved for, and its messages stay in
//! Redis. Where the destination depends on the message, all its destinations share the lane's room, and each has a
//! circuit of its own.

use crate::{
    Outcome, Sink,
    circuit::{Circuit, CircuitSettings, Evidence, Pass},
    encoding::Encoding,
    routes::Route,
    sink::CheckError,
    sinks::SinkConfig,
    stats::Stats,
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// A sink with its settings.
pub(crate) struct NamedSink {
    pub(crate) name: String,
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) encoding: Encoding,
    pub(crate) event_prefix: &'static str,
    pub(crate) batch: usize,
    pub(crate) in_flight: usize,
    pub(crate) in_flight_bytes: usize,
    pub(crate) timeout: Duration,
}

/// What the deliveries of a lane share.
pub(crate) struct Lane {
    pub(crate) to: Arc<NamedSink>,
    /// The destination, where it does not depend on the message.
    pub(crate) fixed: Option<String>,
    /// Whether the destination has been looked at.
    checked: AtomicBool,
    circuits: Mutex<HashMap<String, Circuit>>,
    settings: CircuitSettings,
    stats: Stats,
}

// === impl NamedSink ===

impl NamedSink {
    pub(crate) fn new(name: &str, sink: Arc<dyn Sink>, config: &SinkConfig) -> Self {
        Self {
            name: name.to_owned(),
            sink,
            encoding: config.encoding,
            event_prefix: config.kind().map_or("ce-", crate::Kind::event_prefix),
            batch: usize::from(config.batch),
            in_flight: config.in_flight as usize,
            in_flight_bytes: usize::try_from(config.in_flight_bytes.bytes()).unwrap_or(usize::MAX),
            timeout: *config.timeout,
        }
    }
}

// === impl Lane ===

impl Lane {
    pub(crate) fn new(to: Arc<NamedSink>, route: &Route, settings: CircuitSettings, stats: Stats) -> Self {
        let fixed = route.to.fixed().map(str::to_owned);
        let checked = AtomicBool::new(false);
        Self { to, fixed, checked, circuits: Mutex::default(), settings, stats }
    }

    /// The destination was looked at, and is fine.
    pub(crate) fn mark_checked(&self) {
        self.checked.store(true, Ordering::Relaxed);
    }

    /// The destination could not be looked at: nothing but probes until it can.
    pub(crate) fn open(&self, now: Instant) {
        if let Some(destination) = &self.fixed {
            self.circuits().insert(destination.clone(), Circuit::open(self.settings, now));
            self.stats.circuit(&self.to.name, destination, 2);
        }
    }

    /// Looks at the destination, unless that was done.
    ///
    /// # Errors
    /// Why nothing may be delivered.
    pub(crate) async fn check(&self) -> Result<(), CheckError> {
        if self.checked.load(Ordering::Relaxed) {
            return Ok(());
        }
        let checked = tokio::time::timeout(self.to.timeout, self.to.sink.check(self.fixed.as_deref())).await;
        let warnings = checked.unwrap_or_else(|_| {
            Err(CheckError::Unreachable(format!("not looked at within {:?}", self.to.timeout)))
        })?;
        if !self.checked.swap(true, Ordering::Relaxed) {
            for warning in warnings {
                tracing::warn!(sink = self.to.name, destination = self.fixed, "{warning}");
            }
        }
        Ok(())
    }

    /// How much may be reserved for it.
    pub(crate) fn pass(&self, now: Instant) -> Pass {
        match &self.fixed {
            Some(destination) => self.pass_to(destination, now),
            None => Pass::All,
        }
    }

    /// How much may be sent to one destination.
    pub(crate) fn pass_to(&self, destination: &str, now: Instant) -> Pass {
        self.circuits().get(destination).map_or(Pass::All, |circuit| circuit.pass(now))
    }

    /// A probe goes out.
    pub(crate) fn probing(&self, destination: &str) {
        if let Some(circuit) = self.circuits().get_mut(destination) {
            circuit.probing();
            self.stats.circuit(&self.to.name, self.label(destination), circuit.number());
        }
    }

    /// The probe of the fixed destination found no message, or none of them came to an answer.
    pub(crate) fn unprobed(&self, destination: &str, now: Instant) {
        if let Some(circuit) = self.circuits().get_mut(destination) {
            circuit.unprobed(now);
            self.stats.circuit(&self.to.name, self.label(destination), circuit.number());
        }
    }

    /// Judges the outcomes of one destination. Gives back how long it rests, where it does.
    pub(crate) fn judge(
        &self,
        destination: &str,
        outcomes: &[&Outcome],
        now: Instant,
    ) -> (Evidence, Option<Duration>) {
        let evidence = Evidence::of(outcomes.iter().copied());
        let mut circuits = self.circuits();
        let circuit = circuits.entry(destination.to_owned()).or_insert_with(|| Circuit::new(self.settings));
        let changed = circuit.judge(evidence, now);
        let rest = match circuit.pass(now) {
            Pass::None(Some(until)) => Some(until.saturating_duration_since(now)),
            Pass::Probe | Pass::None(None) => Some(Duration::ZERO),
            Pass::All => None,
        };
        self.stats.circuit(&self.to.name, self.label(destination), circuit.number());
        if changed {
            self.announce(destination, outcomes, rest);
        }
        if evidence.took && self.fixed.is_none() {
            circuits.remove(destination);
        }
        (evidence, rest)
    }

    fn announce(&self, destination: &str, outcomes: &[&Outcome], rest: Option<Duration>) {
        let sink = &self.to.name;
        let Some(rest) = rest else {
            tracing::info!(sink, destination, "the destination takes messages again");
            return;
        };
        let reason = outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Unavailable { reason, .. } => Some(reason.as_str()),
            _ => None,
        });
        tracing::warn!(
            sink,
            destination,
            rest_ms = u64::try_from(rest.as_millis()).unwrap_or(u64::MAX),
            reason,
            "the destination does not take messages: they wait in Redis"
        );
    }

    /// Destinations that depend on messages would make a metric each.
    fn label<'a>(&'a self, destination: &'a str) -> &'a str {
        if self.fixed.is_some() { destination } else { "*" }
    }

    fn circuits(&self) -> MutexGuard<'_, HashMap<String, Circuit>> {
        // A circuit is changed by one assignment: it cannot be left half done.
        self.circuits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
