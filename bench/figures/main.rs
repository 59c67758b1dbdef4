//! The figures of delayq, each with a limit from the same run: the same script driven by a bare pipelined client. A
//! figure is a ratio, because machines differ.

mod bare;
mod bare_loop;
mod bare_outbox;
mod bare_spool;
mod bench;
mod clock;
mod error;
mod fair;
mod figures;
mod idle;
mod lateness;
mod life;
mod memory;
mod messages;
mod outbox;
mod put;
mod server;
mod shape;
mod shards;
mod spool;
mod storm;
mod suite;
mod sweep;
mod table;
mod take;
mod timers;
mod waits;
mod wire;

use crate::bench::Bench;
use crate::figures::Figure;
use crate::suite::Part;
use crate::timers::Timers;
use crate::waits::Waits;
use clap::Parser;
use delayq::ShardCount;
use delayq_bench::program::{arguments, end};
use delayq_cli::output::Output;
use delayq_cluster::EtcdConfig;
use delayq_service::codes::Code;
use delayq_service::{Exit, Fault};
use delayq_tests::etcd_server::EtcdCluster;
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

const MEASUREMENT: Code = Code {
    id: "DQ-B001",
    title: "a measurement could not be taken",
    cause: "Redis could not be used, or a message was lost or early during the measurement: no figure is valid.",
    tries: [
        "Repeat on an otherwise idle machine.",
        "Measure a single part: delayq-bench put.",
        "Measure on a Redis with an accessible log: --on HOST:PORT. All of its data is deleted.",
    ],
    exit: Exit::Unavailable,
};

/// Measure this machine: every figure with its limit
///
/// Putting, reserving, storms, lateness, memory, the spool and the outbox, each compared with the same scripts, driven
/// by a bare client in the same run. Starts a private redis-server and etcd, and prints the median of the runs.
#[derive(Debug, Parser)]
#[command(name = "delayq-bench", version, max_term_width = 100)]
struct Arguments {
    /// Parts to measure; by default all but `fair`, `outbox`, `shards`, `spool` and `sweep`
    #[arg(value_enum)]
    parts: Vec<Part>,
    /// Number of runs for the median
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99))]
    runs: u8,
    /// Number of messages in a throughput measurement
    #[arg(long, value_name = "COUNT", default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1_000..=10_000_000))]
    messages: u32,
    /// Seconds for the measurement of whole lives
    #[arg(long, value_name = "COUNT", default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..=3600))]
    seconds: u16,
    /// Number of shards of the deployment [default: a deployment's default]
    #[arg(long, value_name = "COUNT", value_parser = shard_count)]
    shards: Option<ShardCount>,
    /// Measure on this Redis, with one timer, instead of a private Redis; EVERYTHING IN IT IS DELETED
    #[arg(long, value_name = "HOST:PORT")]
    on: Option<String>,
    /// With lateness: write a histogram of waits into this file, as CSV
    #[arg(long, value_name = "FILE")]
    waits: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print the Markdown table of docs/performance.md
    #[arg(long)]
    markdown: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = match arguments::<Arguments>() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let output = Output::of_process(arguments.json);
    let measured = arguments.measured().await.and_then(|figures| {
        output.print(&figures, || arguments.text(output, &figures))?;
        Ok(Exit::Done)
    });
    end("delayq-bench", measured)
}

// === impl Arguments ===

impl Arguments {
    async fn measured(&self) -> Result<Vec<Figure>, Fault> {
        if let Some(address) = &self.on {
            return self.measure(address.clone(), None).await;
        }
        let redis = RedisServer::start_with(RedisOptions::default().append_only("everysec")).await;
        let servers = EtcdCluster::start_one().await;
        let etcd = EtcdConfig::at(servers.endpoints()).expect("a started etcd has valid endpoints");
        self.measure(redis.address(), Some(etcd)).await
    }

    async fn measure(&self, address: String, etcd: Option<EtcdConfig>) -> Result<Vec<Figure>, Fault> {
        let (own, messages) = (self.on.is_none(), self.messages as usize);
        let lives_last = Duration::from_secs(self.seconds.into());
        let shards = self.shards.unwrap_or_default();
        let waits = self.waits.as_deref().map(|path| Waits::create(path).map_err(|error| (path, error)));
        let waits = waits.transpose().map_err(|(path, error)| {
            Fault::new(&MEASUREMENT, format!("{} cannot be written: {error}", path.display()))
        })?;
        let bench = Bench { address, own, messages, shards, lives_last, waits: waits.map(Arc::new) };
        let parts = if self.parts.is_empty() { &Part::USUAL[..] } else { &self.parts };
        let figures = bench.suite(parts, self.runs.into(), &Timers::new(etcd)).await;
        figures.map_err(|error| Fault::new(&MEASUREMENT, error.to_string()))
    }
    fn text(&self, output: Output, figures: &[Figure]) -> String {
        match self.parts.as_slice() {
            [Part::Shards] => table::by_shards(figures),
            _ if self.markdown => table::markdown(figures),
            _ => table::table(output, figures),
        }
    }
}

fn shard_count(text: &str) -> Result<ShardCount, String> {
    let count = text.parse().map_err(|_| format!("{text:?} is not a number of shards"))?;
    ShardCount::new(count).map_err(|error| error.to_string())
}
