//! The forwarder's figures: rates beside bare clients, lateness to an independent consumer, bulkheads, memory.
//!
//! ```text
//! cargo build --release -p delayq-timer
//! cargo run --release -p delayq-bench --features all-sinks --bin forwarder-bench -- COMMAND
//!
//! sinks [MESSAGES] [SINK …] [IN_FLIGHT/BATCH …]   ready in Redis → confirmed, beside a bare client and Redis alone
//! forwarded [MESSAGES] [SINK …] [IN_FLIGHT/BATCH …]   the forwarder alone, for a profiler
//! late [RATE] [SINK …]        due time → an independent consumer has it
//! bulkheads                   eight destinations alone, and beside a dead and a slow one
//! intake [RECORDS] [BROKER …] [--markdown]    records of a broker → messages in Redis, beside a bare consumer and put_many
//! memory [MESSAGES]           a forwarder's memory while a slow destination takes so many
//! ```
//! Nothing else should work on the machine.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

mod bulkheads;
mod cpu;
mod deployment;
mod due;
mod intake;
mod late;
mod memory;
mod receivers;
mod sinks;

use delayq_forwarder::ForwarderService;
use delayq_service::config::Source;
use delayq_service::install_tls;
use std::process::ExitCode;

const USAGE: u8 = 64;

/// That of `delayq-forwarder`; the bare clients have it too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    if command == "forward" {
        let path = arguments.next().map(Into::into);
        return delayq_service::main::<ForwarderService>(&Source::from_option(path));
    }
    install_tls();
    tokio::runtime::Runtime::new().unwrap().block_on(measure(&command, arguments.collect()))
}

async fn measure(command: &str, mut arguments: Vec<String>) -> ExitCode {
    let number = arguments.first().and_then(|text| text.parse::<usize>().ok());
    if number.is_some() {
        arguments.remove(0);
    }
    match command {
        "sinks" => sinks::run(number.unwrap_or(100_000), arguments, false).await,
        "forwarded" => sinks::run(number.unwrap_or(100_000), arguments, true).await,
        "late" => late::run(number.unwrap_or(1000), arguments).await,
        "bulkheads" => bulkheads::run().await,
        "intake" => intake::run(number.unwrap_or(100_000), arguments).await,
        "memory" => memory::run(number.unwrap_or(1_000_000)).await,
        _ => {
            eprintln!("expected sinks, forwarded, late, bulkheads, intake or memory");
            return ExitCode::from(USAGE);
        }
    }
    ExitCode::SUCCESS
}
