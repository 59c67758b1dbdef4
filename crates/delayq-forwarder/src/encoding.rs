//! The forms that a delivery can have.

use serde::{Deserialize, Serialize};

/// What a delivery looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    /// The producer's bytes, with delayq's headers beside them.
    #[default]
    Plain,
    /// The producer's bytes, with the attributes of CloudEvents 1.0 as headers too.
    CloudeventsBinary,
    /// One JSON document of CloudEvents 1.0, with the producer's bytes in it.
    CloudeventsStructured,
}
