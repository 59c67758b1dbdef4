//! Topics that a shard sets aside, because a key of theirs is of the wrong type.

use delayq_core::{Error, ReserveReport, ShardId, Topic};
use prometheus_client::metrics::gauge::Gauge;
use std::collections::BTreeSet;

/// Those that are set aside now.
pub(super) struct Refused {
    known: BTreeSet<(ShardId, Topic)>,
    count: Gauge,
}

// === impl Refused ===

impl Refused {
    pub(super) fn new(count: Gauge) -> Self {
        Self { known: BTreeSet::new(), count }
    }

    /// Those of one shard.
    pub(super) fn of(&self, shard: ShardId) -> impl Iterator<Item = &Topic> {
        self.known.iter().filter(move |(place, _)| *place == shard).map(|(_, topic)| topic)
    }

    /// Keeps which of the asked topics the shard set aside, and says so once.
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
            let place = (shard, topic.clone());
            if all || refused.contains(topic) {
                if self.known.insert(place) {
                    tracing::error!(%shard, %topic, "a key of this topic is of the wrong type: its messages in this shard wait, other topics go on");
                }
            } else if self.known.remove(&place) {
                tracing::info!(%shard, %topic, "the topic's keys are in order again");
            }
        }
        self.count.set(i64::try_from(self.known.len()).unwrap_or(i64::MAX));
    }
}

/// Whether every topic that was asked for is set aside: the call fails then with the key of one, `…}:r:1` or `…}:t:1`.
fn is_of_topics(error: &Error) -> bool {
    let Error::Redis { code, detail } = error else { return false };
    code == "DQTYPE" && (detail.contains("}:r:") || detail.contains("}:t:"))
}
