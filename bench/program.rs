//! Start and end of this folder's tools, with the exit codes of `delayq`.

use clap::Parser;
use delayq_cli::output::complain;
use delayq_service::{Exit, Fault};
use std::process::ExitCode;

/// The arguments of a tool.
///
/// # Errors
/// Prints help, version or the fault; returns the exit code.
pub fn arguments<A: Parser>() -> Result<A, ExitCode> {
    A::try_parse().map_err(|error| {
        // A closed pipe is not an error of this program.
        drop(error.print());
        if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() }
    })
}

/// The exit code for a tool's result; prints a fault.
pub fn end(tool: &str, ended: Result<Exit, Fault>) -> ExitCode {
    let exit = ended.unwrap_or_else(|fault| {
        complain(format!("{tool}: {}", fault.explained()).trim_end());
        fault.exit()
    });
    exit.into()
}
