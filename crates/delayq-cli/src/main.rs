//! The `delayq` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    delayq_cli::program::main()
}
