//! `delayq-forwarder [CONFIG]`: moves ready messages into external message queues.

use delayq_forwarder::ForwarderService;
use delayq_service::config::Source;
use mimalloc::MiMalloc;
use std::process::ExitCode;

/// A message is some dozens of small allocations, most of them freed by another thread: that costs the system's allocator
/// several times as much.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let path = std::env::args_os().nth(1).map(Into::into);
    delayq_service::main::<ForwarderService>(&Source::from_option(path))
}
