//! The figures of the gateway, each beside another of the same run.

mod flood;
mod neighbours;
mod page;
mod stage;
mod wire;

use crate::flood::FloodKind;
use clap::{Parser, Subcommand};
use delayq_bench::program::arguments;
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
        Part::Neighbours { seconds, runs } => {
            neighbours::print(seconds, runs).await.expect("the gateway answers");
        }
    }
    ExitCode::SUCCESS
}
