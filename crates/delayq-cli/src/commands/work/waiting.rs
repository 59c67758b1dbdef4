//! Why a worker may wait in vain, or get only some of the messages: said when it starts, a line for each reason.

use crate::commands::doctor::shards::{START, without_timer};
use crate::deployment::{Context, Global};
use crate::output::complain;
use crate::whole::WholeConfig;
use delayq::Topic;
use delayq_service::config::{Environment, load};

/// Names missing, paused and routed topics, and shards without a timer. What cannot be asked now is left unsaid: the worker
/// asks again.
pub(super) async fn explain(global: &Global, context: &Context, topics: &[Topic]) {
    name_routes(global, topics);
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

/// Names the topics that this configuration has a route for.
fn name_routes(global: &Global, topics: &[Topic]) {
    let Ok(loaded) = load::<WholeConfig>(&global.source(), &Environment::of_process()) else { return };
    let forwarding = loaded.config.forwarding(loaded.locations);
    for topic in topics.iter().filter(|topic| forwarding.has_route(topic.as_str())) {
        complain(&format!(
            "delayq: {topic} has a route in this configuration: a forwarder that uses it takes messages too, and each goes to \
             one of the two."
        ));
    }
}
