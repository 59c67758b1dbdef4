//! The counters and the sizes of the queues under lmstfy's names, as Prometheus reads them.

use super::counters::{of_pool, of_queue};
use super::names;
use super::state::Lmstfy;
use delayq::Topic;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Maximum queues whose sizes are asked for.
const MAX_QUEUES: usize = 1_000;

/// The counters, and the sizes of the queues as they are now.
pub(super) async fn exposed(lmstfy: &Lmstfy) -> Result<String, delayq::Error> {
    let mut text = String::new();
    lmstfy.counters.write(&mut text);
    let mut sizes: BTreeMap<&str, String> = BTreeMap::new();
    for (pool, app) in &lmstfy.pools {
        let topics = app.unscoped().admin.topics().await?;
        let queues = topics.into_iter().filter(|topic| names::parts(topic).is_some());
        let queues: Vec<Topic> = queues.take(MAX_QUEUES).collect();
        let mut waiting = 0;
        for (topic, numbers) in queues.iter().zip(app.unscoped().admin.count(&queues).await?) {
            let labels = of_queue(pool, topic);
            let mut add = |name, labels: &str, size: u64| {
                let _ = writeln!(sizes.entry(name).or_default(), "infra_lmstfy_{name}{{{labels}}} {size}");
            };
            add("redis_queue_sizes", &labels, numbers.ready);
            add("redis_deadletter_sizes", &labels, numbers.dead);
            waiting += numbers.delayed + numbers.leased;
        }
        let lines = sizes.entry("redis_timer_sizes").or_default();
        let _ = writeln!(lines, "infra_lmstfy_redis_timer_sizes{{{}}} {waiting}", of_pool(pool));
    }
    for (name, lines) in sizes {
        let _ = write!(text, "# TYPE infra_lmstfy_{name} gauge\n{lines}");
    }
    Ok(text)
}
