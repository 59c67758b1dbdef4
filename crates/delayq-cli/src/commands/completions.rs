//! `delayq completions`.

use clap::{Args, Command};
use clap_complete::Shell;
use delayq_service::Fault;

use crate::output::write;

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
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn run(self, mut whole: Command) -> Result<(), Fault> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut whole, "delayq", &mut script);
        write(&script)
    }
}
