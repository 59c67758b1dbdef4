//! `delayq config`.

use crate::deployment::Global;
use crate::output::{Output, say};
use crate::whole::WholeConfig;
use clap::{Args, Subcommand};
use delayq_forwarder::examine;
use delayq_service::Fault;
use delayq_service::config::{ConfigFault, ConfigFaults, Environment, Loaded, Location, effective, load};
use serde_json::{Value, json};

/// Check the configuration, or show it
#[derive(Debug, Args)]
pub struct Config {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Report every fault in the file, the environment and the destinations, with line or variable
    Check {
        /// Do not connect to the forwarder's destinations
        #[arg(long)]
        offline: bool,
    },
    /// Show the configuration in force: defaults, file, environment and options together; secrets as ***
    Show {
        /// What is in force, which is shown in any case
        #[arg(long, hide = true)]
        effective: bool,
    },
}

// === impl Config ===

impl Config {
    /// Runs the subcommand.
    ///
    /// # Errors
    /// Every fault of the configuration at once; or every destination that keeps a forwarder from starting, in the
    /// forwarder's words.
    pub async fn run(self, global: &Global) -> Result<(), Fault> {
        let loaded = load::<WholeConfig>(&global.source(), &Environment::of_process());
        if let (Err(faults), Action::Check { .. }, true) = (&loaded, &self.action, global.json()) {
            Output::of_process(true).print(&faulty(faults), String::new)?;
        }
        let Loaded { mut config, source, overridden, locations } = loaded?;
        global.apply(&mut config.deployment, &mut config.redis);
        match self.action {
            Action::Check { offline } => {
                let warnings = match offline {
                    true => Vec::new(),
                    false => examine(&config.forwarding(locations), &config.redis).await?,
                };
                let value =
                    json!({ "source": source, "overridden": overridden, "faults": [], "warnings": warnings });
                Output::of_process(global.json()).print(&value, || {
                    let warned: String =
                        warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
                    format!("{warned}{source}: no faults")
                })
            }
            Action::Show { .. } if global.json() => Output::of_process(true).print(&config, String::new),
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

fn faulty(faults: &ConfigFaults) -> Value {
    let one = |fault: &ConfigFault| {
        let mut value = json!({ "key": fault.key, "message": fault.message });
        match &fault.location {
            Location::Line(line) => value["line"] = (*line).into(),
            Location::Variable(name) => value["variable"] = name.as_str().into(),
            Location::Whole => {}
        }
        value
    };
    json!({ "faults": faults.faults().iter().map(one).collect::<Vec<_>>(), "warnings": [] })
}
