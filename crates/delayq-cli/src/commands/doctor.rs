//! `delayq doctor`: is everything reachable, of the right version, and set as it must be?

use clap::Args;
use delayq_core::{Error, Numbers, ServerFacts, Topic, UnixMillis};
use delayq_service::Fault;
use delayq_service::config::{Environment, load};
use jiff::Timestamp;
use serde::Serialize;

use crate::commands::timers::observer;
use crate::deployment::{Context, Global};
use crate::failure::UNFIT;
use crate::output::duration;
use crate::whole::WholeConfig;

/// Clocks further apart than this make times on the command line misleading; deliveries go by Redis's alone.
const CLOCKS_APART_MS: u64 = 1000;

/// Check that everything can be reached and is set as it must be
///
/// Says of each thing that is not what to do about it.
#[derive(Debug, Args)]
pub struct Doctor {}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    what: &'static str,
    verdict: Verdict,
    found: String,
    /// What to do; empty where nothing has to be done.
    advice: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Good,
    Warning,
    Bad,
}

// === impl Doctor ===

impl Doctor {
    /// Prints what it finds.
    ///
    /// # Errors
    /// Something is not as it must be.
    pub async fn run(self, global: &Global) -> Result<(), Fault> {
        let context = &global.context()?;
        let mut checks = redis(context).await;
        if checks.iter().all(|check| check.verdict != Verdict::Bad) {
            checks.extend(shards(context).await);
            checks.extend(routes(global, context).await);
        }
        checks.extend(etcd(context).await);
        checks.extend(spool(context));
        context.output.print(&checks, || {
            let mut rows = context.output.rows(&["check", "verdict", "found", "what to do"]);
            for check in &checks {
                let verdict = format!("{:?}", check.verdict).to_lowercase();
                rows.judged(
                    check.verdict != Verdict::Bad,
                    [check.what.to_owned(), verdict, check.found.clone(), check.advice.clone()],
                );
            }
            rows.text()
        })?;
        match checks.iter().filter(|check| check.verdict == Verdict::Bad).count() {
            0 => Ok(()),
            bad => Err(Fault::new(&UNFIT, format!("{bad} of {} checks are bad", checks.len()))),
        }
    }
}

// === impl Check ===

impl Check {
    fn good(what: &'static str, found: impl Into<String>) -> Self {
        Self { what, verdict: Verdict::Good, found: found.into(), advice: String::new() }
    }

    fn bad(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { what, verdict: Verdict::Bad, found: found.into(), advice: advice.into() }
    }

    fn warning(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { what, verdict: Verdict::Warning, found: found.into(), advice: advice.into() }
    }
}

async fn redis(context: &Context) -> Vec<Check> {
    let address = context.client.address();
    let facts = match context.client.check_server().await {
        Ok(facts) => facts,
        Err(error @ Error::Unfit(_)) => {
            return vec![Check::bad("redis", error.to_string(), "change the setting, or use another Redis")];
        }
        Err(error) => {
            return vec![Check::bad(
                "redis",
                error.to_string(),
                "start it, or mend [redis] url, username and password",
            )];
        }
    };
    let kind = if facts.cluster { "cluster" } else { "standalone" };
    let mut checks = vec![
        Check::good(
            "redis",
            format!("{address}, version {}, {kind}, {} replicas", facts.version, facts.replicas),
        ),
        Check::good("eviction", facts.maxmemory_policy.clone()),
    ];
    checks.push(persistence(&facts));
    checks.push(match (facts.used_memory_bytes, facts.maxmemory_bytes) {
        (used, 0) => Check::warning(
            "memory",
            format!("{} MiB used, no limit", used >> 20),
            "set maxmemory, so that a full Redis refuses puts instead of being killed",
        ),
        (used, most) if used > most / 10 * 9 => Check::bad(
            "memory",
            format!("{} of {} MiB used", used >> 20, most >> 20),
            "raise maxmemory, or purge",
        ),
        (used, most) => Check::good("memory", format!("{} of {} MiB used", used >> 20, most >> 20)),
    });
    checks
}

fn persistence(facts: &ServerFacts) -> Check {
    match (facts.aof, facts.aof_as_loaded) {
        (true, false) => Check::good("persistence", "append-only file"),
        (true, true) => Check::warning(
            "persistence",
            "append-only file, not rewritten since Redis started",
            "BGREWRITEAOF, unless its last stop was an orderly one: a torn end would spoil the next start",
        ),
        (false, _) => Check::warning(
            "persistence",
            "no append-only file",
            "a restart of Redis loses everything: appendonly yes",
        ),
    }
}

async fn shards(context: &Context) -> Vec<Check> {
    let namespace = &context.config.deployment.namespace;
    let overviews = match context.admin().overview().await {
        Ok(overviews) => overviews,
        Err(error) => {
            return vec![Check::bad("deployment", error.to_string(), "delayq init, if it is to be new")];
        }
    };
    let mut checks = vec![match context.client.init().await {
        Ok(_) => Check::good("deployment", format!("{namespace}, {} shards", overviews.len())),
        Err(error) => Check::bad("deployment", error.to_string(), "mend [deployment] shards"),
    }];
    let held = overviews.iter().filter(|(_, overview)| overview.held).count();
    if held > 0 {
        checks.push(Check::bad(
            "clock guard",
            format!("{held} shards held"),
            "look at Redis's clock and the timers' logs",
        ));
    }
    let late =
        |now: UnixMillis, due: Option<UnixMillis>| due.map_or(0, |due| now.get().saturating_sub(due.get()));
    let overdue = overviews
        .iter()
        .map(|(_, overview)| late(overview.now.millis(), overview.next_due))
        .max()
        .unwrap_or(0);
    checks.push(match overdue {
        0..2000 => Check::good("timers", "nothing is overdue"),
        late => Check::bad(
            "timers",
            format!("a shard has been due for {}", duration(std::time::Duration::from_millis(late))),
            "start a timer; see delayq timers",
        ),
    });
    if let Some((_, first)) = overviews.first() {
        let here = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0);
        let apart = here.abs_diff(first.now.millis().get());
        let found = format!("{apart} ms between this machine's and Redis's");
        checks.push(match apart {
            0..=CLOCKS_APART_MS => Check::good("clocks", found),
            _ => Check::warning("clocks", found, "due times go by Redis's clock; mend NTP on one of the two"),
        });
    }
    checks
}

/// Which topics have messages that wait for a route.
async fn routes(global: &Global, context: &Context) -> Vec<Check> {
    let settings = match load::<WholeConfig>(&global.source(), &Environment::of_process()) {
        Ok(loaded) => loaded.config.forwarding(loaded.places),
        Err(faults) => {
            return vec![Check::bad("routes", Fault::from(faults).to_string(), "delayq config check")];
        }
    };
    if settings.routes.is_empty() {
        return vec![Check::good("routes", "none here: messages wait for workers that reserve them")];
    }
    let unrouted = async {
        let mut waiting = Vec::new();
        let admin = context.admin();
        for topic in admin.topics().await?.into_iter().filter(|topic| !settings.has_route(topic.as_str())) {
            let numbers = admin.count(&topic).await?;
            if numbers.pending() > 0 {
                waiting.push((topic, numbers));
            }
        }
        Ok::<_, Error>(waiting)
    };
    match unrouted.await {
        Err(error) => vec![Check::bad("routes", error.to_string(), "look at Redis first")],
        Ok(waiting) if waiting.is_empty() => {
            let count = settings.routes.len();
            vec![Check::good("routes", format!("{count}, and every topic with messages has one"))]
        }
        Ok(waiting) => waiting.into_iter().map(|(topic, numbers)| unrouted_topic(&topic, &numbers)).collect(),
    }
}

fn unrouted_topic(topic: &Topic, numbers: &Numbers) -> Check {
    Check::warning(
        "routes",
        format!(
            "no route is for {topic}: {} messages wait, {} of them ready",
            numbers.pending(),
            numbers.ready
        ),
        format!("add a [[routes]] with topic = \"{topic}\", unless workers reserve them"),
    )
}

async fn etcd(context: &Context) -> Vec<Check> {
    if !context.config.etcd.enabled {
        return vec![Check::good("etcd", "not used: a single timer owns every shard")];
    }
    let observer = match observer(&context.config) {
        Ok(observer) => observer,
        Err(fault) => return vec![Check::bad("etcd", fault.to_string(), "mend [etcd]")],
    };
    let healths = observer.health().await.into_iter().map(|health| match (health.version, health.fault) {
        (Some(version), _) if health.has_leader => {
            Check::good("etcd", format!("{}, version {version}", health.endpoint))
        }
        (Some(version), _) => Check::bad(
            "etcd",
            format!("{}, version {version}, no leader", health.endpoint),
            "bring a majority of the members up",
        ),
        (None, fault) => Check::bad(
            "etcd",
            format!("{}: {}", health.endpoint, fault.unwrap_or_default()),
            "start it, mend [etcd] endpoints, or set enabled = false",
        ),
    });
    healths.collect()
}

fn spool(context: &Context) -> Option<Check> {
    let folder = context.config.spool.folder()?;
    Some(match std::fs::metadata(folder) {
        Ok(found) if !found.is_dir() => {
            Check::bad("spool", format!("{} is no folder", folder.display()), "mend [spool] dir")
        }
        Ok(found) if found.permissions().readonly() => Check::bad(
            "spool",
            format!("{} may not be written", folder.display()),
            "give this user the folder",
        ),
        Ok(_) => Check::good("spool", folder.display().to_string()),
        Err(error) => Check::bad("spool", format!("{}: {error}", folder.display()), "make the folder"),
    })
}
