//! The forwarder's process: configuration, logs, build, announce, run, drain.

use delayq_forwarder::ForwarderService;
use mimalloc::MiMalloc;
use std::process::ExitCode;

/// A message is dozens of small allocations, mostly freed by another thread. The system's allocator is several times
/// slower at that.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    delayq_service::main_of_arguments::<ForwarderService>()
}
