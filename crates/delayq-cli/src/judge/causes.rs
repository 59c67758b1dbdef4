//! Everything that may be wrong with a deployment: one entry a cause, with its verdict and its advice.

use super::Check;
use crate::output::Judgement::{self, Bad, Warning};

/// Something that may be wrong.
#[derive(Debug, PartialEq, Eq)]
pub struct Cause {
    /// What was looked at, in a word.
    pub what: &'static str,
    /// How bad it is.
    pub verdict: Judgement,
    /// Whether `delayq check` says it too: see [`Check::alarms`].
    pub alarms: bool,
    /// What to do.
    pub advice: &'static str,
}

// === impl Cause ===

impl Cause {
    const fn bad(what: &'static str, advice: &'static str) -> Self {
        Self { what, verdict: Bad, alarms: true, advice }
    }

    const fn warning(what: &'static str, advice: &'static str) -> Self {
        Self { what, verdict: Warning, alarms: true, advice }
    }

    /// Nothing is wrong yet: a setting, or a drain, that a later fault would make worse.
    const fn risk(what: &'static str, advice: &'static str) -> Self {
        Self { what, verdict: Warning, alarms: false, advice }
    }

    /// It is so.
    pub fn found(&self, found: impl Into<String>) -> Check {
        let check = Check::new(self.what, self.verdict, found, self.advice);
        if self.alarms { check } else { check.quiet() }
    }

    /// By a threshold: with the verdict that it gives.
    pub(super) fn judged(&self, verdict: Judgement, found: impl Into<String>) -> Check {
        match verdict {
            Judgement::Good => Check::good(self.what, found),
            verdict => Check { verdict, ..self.found(found) },
        }
    }
}

/// Defines the causes, and the list of all.
macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident = $cause:expr;)*) => {
        $($(#[$doc])* pub(crate) const $name: Cause = $cause;)*

        /// Every cause, with its name.
        pub const fn causes() -> &'static [(&'static str, Cause)] {
            &[$((stringify!($name), $name)),*]
        }
    };
}

/// How a timer is started.
const START: &str = "start a timer: delayq-timer --config FILE, or delayq up for everything on one machine";
const CONSUME: &str = "start a worker, or a forwarder with a route for it; if one runs, see its log and delayq topic show TOPIC";

causes! {
    /// A Redis that does not answer, or refuses.
    REDIS_AWAY = Cause::bad(
        "redis",
        "start it, or correct [redis] url, username and password, [redis.sentinel] and [[redis.nodes]]",
    );
    /// A Redis at its limit of clients, which ends each new connection.
    REDIS_FULL_OF_CLIENTS = Cause::bad(
        "redis",
        "raise maxclients, or find who holds the connections: CLIENT LIST through one that is open",
    );
    /// A Redis that would lose messages.
    REDIS_UNFIT = Cause::bad("redis", "change the setting, or use another Redis");
    /// One node of several with much more than another: a core of Redis is the limit of its shards.
    NOT_SPREAD = Cause::risk(
        "spread",
        "more shards spread more evenly (delayq shards grow), or move slots: redis-cli --cluster reshard",
    );
    /// A master of a cluster that nothing can succeed.
    NO_REPLICA = Cause::risk("failover", "add one: its shards stop while this node is gone");
    /// Less than a tenth of the limit is left: puts are refused soon.
    MEMORY_SHORT = Cause::warning("memory", "raise maxmemory, or purge");
    /// A Redis that grows until the system kills it.
    MEMORY_UNLIMITED =
        Cause::risk("memory", "set maxmemory, so that a full Redis refuses puts instead of being killed");
    /// Sentinels that name different masters.
    SENTINELS_DIFFER =
        Cause::warning("sentinels", "ask again after a failover; if it stays, see why the sentinels differ");
    /// Nothing to fail over to.
    SENTINELS_ALONE = Cause::bad("sentinels", "start a replica: nothing can take over from this master");
    /// Too few for a failover.
    SENTINELS_FEW = Cause::bad("sentinels", "start the sentinels: without most of them there is no failover");
    /// Some do not answer.
    SENTINELS_SILENT = Cause::warning("sentinels", "start the others, or correct their addresses");
    /// More than are configured.
    SENTINELS_UNNAMED = Cause::risk("sentinels", "name all of them, so that some may be down");
    /// An isolated master that keeps taking writes.
    NO_MIN_REPLICAS = Cause::risk(
        "failover",
        "min-replicas-to-write 1 and min-replicas-max-lag 10, or accept that loss",
    );
    /// A file that a crash may have torn.
    AOF_AS_LOADED = Cause::risk(
        "persistence",
        "BGREWRITEAOF, unless its last stop was an orderly one: a torn end would spoil the next start",
    );
    /// Nothing survives a restart.
    NO_AOF = Cause::risk("persistence", "a restart of Redis loses everything: appendonly yes");
    /// None of its shards exists.
    DEPLOYMENT_MISSING = Cause::bad("deployment", "delayq init, if the deployment is new");
    /// It has another number of shards.
    DEPLOYMENT_DIFFERS = Cause::bad("deployment", "correct [deployment] shards");
    /// Some of its shards do not answer.
    SHARDS_AWAY = Cause::bad(
        "deployment",
        "correct what the checks of Redis name; delayq shards names the others",
    );
    /// Two nodes serve the same shards: one has an older copy.
    KEPT_TWICE = Cause::bad(
        "deployment",
        "one has a copy from before a move, which came back: stop that node, or delete the copy; what was put there since then \
         is in no other node",
    );
    /// A clock that is not trusted: nothing becomes ready.
    CLOCK_HELD = Cause::bad("clock guard", "check Redis's clock and the timers' logs");
    /// This machine's clock and Redis's differ.
    CLOCKS_APART =
        Cause::risk("clocks", "due times go by Redis's clock; correct NTP on one of the two");
    /// Shards that no timer ever served.
    NEVER_OWNED = Cause::bad("timers", START);
    /// Without etcd: nobody listens where messages are put.
    NOBODY_LISTENS = Cause::bad("timers", START);
    /// With etcd: no timer at all.
    NO_TIMER = Cause::bad("timers", START);
    /// The first timer recorded another deployment in etcd: those of this one do not join.
    ANOTHER_FLEET = Cause::bad(
        "timers",
        "give the two deployments different [etcd] prefixes, or correct redis.url; if that deployment is gone for good: \
         delayq init --replace",
    );
    /// Every timer is kept without shards.
    ALL_DRAINED = Cause::bad("timers", "delayq timers undrain NAME");
    /// Until the next plan, other timers rescue what is overdue there.
    SHARDS_UNPLANNED = Cause::warning("timers", "see the timers' logs, and delayq timers");
    /// A timer that somebody may have forgotten.
    DRAINED = Cause::risk("drained", "delayq timers undrain NAME, when it may have shards again, or is gone for good");
    /// A shard whose pump is late; by its threshold.
    OVERDUE = Cause::bad(
        "overdue",
        "see which timers run, and whether they reach the shard's Redis: delayq timers, their /readyz and logs",
    );
    /// etcd does not answer: timers keep their shards, and rescue those of a timer that ends.
    ETCD_AWAY = Cause::warning("etcd", "start it, correct [etcd] endpoints, or set enabled = false");
    /// It answers, and can elect nobody.
    ETCD_WITHOUT_LEADER = Cause::warning("etcd", "bring a majority of the members up");
    /// It answers, and takes no writes: its space is used up, or its data is damaged.
    ETCD_FULL = Cause::warning(
        "etcd",
        "compact and defragment it, then disarm the alarm, or raise its quota",
    );
    /// It cannot be asked.
    ETCD_MISCONFIGURED = Cause::bad("etcd", "correct [etcd]");
    /// The topics cannot be read.
    TOPICS_UNREAD = Cause::bad("topics", "correct what the checks of Redis name");
    /// Messages that nobody takes; by its threshold.
    READY_OLD = Cause::warning("ready age", CONSUME);
    /// Many messages that nobody takes; by its threshold.
    READY_MANY = Cause::warning("ready messages", CONSUME);
    /// Dead letters; by its threshold.
    DEAD_LETTERS = Cause::warning("dead letters", "see why: delayq dead list TOPIC; then delayq dead replay or dead purge");
    /// Writes of a topic that cannot be confirmed.
    UNCONFIRMABLE =
        Cause::bad("durability", "until then its writes are unknown: repair it, or delayq topic set TOPIC --durability memory");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_says_what_to_do_and_is_no_good_news() {
        for (name, cause) in causes() {
            assert!(!cause.advice.is_empty() && cause.verdict != Judgement::Good, "{name}");
        }
    }
}
