//! What happened to a message.

use super::Admin;
use crate::error::Error;
use delayq_core::id::Topic;
use delayq_core::target::Target;
use delayq_core::verbs::history::{self, Happening, HistoryEvent};
use std::time::Duration;

/// The most pages of 500 events that are read, far more than the longest history has: what is written meanwhile is not
/// followed for ever.
const MAX_PAGES: usize = 210;

/// What is kept of what happened to a message. It is best effort: a script that is cut off, or a Redis that loses its last
/// writes, may leave out events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// About how many events its topic keeps in each shard; 0: it keeps no history.
    pub kept: u32,
    /// How long it keeps them.
    pub kept_for: Duration,
    /// What happened, the oldest first.
    pub events: Vec<HistoryEvent>,
}

// === impl History ===

impl History {
    /// Whether the beginning is missing: it happened before the history was kept, or too much or too long ago.
    pub fn is_cut(&self) -> bool {
        self.kept > 0 && !self.events.first().is_some_and(|first| matches!(first.what, Happening::Put(_)))
    }
}

// === impl Admin ===

impl Admin {
    /// What happened to a message, where its topic keeps a history
    /// ([`Policy::history`](delayq_core::policy::Policy::history)). It reads the whole history of the topic in the message's
    /// shard, 500 events a call.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn history(&self, topic: &Topic, target: &Target) -> Result<History, Error> {
        let (mut found, mut asked) = (History::default(), Vec::new());
        loop {
            let places = self.client.calls.shared_layout().shards_of(target);
            let Some(shard) = places.into_iter().find(|place| !asked.contains(place)) else { break };
            asked.push(shard);
            let mut from: Option<String> = None;
            for _ in 0..MAX_PAGES {
                let call = history::request(shard, topic, target, from.as_deref());
                let page = self.client.calls.ask(call, history::read).await?;
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
