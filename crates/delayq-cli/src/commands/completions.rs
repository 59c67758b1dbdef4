//! `delayq completions`.

use clap::{Args, Command};
use clap_complete::Shell;

/// Print the completions of a shell
///
/// For example: delayq completions bash > /etc/bash_completion.d/delayq
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

// === impl Completions ===

impl Completions {
    /// Prints those of the whole command line.
    pub fn run(self, mut whole: Command) {
        clap_complete::generate(self.shell, &mut whole, "delayq", &mut std::io::stdout());
    }
}
