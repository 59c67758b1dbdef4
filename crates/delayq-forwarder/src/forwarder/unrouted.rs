//! Messages that wait because no route matches their topic.

use delayq::{Admin, Client, Error, Topic};
use std::collections::BTreeSet;

pub(super) type UnroutedTopics = BTreeSet<Topic>;

pub(super) type UnroutedCounts = Result<Vec<(Topic, u64)>, Error>;

pub(super) async fn count(client: Client, topics: UnroutedTopics) -> UnroutedCounts {
    let admin = Admin::new(client);
    let mut counted = Vec::with_capacity(topics.len());
    for topic in topics {
        let ready = admin.topic(&topic).count().await?.ready;
        counted.push((topic, ready));
    }
    Ok(counted)
}
