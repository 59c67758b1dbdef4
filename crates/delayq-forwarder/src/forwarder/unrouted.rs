//! How many messages wait of the topics that no route is for.

use delayq_core::{Admin, Client, Error, Topic};
use std::collections::BTreeSet;

/// Topics that no route is for, and of which something waits.
pub(super) type Waiting = BTreeSet<Topic>;

/// How many of each are ready.
pub(super) type Counted = Result<Vec<(Topic, u64)>, Error>;

/// Counts them.
pub(super) async fn count(client: Client, topics: Waiting) -> Counted {
    let admin = Admin::new(client);
    let mut counted = Vec::with_capacity(topics.len());
    for topic in topics {
        let ready = admin.count(&topic).await?.ready;
        counted.push((topic, ready));
    }
    Ok(counted)
}
