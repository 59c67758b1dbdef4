//! The rates of sinks and intakes, each compared with a bare client in the same run.
//!
//! ```text
//! cargo run --release -p delayq-bench --features all-sinks --bin forwarder-bench -- COMMAND
//!
//! sinks [MESSAGES] [SINK …] [IN_FLIGHT/BATCH …]   ready in Redis → confirmed, compared with a bare client and Redis alone
//! intake [RECORDS] [BROKER …] [--markdown]        records of a broker → messages in Redis, compared with a bare consumer
//! ```
//! Measure on an otherwise idle machine.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

mod cpu;
mod deployment;
mod intake;
mod sinks;

use delayq_service::install_tls;
use std::process::ExitCode;

const USAGE: u8 = 64;

/// The allocator of `delayq-forwarder`, for the bare clients too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    install_tls();
    tokio::runtime::Runtime::new().unwrap().block_on(measure(&command, arguments.collect()))
}

async fn measure(command: &str, mut arguments: Vec<String>) -> ExitCode {
    let number = arguments.first().and_then(|text| text.parse::<usize>().ok());
    if number.is_some() {
        arguments.remove(0);
    }
    match command {
        "sinks" => sinks::run(number.unwrap_or(100_000), arguments).await,
        "intake" => intake::run(number.unwrap_or(100_000), arguments).await,
        _ => {
            eprintln!("expected sinks or intake");
            return ExitCode::from(USAGE);
        }
    }
    ExitCode::SUCCESS
}
