//! Why a worker may wait in vain: said when it starts, a line for each reason.

use crate::commands::doctor::shards::{START, without_timer};
use crate::deployment::Context;
use crate::output::complain;
use delayq::Topic;

/// Names missing and paused topics, and shards without a timer. What cannot be asked now is left unsaid: the worker asks
/// again.
pub(super) async fn explain(context: &Context, topics: &[Topic]) {
    let admin = context.admin();
    for topic in topics {
        match (context.known_topic(topic).await, admin.count(topic).await) {
            (Err(missing), _) => complain(&format!("delayq: {missing}. Waiting for it.")),
            (Ok(()), Ok(numbers)) if numbers.paused > 0 => {
                complain(&format!("delayq: {topic} is paused. Waiting for: delayq topic resume {topic}"));
            }
            _ => {}
        }
    }
    if let Some(found) = admin.overview().await.ok().and_then(|overviews| without_timer(&overviews)) {
        complain(&format!("delayq: {found}. Waiting: {START}"));
    }
}
