//! `[sinks.NAME.stdout]`.

use delayq_service::config::Section;
use serde::{Deserialize, Serialize};

/// `[sinks.NAME.stdout]`: it has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StdoutConfig {}

impl Section for StdoutConfig {}
