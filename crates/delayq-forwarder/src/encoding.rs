//! The forms of a delivery.

use serde::{Deserialize, Serialize};

/// The form of a delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    /// The producer's bytes, with delayq's headers alongside.
    #[default]
    Plain,
    /// The producer's bytes, with the attributes of CloudEvents 1.0 as headers too.
    CloudeventsBinary,
    /// One JSON document of CloudEvents 1.0 that contains the producer's bytes.
    CloudeventsStructured,
}
