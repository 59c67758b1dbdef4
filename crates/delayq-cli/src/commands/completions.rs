//! `delayq completions`.

use crate::failure::usage;
use crate::output::write;
use clap::Args;
use clap_complete::Shell;
use clap_complete::env::Shells;
use delayq_service::Fault;

/// The variable with which the shell's script asks for completions; the value names the shell.
pub(crate) const VARIABLE: &str = "DELAYQ_COMPLETE";

/// Print completions for a shell
///
/// In ~/.bashrc:   source <(delayq completions bash)
/// In ~/.zshrc:    source <(delayq completions zsh)
/// For fish:       delayq completions fish > ~/.config/fish/completions/delayq.fish
///
/// The shell calls delayq while you type, and offers the topics of the deployment that the line selects.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

// === impl Completions ===

impl Completions {
    /// Prints the completion script of a shell.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn run(self) -> Result<(), Fault> {
        let shell = self.shell.to_string();
        write(&script(&shell).ok_or_else(|| usage(format!("there are no completions for {shell}")))?)
    }
}

fn script(shell: &str) -> Option<Vec<u8>> {
    let mut script = Vec::new();
    let registration = Shells::builtins().completer(shell)?.write_registration(
        VARIABLE,
        "delayq",
        "delayq",
        "delayq",
        &mut script,
    );
    registration.expect("writing to a vector cannot fail");
    Some(script)
}
