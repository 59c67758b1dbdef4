//! `delayq completions`.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::arguments::Cli;

/// Prints the completions of a shell: delayq completions bash > /etc/bash_completion.d/delayq.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

// === impl Completions ===

impl Completions {
    /// Prints them.
    pub fn run(self) {
        clap_complete::generate(self.shell, &mut Cli::command(), "delayq", &mut std::io::stdout());
    }
}
