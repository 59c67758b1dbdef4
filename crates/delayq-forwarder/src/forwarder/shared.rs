//! Topics whose messages both this forwarder and workers take.

use delayq::{Admin, Client, Topic};
use std::collections::BTreeSet;

/// After an error: none, until the next count.
pub(super) async fn with_workers(client: Client, topics: Vec<Topic>) -> BTreeSet<Topic> {
    match Admin::new(client).workers(&topics).await {
        Ok(workers) => {
            topics.into_iter().zip(workers).filter(|(_, count)| *count > 0).map(|(topic, _)| topic).collect()
        }
        Err(error) => {
            tracing::debug!(%error, "cannot determine whether workers also reserve the topic");
            BTreeSet::new()
        }
    }
}

/// Logs new workers.
pub(super) fn note(known: &mut BTreeSet<Topic>, found: BTreeSet<Topic>) {
    for topic in found.difference(known) {
        tracing::warn!(%topic, "workers also reserve this topic: each message goes either to a worker or to \
                                the route");
    }
    *known = found;
}
