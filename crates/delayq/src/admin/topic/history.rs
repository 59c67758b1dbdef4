//! The history of a message.

use super::TopicAdmin;
use crate::error::Error;
use delayq_core::target::Target;
use delayq_core::verbs::history::{self, Happening, HistoryEvent};
use std::time::Duration;

/// Maximum pages of 500 events, far more than the longest history has, so that new events are not followed for ever.
const MAX_PAGES: usize = 210;

/// The recorded history of a message. The history is best effort: events may be missing after an interrupted script, or
/// after a Redis lost the last writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// About how many events the topic keeps in each shard; 0: the topic keeps no history.
    pub kept: u32,
    /// Retention time of the events.
    pub kept_for: Duration,
    /// The events, the oldest first.
    pub events: Vec<HistoryEvent>,
}

// === impl History ===

impl History {
    /// Returns true if the beginning is missing: the message is older than the history, or the history dropped old
    /// events.
    pub fn is_cut(&self) -> bool {
        self.kept > 0 && !self.events.first().is_some_and(|first| matches!(first.what, Happening::Put(_)))
    }
}

// === impl TopicAdmin ===

impl TopicAdmin<'_> {
    /// Returns the history of a message, if the topic keeps a history
    /// ([`Policy::history`](delayq_core::policy::Policy::history)). Reads the whole history of the topic in the
    /// message's shard, 500 events a call.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn history(self, target: &Target) -> Result<History, Error> {
        let (mut found, mut asked) = (History::default(), Vec::new());
        loop {
            let places = self.admin.client.calls.shared_layout().shards_of(target);
            let Some(shard) = places.into_iter().find(|place| !asked.contains(place)) else { break };
            asked.push(shard);
            let mut from: Option<String> = None;
            for _ in 0..MAX_PAGES {
                let call = history::request(shard, self.topic, target, from.as_deref());
                let page = self.admin.client.calls.ask(call, history::read).await?;
                found.events.extend(page.events);
                found.kept = found.kept.max(page.kept);
                found.kept_for = found.kept_for.max(page.kept_for);
                from = page.next;
                if from.is_none() {
                    break;
                }
            }
        }
        found.events.sort_by_key(|event| event.at);
        Ok(found)
    }
}
