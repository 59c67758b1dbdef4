//! The topics of a lane that may have messages in one shard, and the earliest time to ask for each.

use std::collections::BTreeMap;
use std::time::Instant;

/// Maximum topics in one call: `reserve` accepts 500, and each topic costs Redis a lookup.
const MAX_TOPICS: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct HotTopics {
    topics: BTreeMap<usize, Instant>,
    pub(crate) first: Option<Instant>,
}

// === impl HotTopics ===

impl HotTopics {
    pub(crate) fn heat(&mut self, topics: impl IntoIterator<Item = usize>, from: Instant) {
        for topic in topics {
            let at = self.topics.entry(topic).or_insert(from);
            *at = from.min(*at);
            self.first = Some(self.first.map_or(from, |first| first.min(from)));
        }
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.first.is_some_and(|first| first <= now)
    }

    /// At most as many as a single call requests, in order from `from`.
    pub(crate) fn take(&mut self, from: usize, now: Instant) -> Vec<usize> {
        let in_turn = self.topics.range(from..).chain(self.topics.range(..from));
        let due = in_turn.filter(|(_, at)| **at <= now).map(|(topic, _)| *topic);
        let taken: Vec<usize> = due.take(MAX_TOPICS).collect();
        for topic in &taken {
            self.topics.remove(topic);
        }
        self.first = self.topics.values().min().copied();
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn no_call_asks_for_more_topics_than_it_may_and_each_has_its_turn() {
        let (now, mut hot) = (Instant::now(), HotTopics::default());
        let later = now + Duration::from_secs(1);
        hot.heat(0..250, now);
        hot.heat(250..260, later);
        assert_eq!(hot.take(200, now), (200..250).chain(0..50).collect::<Vec<_>>());
        assert_eq!(hot.take(201, now), (50..150).collect::<Vec<_>>());
        assert_eq!(hot.take(51, now), (150..200).collect::<Vec<_>>());
        assert_eq!((hot.is_due(now), hot.first), (false, Some(later)));
        assert_eq!(hot.take(0, later), (250..260).collect::<Vec<_>>());
        assert_eq!(hot.first, None);
    }
}
