//! The location of each key of a configuration, for faults found later.

use super::document::Location;
use std::collections::BTreeMap;

/// The locations of the keys of one configuration.
///
/// The default is empty: a configuration that was not read from a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locations {
    source: String,
    keys: BTreeMap<String, Location>,
}

// === impl Locations ===

impl Locations {
    pub(super) fn new(source: &str, keys: BTreeMap<String, Location>) -> Self {
        Self { source: source.to_owned(), keys }
    }

    /// The location of a key, or of the nearest written table around the key.
    pub(super) fn location(&self, key: &str) -> &Location {
        let mut key = key;
        loop {
            match (self.keys.get(key), key.rfind(['.', '['])) {
                (Some(location), _) => return location,
                (None, Some(end)) => key = &key[..end],
                (None, None) => return &Location::Whole,
            }
        }
    }

    /// The location of a key, or of the nearest written table around the key: `delayq.toml:12`, or the name of a
    /// variable. `None` if no part of the key is written.
    #[must_use]
    pub fn of(&self, key: &str) -> Option<String> {
        match self.location(key) {
            Location::Line(line) => Some(format!("{}:{line}", self.source)),
            Location::Variable(name) => Some(name.clone()),
            Location::Whole => None,
        }
    }

    /// Prefixes a sentence with the location of a key.
    #[must_use]
    pub fn say(&self, key: &str, sentence: &str) -> String {
        match self.of(key) {
            Some(location) => format!("{location}: {sentence}"),
            None => sentence.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_located_by_itself_or_by_the_table_around_it() {
        let keys = [
            ("sinks", Location::Line(3)),
            ("sinks.a", Location::Line(4)),
            ("b", Location::Variable("B".to_owned())),
        ];
        let locations =
            Locations::new("f.toml", keys.map(|(key, location)| (key.to_owned(), location)).into());
        for (key, expected) in [
            ("sinks.a", Some("f.toml:4")),
            ("sinks.a.kafka.brokers[0]", Some("f.toml:4")),
            ("sinks.z", Some("f.toml:3")),
            ("b.c", Some("B")),
            ("routes[0].to", None),
        ] {
            assert_eq!(locations.of(key).as_deref(), expected, "{key}");
        }
        assert_eq!(locations.say("sinks.a", "it is down"), "f.toml:4: it is down");
        assert_eq!(Locations::default().say("sinks.a", "it is down"), "it is down");
    }
}
