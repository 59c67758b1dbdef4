//! `delayq man`.

use crate::failure::file;
use crate::output::write;
use clap::{Args, Command};
use clap_mangen::Man as Page;
use delayq_service::Fault;
use std::path::PathBuf;

/// Write the manual pages
///
/// Writes one page per command; without a folder, prints that of delayq itself.
#[derive(Debug, Args)]
pub struct Man {
    /// The folder to write them into: /usr/local/share/man/man1
    folder: Option<PathBuf>,
}

// === impl Man ===

impl Man {
    /// Writes the pages of the whole command line.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn run(self, mut whole: Command) -> Result<(), Fault> {
        whole = commands_alone(whole);
        whole.build();
        match self.folder {
            None => {
                let mut page = Vec::new();
                Page::new(whole).render(&mut page).expect("writing to a vector cannot fail");
                write(&page)
            }
            Some(folder) => {
                std::fs::create_dir_all(&folder).map_err(|error| file(&folder, "make", error))?;
                clap_mangen::generate_to(whole, &folder).map_err(|error| file(&folder, "write into", error))
            }
        }
    }
}

/// The command line without the `help` subcommands: a page about each page helps nobody.
fn commands_alone(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(commands_alone)
}
