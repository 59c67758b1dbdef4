//! The timers of a measurement, in this process.

use crate::clock::PATIENCE;
use crate::error::BenchError;
use delayq::{Client, ShardCount};
use delayq_cli::output::complain;
use delayq_cluster::EtcdConfig;
use delayq_service::config::DeploymentConfig;
use delayq_service::{Fault, Metrics, Readiness, Shutdown};
use delayq_timer::{Deps, Membership, SweepConfig, TimerConfig, stores};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Two timers that share the shards by an etcd, or a single timer that owns all. Counters accumulate over all runs.
#[derive(Debug)]
pub(crate) struct Timers {
    etcd: Option<EtcdConfig>,
    runs: AtomicU32,
    numbers: Mutex<Numbers>,
}

#[derive(Debug, Default)]
struct Numbers {
    present: Vec<Metrics>,
    past: PumpCalls,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PumpCalls {
    pub(crate) due: u64,
    pub(crate) empty: u64,
}

/// Saves the counters of a run when it ends.
struct Run<'t>(&'t Timers);

// === impl Timers ===

impl Timers {
    pub(crate) fn new(etcd: Option<EtcdConfig>) -> Self {
        Self { etcd, runs: AtomicU32::new(0), numbers: Mutex::default() }
    }

    pub(crate) async fn during<T>(
        &self,
        client: Client,
        measurement: impl Future<Output = Result<T, BenchError>>,
    ) -> Result<T, BenchError> {
        tokio::select! {
            measured = measurement => measured,
            () = self.run(client) => Err(BenchError::Wrong("the timers stopped".to_owned())),
        }
    }

    async fn run(&self, client: Client) {
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        let _present = Run(self);
        let ended = match self.count() {
            1 => self.one(run, 0, client).await,
            _ => tokio::select! {
                ended = self.one(run, 0, client.clone()) => ended,
                ended = self.one(run, 1, client) => ended,
            },
        };
        if let Err(fault) = ended {
            complain(format!("a timer of the measurement: {}", fault.explained()).trim_end());
        }
    }

    pub(crate) async fn own_all(&self, shards: ShardCount) -> Result<(), BenchError> {
        let owned = async {
            while !self.share(shards.get().into()) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let none = |_| BenchError::Wrong("the timers did not share the shards within a minute".to_owned());
        tokio::time::timeout(PATIENCE, owned).await.map_err(none)
    }

    fn share(&self, shards: u64) -> bool {
        let numbers = self.numbers();
        let each: Vec<u64> =
            numbers.present.iter().map(|metrics| number(metrics, "delayq_timer_shards")).collect();
        let least = shards / self.count() as u64;
        each.len() == self.count() && each.iter().sum::<u64>() == shards && each.iter().all(|&n| n >= least)
    }

    pub(crate) fn calls(&self) -> PumpCalls {
        self.numbers().calls()
    }

    fn count(&self) -> usize {
        if self.etcd.is_some() { 2 } else { 1 }
    }

    async fn one(&self, run: u32, n: usize, client: Client) -> Result<(), Fault> {
        let config = TimerConfig { name: format!("bench-{run}-{n}"), ..TimerConfig::default() };
        let membership = match &self.etcd {
            None => Membership::single(&config.name),
            Some(etcd) => {
                let deployment = DeploymentConfig { shards: client.shards(), ..DeploymentConfig::default() };
                // etcd still lists the members of earlier runs: use a separate prefix.
                let prefix = format!("/bench-{run}").parse().expect("a number is part of a key");
                let etcd = EtcdConfig { prefix, ..etcd.clone() };
                stores::membership(&config, &deployment, &etcd, String::new())
            }
        };
        let metrics = Metrics::new();
        self.numbers().present.push(metrics.clone());
        let (readiness, sweep) = (Readiness::default(), SweepConfig::default());
        let deps = Deps { client, metrics, readiness, membership, sweep };
        delayq_timer::build(config, deps).await?.run(Shutdown::default()).await
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().expect("no code panics while holding the lock")
    }
}

// === impl Numbers ===

impl Numbers {
    fn calls(&self) -> PumpCalls {
        let sum = |name: &str| self.present.iter().map(|metrics| number(metrics, name)).sum::<u64>();
        let calls = |outcome| sum(&format!("delayq_timer_pump_calls_total{{outcome=\"{outcome}\"}}"));
        PumpCalls {
            due: self.past.due + calls("moved") + calls("empty"),
            empty: self.past.empty + calls("empty"),
        }
    }
}

// === impl PumpCalls ===

impl PumpCalls {
    /// Share of pumps since `before` that found nothing, in percent.
    pub(crate) fn empty_percent(self, before: Self) -> f64 {
        100.0 * (self.empty - before.empty) as f64 / (self.due - before.due).max(1) as f64
    }
}

// === impl Run ===

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let mut numbers = self.0.numbers();
        numbers.past = numbers.calls();
        numbers.present.clear();
    }
}

fn number(metrics: &Metrics, name: &str) -> u64 {
    let text = metrics.encode();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
    value.unwrap_or(0.0) as u64
}
