//! Where each key of a configuration is written, for faults that are found after it was read.

use std::collections::BTreeMap;

use super::document::Place;

/// The places of the keys of one configuration.
///
/// The default knows none: a configuration that was not read from anywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    source: String,
    keys: BTreeMap<String, Place>,
}

// === impl Places ===

impl Places {
    pub(super) fn new(source: &str, keys: BTreeMap<String, Place>) -> Self {
        Self { source: source.to_owned(), keys }
    }

    /// Where a key is written, or the nearest table around it that is: `delayq.toml:12`, or the name of a variable. None
    /// where no part of it is written.
    #[must_use]
    pub fn of(&self, key: &str) -> Option<String> {
        let mut key = key;
        let place = loop {
            match (self.keys.get(key), key.rfind(['.', '['])) {
                (Some(place), _) => break place,
                (None, Some(end)) => key = &key[..end],
                (None, None) => return None,
            }
        };
        match place {
            Place::Line(line) => Some(format!("{}:{line}", self.source)),
            Place::Variable(name) => Some(name.clone()),
            Place::Whole => None,
        }
    }

    /// A sentence about a key, behind the place where it is written.
    #[must_use]
    pub fn say(&self, key: &str, sentence: &str) -> String {
        match self.of(key) {
            Some(place) => format!("{place}: {sentence}"),
            None => sentence.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_placed_by_itself_or_by_the_table_around_it() {
        let keys =
            [("sinks", Place::Line(3)), ("sinks.a", Place::Line(4)), ("b", Place::Variable("B".to_owned()))];
        let places = Places::new("f.toml", keys.map(|(key, place)| (key.to_owned(), place)).into());
        for (key, expected) in [
            ("sinks.a", Some("f.toml:4")),
            ("sinks.a.kafka.brokers[0]", Some("f.toml:4")),
            ("sinks.z", Some("f.toml:3")),
            ("b.c", Some("B")),
            ("routes[0].to", None),
        ] {
            assert_eq!(places.of(key).as_deref(), expected, "{key}");
        }
        assert_eq!(places.say("sinks.a", "it is down"), "f.toml:4: it is down");
        assert_eq!(Places::default().say("sinks.a", "it is down"), "it is down");
    }
}
