//! How a tool of this folder begins and ends: with the exit codes of `delayq`.

use clap::Parser;
use delayq_cli::output::complain;
use delayq_service::{Exit, Fault};
use std::process::ExitCode;

/// The arguments of a tool.
///
/// # Errors
/// Help, version, or what is wrong, printed; and the exit code to end with.
pub fn arguments<A: Parser>() -> Result<A, ExitCode> {
    A::try_parse().map_err(|error| {
        // A pipe that is closed already is not an error of this program.
        drop(error.print());
        if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() }
    })
}

/// The exit code of a tool that ended so; a fault is printed.
pub fn end(tool: &str, ended: Result<Exit, Fault>) -> ExitCode {
    let exit = ended.unwrap_or_else(|fault| {
        complain(format!("{tool}: {}", fault.explained()).trim_end());
        fault.exit()
    });
    exit.into()
}
