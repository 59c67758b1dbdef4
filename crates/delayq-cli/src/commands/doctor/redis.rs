//! Redis itself: its version, and the settings that delayq depends on.

use super::Check;
use crate::deployment::Context;
use delayq::Error;
use delayq::admin::ServerFacts;

pub(super) async fn checks(context: &Context) -> Vec<Check> {
    let address = context.client.address();
    let facts = match context.admin().check_server().await {
        Ok(facts) => facts,
        Err(error @ Error::Unfit(_)) => {
            return vec![Check::bad("redis", error.to_string(), "change the setting, or use another Redis")];
        }
        Err(error) => {
            return vec![Check::bad(
                "redis",
                error.to_string(),
                "start it, or correct [redis] url, username and password",
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
