//! The topics that have to exist.

use rdkafka::metadata::Metadata;

/// Checks that a description of all topics has these: asking for one may create it.
pub(super) fn exist(metadata: &Metadata, topics: [&str; 2]) -> Result<(), String> {
    match topics.iter().find(|topic| metadata.topics().iter().all(|known| known.name() != **topic)) {
        None => Ok(()),
        Some(missing) => Err(format!("the topic `{missing}` does not exist")),
    }
}
