//! Counters under lmstfy's names, as Prometheus reads them.

use super::names;
use super::state::Lmstfy;
use delayq::Topic;
use delayq::protocol::Reservation;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

/// Maximum series: beyond, new queues are not counted by name.
const MAX_SERIES: usize = 10_000;
/// Maximum queues whose sizes are asked for.
const MAX_QUEUES: usize = 1_000;

/// A counter and its labels.
type Series = (&'static str, String);

/// The counters of this process.
#[derive(Default)]
pub(super) struct Counters(Mutex<BTreeMap<Series, u64>>);

// === impl Counters ===

impl Counters {
    pub(super) fn published(&self, pool: &str, topic: &Topic, jobs: usize) {
        self.add("redis_publish_jobs", of_pool(pool), jobs as u64);
        self.add("redis_publish_queue_jobs", of_queue(pool, topic), jobs as u64);
    }

    pub(super) fn consumed(&self, pool: &str, messages: &[Reservation], many: bool) {
        let name = if many { "redis_consume_multi_jobs" } else { "redis_consume_jobs" };
        self.add(name, of_pool(pool), messages.len() as u64);
        for message in messages {
            self.add("redis_consume_queue_jobs", of_queue(pool, &message.topic), 1);
        }
    }

    pub(super) fn respawned(&self, pool: &str, jobs: u64) {
        self.add("redis_deadletter_respawn_jobs", of_pool(pool), jobs);
    }

    pub(super) fn answered(&self, api: &str, status: u16) {
        self.add("http_http_codes", format!("api=\"{api}\",code=\"{status}\""), 1);
    }

    pub(super) fn limited(&self, pool: &str) {
        self.add("http_rate_limit", of_pool(pool), 1);
    }

    fn add(&self, name: &'static str, labels: String, by: u64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = all.len() >= MAX_SERIES;
        match all.get_mut(&(name, labels.clone())) {
            Some(count) => *count += by,
            None if is_full => {}
            None => drop(all.insert((name, labels), by)),
        }
    }

    fn write(&self, text: &mut String) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last = "";
        for ((name, labels), count) in all.iter() {
            if *name != last {
                let _ = writeln!(text, "# TYPE infra_lmstfy_{name} counter");
                last = name;
            }
            let _ = writeln!(text, "infra_lmstfy_{name}{{{labels}}} {count}");
        }
    }
}

/// The counters, and the sizes of the queues as they are now.
pub(super) async fn exposed(lmstfy: &Lmstfy) -> Result<String, delayq::Error> {
    let mut text = String::new();
    lmstfy.counters.write(&mut text);
    let mut sizes: BTreeMap<&str, String> = BTreeMap::new();
    for (pool, app) in &lmstfy.pools {
        let topics = app.admin.topics().await?;
        let queues = topics.iter().filter(|topic| names::parts(topic).is_some());
        let mut waiting = 0;
        for topic in queues.take(MAX_QUEUES) {
            let numbers = app.admin.topic(topic).count().await?;
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

fn of_pool(pool: &str) -> String {
    format!("pool=\"{}\"", pool.escape_default())
}

fn of_queue(pool: &str, topic: &Topic) -> String {
    let (namespace, queue) = topic.as_str().split_once('/').unwrap_or_default();
    format!("{},namespace=\"{namespace}\",queue=\"{queue}\"", of_pool(pool))
}
