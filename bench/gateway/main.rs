//! The figures of the gateway, each beside another of the same run.

mod flood;
mod lmstfy;
mod neighbours;
mod page;
mod rates;
mod stage;
mod waiting;
mod wire;

use crate::flood::FloodKind;
use clap::{Parser, Subcommand};
use delayq_bench::program::arguments;
use std::path::PathBuf;
use std::process::ExitCode;

/// Measure a gateway on this machine
#[derive(Debug, Parser)]
#[command(name = "gateway-bench", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    part: Part,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// A tenant's times while another tenant floods the gateway
    Neighbours {
        /// Seconds of each measurement
        #[arg(long, default_value_t = 5)]
        seconds: u64,
        /// Number of runs, by turns
        #[arg(long, default_value_t = 3)]
        runs: usize,
        /// Floods to measure; by default all
        #[arg(long, value_enum, num_args = 1..)]
        floods: Vec<FloodKind>,
    },
    /// The calls of the page, and an operation, while many messages are pending
    Page {
        /// Messages in all; ten million take 6 GB
        #[arg(long, default_value_t = 10_000_000)]
        messages: u64,
        /// Messages of the operation
        #[arg(long, default_value_t = 1_000_000)]
        bulk: u64,
    },
    /// How many messages a second the gateway takes and hands out, beside a Rust producer
    Rates {
        /// Seconds of each measurement
        #[arg(long, default_value_t = 5)]
        seconds: u64,
        /// Number of runs, by turns
        #[arg(long, default_value_t = 5)]
        runs: usize,
        /// The program of lmstfy's server, to measure it too
        #[arg(long, value_name = "PROGRAM")]
        lmstfy: Option<PathBuf>,
    },
    /// What waiting reserves take, and how late a message is in the hand of a client
    Waiting {
        /// Number of reserves that wait
        #[arg(long, default_value_t = 5_000)]
        polls: usize,
        /// Seconds of the measurement of lateness
        #[arg(long, default_value_t = 10)]
        seconds: u64,
    },
    #[command(hide = true)]
    Flood { address: String, kind: FloodKind, connections: usize },
}

#[tokio::main]
async fn main() -> ExitCode {
    let Arguments { part } = match arguments() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    match part {
        Part::Flood { address, kind, connections } => flood::run(&address, kind, connections).await,
        Part::Page { messages, bulk } => page::print(messages, bulk).await.expect("the gateway answers"),
        Part::Rates { seconds, runs, lmstfy } => {
            rates::print(seconds, runs, lmstfy.as_deref()).await.expect("the servers answer");
        }
        Part::Waiting { polls, seconds } => {
            waiting::print(polls, seconds).await.expect("the gateway answers");
        }
        Part::Neighbours { seconds, runs, floods } => {
            neighbours::print(seconds, runs, &floods).await.expect("the gateway answers");
        }
    }
    ExitCode::SUCCESS
}
