//! The known compression of topics' payloads. A client asks about many topics in one call, and forgets the least
//! recently used topics.

use delayq_core::codec::{self, Dictionary};
use delayq_core::id::Topic;
use delayq_core::limits::MAX_IDS_A_CALL;
use lru::LruCache;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a topic's codec is trusted before the next read.
const BELIEVED: Duration = Duration::from_secs(10);

/// Maximum number of known topics, and of topics that wait for a question: some 250 bytes each.
const MOST_TOPICS: NonZeroUsize = NonZeroUsize::new(10_000).expect("10,000 is not 0");

#[derive(Clone, Default)]
pub(crate) enum Compression {
    #[default]
    None,
    Zstd,
    With(Arc<Dictionary>),
}

pub(crate) struct Codecs {
    /// With the time of expiry.
    known: LruCache<Topic, (Compression, Instant)>,
    to_ask: Vec<Topic>,
    is_asking: bool,
}

// === impl Compression ===

impl Compression {
    /// `None` if compression saves nothing.
    pub(crate) fn compress(&self, payload: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::None => None,
            Self::Zstd => codec::compress(payload, None),
            Self::With(dictionary) => codec::compress(payload, Some(dictionary)),
        }
    }
}

// === impl Codecs ===

impl Default for Codecs {
    fn default() -> Self {
        Self { known: LruCache::new(MOST_TOPICS), to_ask: Vec::new(), is_asking: false }
    }
}

impl Codecs {
    /// Also returns true if the caller has to start asking.
    pub(crate) fn of(&mut self, topic: &Topic, now: Instant) -> (Compression, bool) {
        let known = self.known.get(topic).cloned();
        if let Some((compression, until)) = &known
            && *until > now
        {
            return (compression.clone(), false);
        }
        let compression = known.unwrap_or((Compression::None, now)).0;
        if self.to_ask.len() < MOST_TOPICS.get() {
            // Trusted until there is an answer, so that each topic is asked about once.
            self.learn(topic, compression.clone(), now);
            self.to_ask.push(topic.clone());
        }
        (compression, !std::mem::replace(&mut self.is_asking, true))
    }

    /// Empty if no topic is left, and the caller stops.
    pub(crate) fn next_page(&mut self) -> Vec<Topic> {
        let left = self.to_ask.len().saturating_sub(MAX_IDS_A_CALL);
        let page = self.to_ask.split_off(left);
        self.is_asking = !page.is_empty();
        page
    }

    pub(crate) fn learn(&mut self, topic: &Topic, compression: Compression, now: Instant) {
        self.known.put(topic.clone(), (compression, now + BELIEVED));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    fn topic(n: usize) -> Topic {
        Topic::new(format!("tenant-{n}")).unwrap()
    }

    #[test]
    fn a_client_does_not_keep_every_topic_that_it_ever_used() {
        let (mut codecs, now) = (Codecs::default(), clock::instant());
        let mut begun = 0;
        for n in 0..10 * MOST_TOPICS.get() {
            begun += usize::from(codecs.of(&topic(n), now).1);
        }
        assert_eq!((codecs.known.len(), codecs.to_ask.len(), begun), (10_000, 10_000, 1));
        let mut pages = 0;
        while !codecs.next_page().is_empty() {
            pages += 1;
        }
        assert_eq!(pages, 20);
        assert!(codecs.of(&topic(99_999), now).1, "a topic that was left out is asked about at its next put");
        let _ = codecs.of(&topic(0), now);
        assert_eq!(codecs.known.len(), 10_000);
        assert_eq!(
            codecs.next_page(),
            [topic(99_999), topic(0)],
            "the topic used least recently was forgotten"
        );
    }

    #[test]
    fn a_codec_is_believed_for_ten_seconds_and_used_until_the_next_answer() {
        let (mut codecs, now) = (Codecs::default(), clock::instant());
        codecs.learn(&topic(1), Compression::Zstd, now);
        let is_zstd = |(known, asks): (Compression, bool)| (matches!(known, Compression::Zstd), asks);
        assert_eq!(is_zstd(codecs.of(&topic(1), now)), (true, false));
        assert_eq!(is_zstd(codecs.of(&topic(1), now + BELIEVED)), (true, true));
        assert_eq!(is_zstd(codecs.of(&topic(1), now + BELIEVED)), (true, false));
        assert_eq!(codecs.next_page(), [topic(1)]);
    }
}
