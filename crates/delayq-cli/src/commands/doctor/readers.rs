//! Checks that every topic with messages has a route or a reader, and that no topic has both.

use crate::deployment::Global;
use crate::output::counted;
use crate::whole::WholeConfig;
use delayq::admin::Numbers;
use delayq::{Admin, Error, Topic};
use delayq_forwarder::Settings;
use delayq_look::{Check, Look, Topics};
use delayq_service::Fault;
use delayq_service::config::{Environment, load};
use std::time::Duration;
use tokio::time::sleep;

/// Time for which ready messages are watched: a forwarder or worker reserves within this time.
const WATCHED: Duration = Duration::from_secs(1);

struct WaitingTopic {
    topic: Topic,
    numbers: Numbers,
    idle: bool,
}

/// Quiet checks, because another host may have another configuration and a second is a short time to watch.
/// `delayq check` judges the age of waiting messages instead.
pub(super) async fn checks(global: &Global, look: &Look) -> Vec<Check> {
    // The judge explains the missing topics.
    let Some(Ok(topics)) = &look.topics else { return Vec::new() };
    checks_of(global, &look.part.admin(), topics).await.into_iter().map(Check::quiet).collect()
}

async fn checks_of(global: &Global, admin: &Admin, topics: &Topics) -> Vec<Check> {
    let settings = match load::<WholeConfig>(&global.source(), &Environment::of_process()) {
        Ok(loaded) => loaded.config.forwarding(loaded.locations),
        Err(faults) => {
            return vec![Check::bad("routes", Fault::from(faults).to_string(), "delayq config check")];
        }
    };
    let waiting = match waiting(admin, topics).await {
        Ok(waiting) => waiting,
        Err(error) => {
            return vec![Check::bad("routes", error.to_string(), "fix the Redis check first")];
        }
    };
    let mut checks: Vec<Check> = waiting.iter().filter_map(|waiting| waiting.check(&settings)).collect();
    checks.extend(shared(admin, topics, &settings).await);
    if checks.iter().all(|check| check.what != "routes") {
        let found = match settings.routes.len() {
            0 => "none here: messages wait for workers that reserve them".to_owned(),
            count => format!("{count}, and every topic with messages has one"),
        };
        checks.insert(0, Check::good("routes", found));
    }
    checks
}

async fn shared(admin: &Admin, topics: &Topics, settings: &Settings) -> Vec<Check> {
    let routed = topics.names.iter().filter(|topic| settings.has_route(topic.as_str()));
    let routed: Vec<Topic> = routed.cloned().collect();
    let workers = admin.workers(&routed).await.unwrap_or_default();
    let shared = routed.iter().zip(workers).filter(|(_, count)| *count > 0);
    shared
        .map(|(topic, count)| {
            Check::warning(
                "workers",
                format!(
                    "{topic} has a route and {}: each message goes to only one of the two",
                    counted(count, "worker")
                ),
                format!("stop the workers of {topic}, or remove its route"),
            )
        })
        .collect()
}

/// Topics with ready messages are counted again a moment later.
async fn waiting(admin: &Admin, topics: &Topics) -> Result<Vec<WaitingTopic>, Error> {
    let with_messages = topics.numbers.iter().filter(|(_, numbers)| numbers.pending() > 0);
    let of = |(topic, numbers): (&Topic, &Numbers)| WaitingTopic {
        topic: topic.clone(),
        idle: may_be_idle(numbers),
        numbers: numbers.clone(),
    };
    let mut all: Vec<WaitingTopic> = with_messages.map(of).collect();
    if all.iter().any(|waiting| waiting.idle) {
        sleep(WATCHED).await;
    }
    for waiting in all.iter_mut().filter(|waiting| waiting.idle) {
        let later = admin.topic(&waiting.topic).count().await?;
        waiting.idle = may_be_idle(&later) && settled(&later) == settled(&waiting.numbers);
        waiting.numbers = later;
    }
    Ok(all)
}

fn may_be_idle(numbers: &Numbers) -> bool {
    numbers.ready > 0 && numbers.leased == 0 && numbers.paused == 0 && numbers.rate.is_none()
}

/// Numbers that grow as messages are reserved and settled.
fn settled(numbers: &Numbers) -> [u64; 2] {
    [numbers.delivered, numbers.dead]
}

// === impl WaitingTopic ===

impl WaitingTopic {
    fn check(&self, settings: &Settings) -> Option<Check> {
        let Self { topic, numbers, idle } = self;
        let (pending, ready) = (numbers.pending(), numbers.ready);
        match (settings.has_route(topic.as_str()), settings.routes.is_empty()) {
            (true, _) if *idle => Some(Check::bad(
                "forwarder",
                format!("{topic}: {} ready, but no forwarder is taking them", counted(ready, "message")),
                "start a forwarder: delayq-forwarder --config FILE; if one is running, see its log",
            )),
            (false, false) => Some(Check::warning(
                "routes",
                format!("{topic} has no route: {pending} messages waiting, {ready} of them ready"),
                format!("add a [[routes]] with topic = \"{topic}\", unless workers reserve them"),
            )),
            (false, true) if *idle => Some(Check::warning(
                "workers",
                format!("{topic}: {} ready, but no consumer reserves them", counted(ready, "message")),
                format!("start a worker, such as delayq work {topic}; or add a route and start a forwarder"),
            )),
            _ => None,
        }
    }
}
