//! `delayq-forwarder [CONFIG]`: moves ready messages into external message queues.

use delayq_forwarder::ForwarderService;
use delayq_service::config::Source;
use std::process::ExitCode;

fn main() -> ExitCode {
    let path = std::env::args_os().nth(1).map(Into::into);
    delayq_service::main::<ForwarderService>(&Source::from_option(path))
}
