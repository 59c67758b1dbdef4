//! `delayq man`.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _};
use clap_mangen::Man as Page;
use delayq_service::Fault;

use crate::arguments::Cli;
use crate::failure::file;

/// Writes the manual pages, one for each command; without a folder, prints that of delayq itself.
#[derive(Debug, Args)]
pub struct Man {
    /// The folder to write them into: /usr/local/share/man/man1
    folder: Option<PathBuf>,
}

// === impl Man ===

impl Man {
    /// Does it.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn run(self) -> Result<(), Fault> {
        let mut command = Cli::command();
        command.build();
        match self.folder {
            None => Page::new(command)
                .render(&mut std::io::stdout())
                .map_err(|error| file("standard output".as_ref(), "write to", error)),
            Some(folder) => {
                std::fs::create_dir_all(&folder).map_err(|error| file(&folder, "make", error))?;
                clap_mangen::generate_to(command, &folder).map_err(|error| file(&folder, "write into", error))
            }
        }
    }
}
