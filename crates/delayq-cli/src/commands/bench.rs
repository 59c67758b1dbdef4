//! `delayq bench`: what this machine can do, each figure beside its limit.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use delayq_bench::{Address, Bench as Measurements, Figure, Part, Target};
use delayq_service::Fault;
use delayq_service::config::{EtcdConfig, RedisConfig, Secret};

use crate::commands::fleet::Timers;
use crate::deployment::Global;
use crate::failure::{MEASUREMENT, file};
use crate::output::Output;
use crate::up::{DataFolder, Options, Servers};

/// Measure this machine: every figure beside its limit
///
/// Putting, reserving, storms, lateness and memory, each beside the same scripts driven by a bare client in the same
/// run. It starts a redis-server and an etcd of its own; the median of the runs is told.
#[derive(Debug, Args)]
pub struct Bench {
    /// What to measure; without any, everything
    #[arg(value_enum)]
    parts: Vec<PartName>,
    /// How many runs the median is taken of
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99))]
    runs: u8,
    /// How many messages a measurement of throughput moves
    #[arg(long, value_name = "COUNT", default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1_000..=10_000_000))]
    messages: u32,
    /// Measure on this Redis, host:port, instead of one of its own, and with one timer; EVERYTHING IN IT IS DELETED
    #[arg(long, value_name = "HOST:PORT")]
    on: Option<Address>,
    /// The folder of its own Redis; without one, a temporary one
    #[arg(long, value_name = "DIR", conflicts_with = "on")]
    data: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PartName {
    /// Putting in batches and one by one
    Put,
    /// Reserving and acking
    Take,
    /// Bytes of a pending message
    Memory,
    /// 50,000 messages due at one instant
    Storm,
    /// Due → ready and due → a waiting worker, at 1,000/s and 10,000/s
    Lateness,
    /// What an idle deployment costs
    Idle,
}

// === impl PartName ===

impl From<PartName> for Part {
    fn from(name: PartName) -> Self {
        match name {
            PartName::Put => Self::Put,
            PartName::Take => Self::Take,
            PartName::Memory => Self::Memory,
            PartName::Storm => Self::Storm,
            PartName::Lateness => Self::Lateness,
            PartName::Idle => Self::Idle,
        }
    }
}

// === impl Bench ===

impl Bench {
    /// Measures and prints.
    ///
    /// # Errors
    /// There is no redis-server, or it cannot be used; a message was early or lost.
    pub async fn run(self, global: &Global) -> Result<(), Fault> {
        let output = Output::of_process(global.json);
        let parts: Vec<Part> = match self.parts.as_slice() {
            [] => Part::ALL.to_vec(),
            some => some.iter().map(|&name| name.into()).collect(),
        };
        let figures = match &self.on {
            Some(address) => self.measure(address.clone(), None, &parts).await?,
            None => self.measure_privately(&parts).await?,
        };
        output.print(&figures, || table(output, &figures))
    }

    async fn measure(
        &self,
        address: Address,
        etcd: Option<EtcdConfig>,
        parts: &[Part],
    ) -> Result<Vec<Figure>, Fault> {
        let bench = Measurements { address, own: self.on.is_none(), messages: self.messages as usize };
        let runs = usize::from(self.runs);
        let progress = |part: Part, run: usize| eprintln!("measuring {part:?}, run {} of {runs}", run + 1);
        let figures = bench.suite(parts, runs, &Timers::new(etcd), progress).await;
        figures.map_err(|error| Fault::new(&MEASUREMENT, error.to_string()))
    }

    /// Measures on servers of its own, as `delayq up` starts them.
    async fn measure_privately(&self, parts: &[Part]) -> Result<Vec<Figure>, Fault> {
        let temporary = std::env::temp_dir().join(format!("delayq-bench-{}", std::process::id()));
        let path = self.data.as_deref().unwrap_or(&temporary);
        let folder = DataFolder::open(path)?;
        let options = Options { on_port: true, ..Options::default() };
        let servers = Servers::start(&folder, &options).await?;
        let redis = address(&servers.config.redis)?;
        let figures = self.measure(redis, Some(servers.config.etcd.clone()), parts).await;
        servers.end(&folder).await?;
        if self.data.is_none() {
            std::fs::remove_dir_all(path).map_err(|error| file(path, "remove", error))?;
        }
        figures
    }
}

/// Where the private Redis listens, and its password.
fn address(redis: &RedisConfig) -> Result<Address, Fault> {
    let host = redis.url.expose().trim_start_matches("redis://").to_owned();
    let password = redis.password.as_ref().map(Secret::password).transpose();
    Ok(Address { host, password: password.map_err(|why| Fault::new(&MEASUREMENT, why))? })
}

fn table(output: Output, figures: &[Figure]) -> String {
    let mut rows = output.rows(&["figure", ">measured", ">limit", ">ratio", "target", "reached"]);
    for figure in figures {
        let number = |value: f64| if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.3}") };
        let target = match figure.target {
            Target::OfLimit(part) => format!(">= {part} x"),
            Target::AtMost(most) => format!("<= {most} {}", figure.unit),
            Target::None => String::new(),
        };
        let reached = figure.reached();
        rows.judged(
            reached.unwrap_or(true),
            [
                figure.name.to_owned(),
                format!("{} {}", number(figure.measured), figure.unit),
                figure.limit.map(number).unwrap_or_default(),
                figure.ratio().map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
                target,
                reached.map_or("", |reached| if reached { "yes" } else { "no" }).to_owned(),
            ],
        );
    }
    rows.text()
}
