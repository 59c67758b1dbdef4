//! `delayq config`.

use clap::{Args, Subcommand};
use delayq_service::Fault;
use delayq_service::config::{Environment, Loaded, effective, load};
use serde_json::json;

use crate::deployment::Global;
use crate::output::{Output, say};
use crate::whole::WholeConfig;

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
        let Loaded { mut config, source, overridden, .. } =
            load::<WholeConfig>(&global.source(), &Environment::of_process())?;
        global.apply(&mut config.deployment, &mut config.redis);
        match self.action {
            Action::Check => {
                let value = json!({ "source": source, "overridden": overridden, "faults": [] });
                Output::of_process(global.json).print(&value, || format!("{source}: no faults"))
            }
            Action::Show { .. } if global.json => Output::of_process(true).print(&config, String::new),
            Action::Show { .. } => {
                let overridden = match overridden.is_empty() {
                    true => String::new(),
                    false => format!(", and from {}", overridden.join(", ")),
                };
                say(&format!("# From {source}{overridden}\n{}", effective(&config).trim_end()))
            }
        }
    }
}
