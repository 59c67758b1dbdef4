//! `[log]`: level and format of log lines.

use crate::config::{Faults, Section};
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

/// `[log]`: log lines go to standard error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// `human`, `json`, or `auto`: human on a terminal, else JSON. Default `auto`. Colour only on a terminal and
    /// without `NO_COLOR`.
    pub format: LogFormat,
    /// `error`, `warn`, `info`, `debug`, `trace`, or directives such as `info,delayq_timer=debug`; default `info`.
    /// `RUST_LOG` takes precedence. Read again at SIGHUP. `debug` logs every call: watch the disk.
    pub filter: String,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Human on a terminal, else JSON.
    #[default]
    Auto,
    /// One readable line per event.
    Human,
    /// One JSON object per event.
    Json,
}

// === impl LogConfig ===

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::default(), filter: "info".to_owned() }
    }
}

impl Section for LogConfig {
    fn validate(&self, at: &mut Faults) {
        if let Err(message) = EnvFilter::try_new(&self.filter) {
            at.refuse(
                "filter",
                format!("{message}; expected a level or directives such as \"info,delayq=debug\""),
            );
        }
    }
}
