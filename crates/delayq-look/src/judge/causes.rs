//! Every cause of trouble in a deployment, each with a verdict, an advice and a page of the documentation.

use super::check::Check;
use super::judgement::Judgement::{self, Bad, Warning};
use serde_json::Value;

const DOCS: &str = "https://github.com/delayq/delayq/blob/main/docs/";

/// A cause of trouble.
#[derive(Debug, PartialEq, Eq)]
pub struct Cause {
    /// The part that was checked, in a word.
    pub what: &'static str,
    /// The verdict.
    pub verdict: Judgement,
    /// True if `delayq check` reports the cause: see [`Check::alarms`].
    pub alarms: bool,
    /// The remedy.
    pub advice: &'static str,
    /// The page in `docs/`, with its section: the runbook of an alert, or the page of a setting.
    pub page: &'static str,
    /// The names of the values in every finding.
    pub values: &'static [&'static str],
    name: &'static str,
}

/// The names of values that some findings have: each is a sentence of its own in another language.
pub const EXTRAS: [&str; 9] =
    ["node", "why", "since_at", "paused", "full_groups", "paused_groups", "more", "unregistered", "others"];

// === impl Cause ===

impl Cause {
    const fn bad(what: &'static str, page: &'static str, advice: &'static str) -> Self {
        Self { what, verdict: Bad, alarms: true, advice, page, values: &[], name: "" }
    }

    const fn warning(what: &'static str, page: &'static str, advice: &'static str) -> Self {
        Self { what, verdict: Warning, alarms: true, advice, page, values: &[], name: "" }
    }

    /// A setting or a drain that works now and makes a later fault worse.
    const fn risk(what: &'static str, page: &'static str, advice: &'static str) -> Self {
        Self { what, verdict: Warning, alarms: false, advice, page, values: &[], name: "" }
    }

    const fn with(self, values: &'static [&'static str]) -> Self {
        Self { values, ..self }
    }

    /// The cause was found, with its values in order.
    pub fn found<const N: usize>(&self, found: impl Into<String>, values: [Value; N]) -> Check {
        debug_assert_eq!(N, self.values.len(), "{}", self.name);
        let check = Check::new(self.what, self.verdict, found, self.advice);
        let (runbook, cause) = (format!("{DOCS}{}", self.page), self.name.to_lowercase());
        let check =
            Check { runbook, cause, values: self.values.iter().copied().zip(values).collect(), ..check };
        if self.alarms { check } else { check.quiet() }
    }

    pub(super) fn judged<const N: usize>(
        &self,
        verdict: Judgement,
        found: impl Into<String>,
        values: [Value; N],
    ) -> Check {
        match verdict {
            Judgement::Good => Check::good(self.what, found),
            verdict => Check { verdict, ..self.found(found, values) },
        }
    }
}

/// Defines the causes, and the list of all.
macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident = $cause:expr;)*) => {
        $($(#[$doc])* pub(crate) const $name: Cause = Cause { name: stringify!($name), ..$cause };)*

        /// Every cause, with its name.
        pub const fn causes() -> &'static [(&'static str, Cause)] {
            &[$((stringify!($name), $name)),*]
        }
    };
}

const CHECK_BAD: &str = "runbooks.md#delayqcheckbad";
const LATE: &str = "runbooks.md#delayqoverdue";
const NOBODY: &str = "runbooks.md#delayqshardunowned";
const UNREAD: &str = "runbooks.md#delayqreadyold";
const SENTINELS: &str = "operations/topology.md#redis-by-sentinel";
const CLUSTER: &str = "operations/topology.md#redis-cluster";
const NEEDS: &str = "operations.md#what-delayq-needs";
const FAILOVER: &str = "operations/durability.md#what-a-failover-can-lose";
const MOVING: &str = "operations/reshaping.md#moving-shards-to-a-new-node";

const START: &str =
    "start a timer (delayq-timer --config FILE), or a worker that pumps (delayq work TOPIC --pump)";
const CONSUME: &str = "start a worker, or a forwarder with a route for the topic; if one is running, see its \
                       log and delayq topic show TOPIC";

causes! {
    /// A Redis does not answer, or refuses.
    REDIS_AWAY = Cause::bad("redis", CHECK_BAD, "start Redis, or correct [redis] url, username and password, \
                                                 [redis.sentinel] and [[redis.nodes]]",
    );
    /// A Redis is at `maxclients` and ends each new connection.
    REDIS_FULL_OF_CLIENTS = Cause::bad("redis", CHECK_BAD, "raise maxclients, or see which programs hold the \
                                                            connections: CLIENT LIST on an open connection",
    );
    /// A Redis would lose messages.
    REDIS_UNFIT = Cause::bad("redis", NEEDS, "change the setting, or use another Redis");
    /// One of several nodes has many more shards: a core of Redis is the limit of its shards.
    NOT_SPREAD = Cause::risk("spread", CLUSTER, "add shards, which spread more evenly (delayq shards grow), \
                                                 or move slots: redis-cli --cluster reshard",
    ).with(&["each"]);
    /// A master of a cluster has no replica.
    NO_REPLICA = Cause::risk("failover", CLUSTER, "add a replica: without one, the shards stop while this \
                                                   node is down");
    /// Less than a tenth of the memory is left: puts are refused soon.
    MEMORY_SHORT = Cause::warning("memory", "operations/sizing.md", "raise maxmemory, or purge messages").with(&["used", "limit"]);
    /// A Redis without a limit grows until the system kills the process.
    MEMORY_UNLIMITED = Cause::risk("memory", "operations/sizing.md", "set maxmemory, so that a full Redis refuses puts instead of being killed").with(&["used"]);
    /// Sentinels name different masters.
    SENTINELS_DIFFER = Cause::warning("sentinels", SENTINELS, "run it again after a failover; if the \
                                                               difference stays, see why the sentinels \
                                                               disagree").with(&["masters"]);
    /// A master without a replica has no successor.
    SENTINELS_ALONE = Cause::bad("sentinels", SENTINELS, "start a replica: nothing can take over from this master").with(&["masters"]);
    /// The sentinels are too few for a failover.
    SENTINELS_FEW = Cause::bad("sentinels", SENTINELS, "start the sentinels: without most of them there is no failover").with(&["answer", "all"]);
    /// Some sentinels do not answer.
    SENTINELS_SILENT = Cause::warning("sentinels", SENTINELS, "start the other sentinels, or correct their \
                                                               addresses").with(&["answer", "named"]);
    /// There are more sentinels than the configuration names.
    SENTINELS_UNNAMED = Cause::risk("sentinels", SENTINELS, "list all sentinels, so that some may be down").with(&["named", "all"]);
    /// An isolated master keeps accepting writes.
    NO_MIN_REPLICAS = Cause::risk("failover", FAILOVER, "set min-replicas-to-write 1 and \
                                                         min-replicas-max-lag 10, or accept the loss",
    );
    /// A crash may have torn the append-only file.
    AOF_AS_LOADED = Cause::risk("persistence", "operations/durability.md", "run BGREWRITEAOF if Redis \
                                                                            crashed before: a torn end can \
                                                                            prevent the next start",
    );
    /// Nothing survives a restart.
    NO_AOF = Cause::risk("persistence", "operations/durability.md", "set appendonly yes: without it, a \
                                                                     restart of Redis loses everything");
    /// No shard of the deployment exists.
    DEPLOYMENT_MISSING = Cause::bad("deployment", CHECK_BAD, "if the deployment is new: delayq init");
    /// The number of shards differs.
    DEPLOYMENT_DIFFERS = Cause::bad("deployment", CHECK_BAD, "correct [deployment] shards");
    /// Some shards do not answer.
    SHARDS_AWAY = Cause::bad("deployment", CHECK_BAD, "fix what this line and the Redis checks name",
    ).with(&["answer", "all"]);
    /// Two nodes serve the same shards: one has an older copy.
    KEPT_TWICE = Cause::bad("deployment", MOVING, "one node came back with a copy from before a move: stop \
                                                   that node, or delete the copy; messages put there since \
                                                   then are on no other node",
    ).with(&["shards", "nodes"]);
    /// Redis came back with older data, within the last day.
    OLDER_DATA = Cause::bad(
        "data",
        "runbooks.md#delayqolderdata",
        "find the cause (Redis's log, its last restart or failover), and put the missing messages again: a \
         message with its own id is not stored twice",
    ).with(&["shards", "noticed_at"]);
    /// Timers do not trust a clock: nothing becomes ready.
    CLOCK_HELD = Cause::bad("clock guard", LATE, "check Redis's clock and the timers' logs").with(&["held", "all"]);
    /// The clocks of this machine and of Redis differ.
    CLOCKS_APART = Cause::risk("clocks", NEEDS, "correct NTP on the wrong host: due times follow Redis's \
                                                 clock").with(&["apart_ms"]);
    /// No timer ever served a shard.
    NEVER_OWNED = Cause::bad("timers", NOBODY, START).with(&["unowned", "all"]);
    /// Without etcd: no timer listens to a shard.
    NOBODY_LISTENS = Cause::bad("timers", NOBODY, START).with(&["unheard", "all", "owner"]);
    /// With etcd: no timer is registered.
    NO_TIMER = Cause::bad("timers", NOBODY, START);
    /// The first timer recorded another deployment in etcd: the timers of this one do not join.
    ANOTHER_FLEET = Cause::bad(
        "timers",
        "operations/topology.md#identity",
        "give the two deployments different [etcd] prefixes, or correct redis.url; if that deployment is gone for good: \
         delayq init --replace",
    ).with(&["other", "redis", "mine"]);
    /// Every timer is drained.
    ALL_DRAINED = Cause::bad("timers", NOBODY, "delayq timers undrain NAME").with(&["all"]);
    /// The plan gives a shard to no timer: until the next plan, other timers rescue overdue messages.
    SHARDS_UNPLANNED = Cause::warning("timers", NOBODY, "see the timers' logs, and delayq timers").with(&["unplanned", "all", "registered"]);
    /// A timer is drained, perhaps forgotten.
    DRAINED = Cause::risk("drained", "operations/upgrades.md#draining-a-timer", "to give it shards again, or \
         if it is gone for good: delayq timers undrain NAME").with(&["timer", "drained_at"]);
    /// The pump of a shard is late, by the threshold.
    OVERDUE = Cause::bad("overdue", LATE, "check that timers are running and reach the shard's Redis: delayq \
                                           timers, their /readyz and logs",
    ).with(&["overdue_ms"]);
    /// etcd does not answer: timers keep their shards, and rescue those of a timer that ends.
    ETCD_AWAY = Cause::warning("etcd", NOBODY, "start etcd, correct [etcd] endpoints, or set enabled = false").with(&["endpoint"]);
    /// etcd answers, and has no leader.
    ETCD_WITHOUT_LEADER = Cause::warning("etcd", NOBODY, "start a majority of the members").with(&["endpoint"]);
    /// etcd answers and refuses writes: the database is full, or damaged.
    ETCD_FULL = Cause::warning("etcd", NOBODY, "compact and defragment it, then disarm the alarm, or raise its quota",
    ).with(&["endpoint", "alarms"]);
    /// The configuration of etcd cannot be used.
    ETCD_MISCONFIGURED = Cause::bad("etcd", NOBODY, "correct [etcd]");
    /// The topics cannot be read.
    TOPICS_UNREAD = Cause::bad("topics", CHECK_BAD, "fix the Redis checks first");
    /// Nobody takes ready messages, by the threshold of age.
    READY_OLD = Cause::warning("ready age", UNREAD, CONSUME).with(&["topic", "age_ms"]);
    /// Nobody takes ready messages, by the threshold of number.
    READY_MANY = Cause::warning("ready messages", UNREAD, CONSUME).with(&["n", "topic"]);
    /// There are dead letters, by the threshold.
    DEAD_LETTERS = Cause::warning("dead letters", "runbooks.md#delayqdeadletters", "find the cause: delayq \
         dead list TOPIC; then delayq dead replay or dead purge").with(&["n", "topic"]);
    /// Redis cannot confirm the writes of a topic.
    UNCONFIRMABLE = Cause::bad("durability", "operations/durability.md#durability-by-topic", "the outcome of \
         writes is unknown until this is fixed; or delayq topic set TOPIC --durability memory").with(&["topic", "durability"]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_cause_says_what_to_do_and_is_no_good_news() {
        for (name, cause) in causes() {
            assert!(!cause.advice.is_empty() && cause.verdict != Judgement::Good, "{name}");
        }
    }

    #[test]
    fn every_cause_leads_to_a_section_that_exists() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for (name, cause) in causes() {
            let (file, section) = cause.page.split_once('#').unwrap_or((cause.page, ""));
            let text = std::fs::read_to_string(docs.join(file)).unwrap_or_else(|why| panic!("{name}: {why}"));
            let headings = text.lines().filter(|line| line.starts_with('#'));
            let mut anchors =
                headings.map(|line| line.trim_matches(['#', ' ']).to_lowercase().replace(' ', "-"));
            assert!(section.is_empty() || anchors.any(|anchor| anchor == section), "{name}: {}", cause.page);
        }
    }
}
