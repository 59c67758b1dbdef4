//! Topics that a shard sets aside because one of their keys has the wrong type.

use delayq::protocol::{ReserveReport, ShardId};
use delayq::{Error, Topic};
use prometheus_client::metrics::gauge::Gauge;
use std::collections::BTreeSet;

pub(super) struct Refused {
    known: BTreeSet<(ShardId, Topic)>,
    count: Gauge,
}

// === impl Refused ===

impl Refused {
    pub(super) fn new(count: Gauge) -> Self {
        Self { known: BTreeSet::new(), count }
    }

    pub(super) fn any(&self) -> bool {
        !self.known.is_empty()
    }

    pub(super) fn of(&self, shard: ShardId) -> impl Iterator<Item = &Topic> {
        self.known.iter().filter(move |(of, _)| *of == shard).map(|(_, topic)| topic)
    }

    pub(super) fn note<'a>(
        &mut self,
        shard: ShardId,
        asked: impl Iterator<Item = &'a Topic>,
        found: &Result<ReserveReport, Error>,
    ) {
        let (refused, all): (&[Topic], bool) = match found {
            Ok(report) => (&report.refused, false),
            Err(error) if is_of_topics(error) => (&[], true),
            Err(_) => return,
        };
        if !all && refused.is_empty() && self.known.is_empty() {
            return;
        }
        for topic in asked {
            let key = (shard, topic.clone());
            if all || refused.contains(topic) {
                if self.known.insert(key) {
                    tracing::error!(%shard, %topic, "a key of this topic has the wrong type: its messages in this shard wait, other topics continue");
                }
            } else if self.known.remove(&key) {
                tracing::info!(%shard, %topic, "the topic's keys have the right type again");
            }
        }
        self.count.set(i64::try_from(self.known.len()).unwrap_or(i64::MAX));
    }
}

/// True if every requested topic is set aside: the call then fails with the key of one topic, `…}:r:1` or `…}:t:1`.
pub(super) fn is_of_topics(error: &Error) -> bool {
    let Error::Redis { code, detail } = error else { return false };
    code == "DQTYPE" && (detail.contains("}:r:") || detail.contains("}:t:"))
}
