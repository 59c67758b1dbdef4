//! Reasons for a worker to wait in vain, or to get only some of the messages: printed at the start, a line each.

use crate::deployment::{Context, Global};
use crate::look::known;
use crate::output::complain;
use crate::whole::WholeConfig;
use delayq::Topic;
use delayq_look::{Check, Look, Want, Which, without_timer};
use delayq_service::config::{Environment, load};

/// Names missing, paused and routed topics, and shards without a timer unless the worker `pumps`. A failed look is not reported here, because the
/// worker asks again.
pub(super) async fn explain(global: &Global, context: &Context, topics: &[Topic], pumps: bool) {
    name_routes(global, topics);
    let look = Look::take(&context.deployment, Want { topics: Which::Only(topics), ..Want::default() }).await;
    for topic in topics {
        match known(&look, std::slice::from_ref(topic)) {
            Err(missing) => complain(&format!("delayq: {missing}. Waiting for it.")),
            Ok(topics) if topics.numbers[topic].paused > 0 => {
                complain(&format!("delayq: {topic} is paused. Waiting for: delayq topic resume {topic}"));
            }
            Ok(_) => {}
        }
    }
    let unserved = || look.shards.as_ref().ok().and_then(without_timer);
    if !pumps && let Some(Check { found, advice, .. }) = unserved() {
        complain(&format!("delayq: {found}. Waiting: {advice}"));
    }
}

fn name_routes(global: &Global, topics: &[Topic]) {
    let Ok(loaded) = load::<WholeConfig>(&global.source(), &Environment::of_process()) else { return };
    let forwarding = loaded.config.forwarding(loaded.locations);
    for topic in topics.iter().filter(|topic| forwarding.has_route(topic.as_str())) {
        complain(&format!(
            "delayq: {topic} has a route in this configuration: each message goes either to a forwarder or \
             to this worker."
        ));
    }
}
