//! The gateway's process: configuration, logs, build, announce, run, drain.

use delayq_gateway::GatewayService;
use mimalloc::MiMalloc;
use std::process::ExitCode;

/// A request is dozens of small allocations, which the system's allocator makes several times slower. Without huge pages: the buffers
/// of a waiting request are hardly used, and take a third less.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    delayq_service::main_of_arguments::<GatewayService>()
}
