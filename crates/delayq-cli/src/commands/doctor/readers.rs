//! The topics: does every one with messages have a route or a reader, and none of them both?

use super::Check;
use crate::deployment::{Context, Global};
use crate::output::counted;
use crate::whole::WholeConfig;
use delayq::admin::Numbers;
use delayq::{Error, Topic};
use delayq_forwarder::Settings;
use delayq_service::Fault;
use delayq_service::config::{Environment, load};
use std::time::Duration;
use tokio::time::sleep;

/// How long ready messages are watched: a forwarder or worker reserves within it.
const WATCHED: Duration = Duration::from_secs(1);

/// A topic with messages.
struct Waiting {
    topic: Topic,
    numbers: Numbers,
    /// Messages are ready, and nobody reserves them.
    idle: bool,
}

pub(super) async fn checks(global: &Global, context: &Context) -> Vec<Check> {
    let settings = match load::<WholeConfig>(&global.source(), &Environment::of_process()) {
        Ok(loaded) => loaded.config.forwarding(loaded.locations),
        Err(faults) => {
            return vec![Check::bad("routes", Fault::from(faults).to_string(), "delayq config check")];
        }
    };
    let waiting = match waiting(context).await {
        Ok(waiting) => waiting,
        Err(error) => {
            return vec![Check::bad("routes", error.to_string(), "correct what the check of Redis names")];
        }
    };
    let mut checks: Vec<Check> = waiting.iter().filter_map(|waiting| waiting.check(&settings)).collect();
    checks.extend(shared(context, &settings).await);
    if checks.iter().all(|check| check.what != "routes") {
        let found = match settings.routes.len() {
            0 => "none here: messages wait for workers that reserve them".to_owned(),
            count => format!("{count}, and every topic with messages has one"),
        };
        checks.insert(0, Check::good("routes", found));
    }
    checks
}

/// The topics that a route and workers share.
async fn shared(context: &Context, settings: &Settings) -> Vec<Check> {
    let admin = context.admin();
    let mut routed = admin.topics().await.unwrap_or_default();
    routed.retain(|topic| settings.has_route(topic.as_str()));
    let workers = admin.workers(&routed).await.unwrap_or_default();
    let shared = routed.iter().zip(workers).filter(|(_, count)| *count > 0);
    shared
        .map(|(topic, count)| {
            Check::warning(
                "workers",
                format!(
                    "{topic} has a route, and {} too: each message goes to one of the two",
                    counted(count, "worker")
                ),
                format!("stop the workers of {topic}, or remove its route"),
            )
        })
        .collect()
}

/// The topics that have messages. Those with ready ones are counted twice, a moment apart.
async fn waiting(context: &Context) -> Result<Vec<Waiting>, Error> {
    let admin = context.admin();
    let mut all = Vec::new();
    for topic in admin.topics().await? {
        let numbers = admin.count(&topic).await?;
        if numbers.pending() > 0 {
            all.push(Waiting { topic, idle: may_be_idle(&numbers), numbers });
        }
    }
    if all.iter().any(|waiting| waiting.idle) {
        sleep(WATCHED).await;
    }
    for waiting in all.iter_mut().filter(|waiting| waiting.idle) {
        let later = admin.count(&waiting.topic).await?;
        waiting.idle = may_be_idle(&later) && settled(&later) == settled(&waiting.numbers);
        waiting.numbers = later;
    }
    Ok(all)
}

/// Whether messages are ready that anybody could reserve, and nobody holds one.
fn may_be_idle(numbers: &Numbers) -> bool {
    numbers.ready > 0 && numbers.leased == 0 && numbers.paused == 0 && numbers.rate.is_none()
}

/// What grows when messages are reserved and settled.
fn settled(numbers: &Numbers) -> [u64; 2] {
    [numbers.delivered, numbers.dead]
}

// === impl Waiting ===

impl Waiting {
    fn check(&self, settings: &Settings) -> Option<Check> {
        let Self { topic, numbers, idle } = self;
        let (pending, ready) = (numbers.pending(), numbers.ready);
        match (settings.has_route(topic.as_str()), settings.routes.is_empty()) {
            (true, _) if *idle => Some(Check::bad(
                "forwarder",
                format!("{topic}: {} ready, and no forwarder takes them", counted(ready, "message")),
                "start one: delayq-forwarder --config FILE; if one runs, see its log",
            )),
            (false, false) => Some(Check::warning(
                "routes",
                format!("no route is for {topic}: {pending} messages wait, {ready} of them ready"),
                format!("add a [[routes]] with topic = \"{topic}\", unless workers reserve them"),
            )),
            (false, true) if *idle => Some(Check::warning(
                "workers",
                format!("{topic}: {} ready, and nobody reserves them", counted(ready, "message")),
                format!("start a worker, such as delayq work {topic}; or add a route and start a forwarder"),
            )),
            _ => None,
        }
    }
}
