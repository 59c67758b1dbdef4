//! Messages that wait because their topic has no route.

use delayq::{Admin, Client, Error, Topic};
use std::collections::BTreeSet;

/// Topics without a route that have messages.
pub(super) type Waiting = BTreeSet<Topic>;

/// The ready messages of each.
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
