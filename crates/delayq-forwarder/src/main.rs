//! The forwarder's process: configuration, logs, build, announce, run, drain.

use delayq_forwarder::ForwarderService;
use mimalloc::MiMalloc;
use std::process::ExitCode;

/// A message is dozens of small allocations, most of them freed by another thread, which costs the system's allocator
/// several times as much.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    delayq_service::main_of_arguments::<ForwarderService>()
}
