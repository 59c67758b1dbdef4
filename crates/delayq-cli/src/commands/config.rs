//! `delayq config`.

use clap::{Args, Subcommand};
use delayq_service::Fault;
use delayq_service::config::effective;
use serde_json::json;

use crate::deployment::Global;
use crate::output::{Output, say};

/// Checks the configuration, or shows what is in force.
#[derive(Debug, Args)]
pub struct Config {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Name every fault of the file and the environment, with line or variable
    Check,
    /// Show the configuration
    Show {
        /// What is in force: defaults, file, environment and options together; secrets as ***
        #[arg(long, required = true)]
        effective: bool,
    },
}

// === impl Config ===

impl Config {
    /// Does it.
    ///
    /// # Errors
    /// Every fault of the configuration at once.
    pub fn run(self, global: &Global) -> Result<(), Fault> {
        let loaded = global.load()?;
        match self.action {
            Action::Check => {
                let value = json!({ "source": loaded.source, "overridden": loaded.overridden, "faults": [] });
                Output::of_process(global.json).print(&value, || format!("{}: no faults", loaded.source))
            }
            Action::Show { .. } if global.json => Output::of_process(true).print(&loaded.config, String::new),
            Action::Show { .. } => {
                let overridden = match loaded.overridden.is_empty() {
                    true => String::new(),
                    false => format!(", and from {}", loaded.overridden.join(", ")),
                };
                say(&format!(
                    "# From {}{overridden}\n{}",
                    loaded.source,
                    effective(&loaded.config).trim_end()
                ))
            }
        }
    }
}
