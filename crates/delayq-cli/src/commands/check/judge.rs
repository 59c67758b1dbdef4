//! What a look means: a pure function from what was seen and the thresholds.

use super::look::{Fleet, Fullest, Look, Shards};
use crate::checked::Check;
use crate::output::{Judgement, counted, duration};
use crate::verdicts::{SILENT_ETCD, UNPLANNED_SHARDS, of_memory};
use delayq::Topic;
use delayq::admin::Numbers;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// As plugins of Nagios say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Status {
    Ok,
    Warning,
    Unknown,
    Critical,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Judged {
    pub(super) status: Status,
    pub(super) what: &'static str,
    pub(super) found: String,
}

/// A warning and a critical threshold; reaching one is enough.
pub(super) type Pair = (Option<f64>, Option<f64>);

/// The thresholds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Seconds.
    pub(super) overdue: Pair,
    /// Seconds.
    pub(super) ready_age: Pair,
    pub(super) ready: Pair,
    pub(super) dead: Pair,
}

// === impl Status ===

impl Status {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "WARNING",
            Self::Unknown => "UNKNOWN",
            Self::Critical => "CRITICAL",
        }
    }

    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Warning => 1,
            Self::Critical => 2,
            Self::Unknown => 3,
        }
    }

    fn of(value: f64, (warn, crit): Pair) -> Self {
        let reached = |limit: Option<f64>| limit.is_some_and(|limit| value >= limit);
        match (reached(warn), reached(crit)) {
            (_, true) => Self::Critical,
            (true, false) => Self::Warning,
            (false, false) => Self::Ok,
        }
    }
}

impl From<Judgement> for Status {
    fn from(judgement: Judgement) -> Self {
        match judgement {
            Judgement::Good => Self::Ok,
            Judgement::Warning => Self::Warning,
            Judgement::Bad => Self::Critical,
        }
    }
}

impl From<Status> for Judgement {
    fn from(status: Status) -> Self {
        match status {
            Status::Ok => Self::Good,
            Status::Warning | Status::Unknown => Self::Warning,
            Status::Critical => Self::Bad,
        }
    }
}

// === impl Judged ===

impl Judged {
    pub(super) fn new(status: Status, what: &'static str, found: impl Into<String>) -> Self {
        let found = found.into().lines().map(str::trim).collect::<Vec<_>>().join("; ");
        Self { status, what, found }
    }
}

impl From<&Check> for Judged {
    fn from(check: &Check) -> Self {
        Self::new(check.verdict.into(), check.what, format!("{}: {}", check.what, check.found))
    }
}

/// The worst of all; a fault that is known comes before what is not known.
pub(super) fn worst(judged: &[Judged]) -> Status {
    judged.iter().map(|one| one.status).max().unwrap_or(Status::Unknown)
}

/// Judges everything that was looked at.
pub(super) fn judge(look: &Look, limits: &Limits) -> Vec<Judged> {
    let mut judged = Vec::new();
    judged.extend(look.redis.as_ref().map(redis));
    if let Some(shards) = &look.shards {
        judged.push(timers(shards, look.fleet.as_ref()));
        let status = Status::of(shards.overdue.as_secs_f64(), limits.overdue);
        judged.push(Judged::new(
            status,
            "overdue",
            match shards.overdue.is_zero() {
                true => "nothing is overdue".to_owned(),
                false => format!("a shard has been due for {}", duration(shards.overdue)),
            },
        ));
        judged.push(ready_age(look, limits.ready_age));
        judged.push(most(&look.topics, "ready messages", limits.ready, |numbers| numbers.ready));
        judged.push(most(&look.topics, "dead letters", limits.dead, |numbers| numbers.dead));
    }
    judged.extend(look.sources.iter().map(Judged::from));
    judged
}

fn redis(found: &Result<Fullest, String>) -> Judged {
    match found {
        Err(why) => Judged::new(Status::Critical, "redis", why.clone()),
        Ok(Fullest { node, of }) => {
            let (used, limit) = (node.facts.used_memory_bytes, node.facts.maxmemory_bytes);
            let memory = match limit {
                0 => format!("{} MiB used", used >> 20),
                _ => format!("{} of {} MiB used", used >> 20, limit >> 20),
            };
            let status = of_memory(&node.facts).into();
            let which =
                if *of > 1 { format!("{of} nodes, fullest {}: ", node.address) } else { String::new() };
            Judged::new(status, "redis", format!("{which}version {}, {memory}", node.facts.version))
        }
    }
}

fn timers(shards: &Shards, fleet: Option<&Result<Fleet, String>>) -> Judged {
    let Shards { count, unowned, held, unheard, .. } = shards;
    let shards = counted(*count as u64, "shard");
    let say = |status, found: String| Judged::new(status, "timers", found);
    match fleet {
        _ if *held > 0 => say(Status::Critical, format!("{held} of {shards} held: check Redis's clock")),
        _ if *unowned > 0 => say(Status::Critical, format!("no timer has ever owned {unowned} of {shards}")),
        Some(Err(why)) => say(SILENT_ETCD.into(), format!("etcd does not say: {why}")),
        Some(Ok(Fleet { members: 0, .. })) => {
            say(Status::Critical, "no timer is registered in etcd".to_owned())
        }
        Some(Ok(Fleet { members, drained, .. })) if members == drained => {
            say(Status::Critical, format!("every timer is drained: nobody pumps {shards}"))
        }
        Some(Ok(Fleet { members, unplanned: 0, drained })) => {
            let drained_too = if *drained > 0 { format!(", {drained} drained") } else { String::new() };
            let owners = counted((members - drained) as u64, "timer");
            let own = if members - drained == 1 { "owns" } else { "own" };
            say(Status::Ok, format!("{owners} {own} {shards}{drained_too}"))
        }
        Some(Ok(Fleet { members, unplanned, .. })) => say(
            UNPLANNED_SHARDS.into(),
            format!("{unplanned} of {shards} unplanned, {} registered", counted(*members as u64, "timer")),
        ),
        None => match unheard {
            Some(unheard @ 1..) => {
                say(Status::Critical, format!("no timer listens to {unheard} of {shards}"))
            }
            _ => say(Status::Ok, format!("{shards} owned")),
        },
    }
}

/// The topic whose oldest ready message has waited the longest.
fn ready_age(look: &Look, limits: Pair) -> Judged {
    let say = |status, found| Judged::new(status, "ready age", found);
    let status_of = |age: Duration| Status::of(age.as_secs_f64(), limits);
    let Some((topic, age)) = look.ready_ages().max_by_key(|(_, age)| *age) else {
        return say(Status::of(0.0, limits), "no message waits for a consumer".to_owned());
    };
    let paused = if look.topics[topic].paused > 0 { ", which is paused," } else { "" };
    let waits = format!("the oldest ready message of {topic}{paused} has waited for {}", duration(age));
    let others = look.ready_ages().filter(|(_, age)| status_of(*age) != Status::Ok).count().saturating_sub(1);
    match others {
        0 => say(status_of(age), waits),
        1 => say(status_of(age), format!("{waits}, that of another topic too long as well")),
        others => say(status_of(age), format!("{waits}, those of {others} more topics too long as well")),
    }
}

/// The topic that has the most of something.
fn most(
    topics: &BTreeMap<Topic, Numbers>,
    what: &'static str,
    limits: Pair,
    of: impl Fn(&Numbers) -> u64,
) -> Judged {
    match topics.iter().max_by_key(|(_, numbers)| of(numbers)) {
        Some((topic, numbers)) if of(numbers) > 0 => {
            let most = of(numbers);
            let counted = counted(most, what.trim_end_matches('s'));
            Judged::new(Status::of(most as f64, limits), what, format!("{counted} in {topic}"))
        }
        _ => Judged::new(Status::of(0.0, limits), what, format!("no {what}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq::UnixMillis;

    const LIMITS: Limits = Limits {
        overdue: (Some(2.0), Some(30.0)),
        ready_age: (Some(300.0), Some(3600.0)),
        ready: (Some(10.0), None),
        dead: (None, Some(1.0)),
    };

    fn look(overdue_ms: u64, ready: u64, dead: u64) -> Look {
        let shards = Shards { count: 4, overdue: Duration::from_millis(overdue_ms), ..Shards::default() };
        let numbers = Numbers { ready, dead, ..Numbers::default() };
        let topics = BTreeMap::from([(Topic::new("orders").unwrap(), numbers)]);
        Look { shards: Some(shards), topics, ..Look::default() }
    }

    #[test]
    fn each_threshold_is_reached_at_its_value() {
        for (seen, status) in [
            (look(0, 0, 0), Status::Ok),
            (look(1999, 9, 0), Status::Ok),
            (look(2000, 0, 0), Status::Warning),
            (look(29_999, 0, 0), Status::Warning),
            (look(30_000, 0, 0), Status::Critical),
            (look(0, 10, 0), Status::Warning),
            (look(0, 1_000_000, 0), Status::Warning),
            (look(0, 0, 1), Status::Critical),
        ] {
            assert_eq!(worst(&judge(&seen, &LIMITS)), status, "{seen:?}");
        }
    }

    #[test]
    fn topics_that_nobody_works_on_are_not_ok() {
        let look = |ages: &[u64]| {
            let now = UnixMillis::new(1_800_000_000_000);
            let numbers = |age: &u64| Numbers {
                ready: 1,
                oldest_ready: Some(UnixMillis::new(now.get() - age * 1000)),
                ..Numbers::default()
            };
            let topics = ages.iter().enumerate();
            let topics = topics.map(|(n, age)| (Topic::new(format!("t{n}")).unwrap(), numbers(age)));
            Look {
                now: Some(now),
                shards: Some(Shards::default()),
                topics: topics.collect(),
                ..Look::default()
            }
        };
        for (ages, status, found) in [
            (&[][..], Status::Ok, "no message waits for a consumer"),
            (&[299], Status::Ok, "the oldest ready message of t0 has waited for 4m 59s"),
            (&[7, 300], Status::Warning, "the oldest ready message of t1 has waited for 5m"),
            (
                &[300, 3600],
                Status::Critical,
                "the oldest ready message of t1 has waited for 1h, that of another topic too long as well",
            ),
            (
                &[400; 9],
                Status::Warning,
                "the oldest ready message of t8 has waited for 6m 40s, those of 8 more topics too long as well",
            ),
        ] {
            let judged = ready_age(&look(ages), LIMITS.ready_age);
            assert_eq!((judged.status, judged.found.as_str()), (status, found));
        }
        assert_eq!(ready_age(&look(&[90_000]), (None, None)).status, Status::Ok, "switched off");
    }

    #[test]
    fn timers_that_are_missing_are_critical_and_an_etcd_that_is_silent_is_a_warning() {
        let fleet = |members, unplanned| Some(Ok(Fleet { members, unplanned, drained: 0 }));
        let drained = |members, drained| Some(Ok(Fleet { members, unplanned: 0, drained }));
        let four = || Shards { count: 4, ..Shards::default() };
        for (shards, fleet, status) in [
            (four(), None, Status::Ok),
            (Shards { unheard: Some(1), ..four() }, None, Status::Critical),
            (Shards { unowned: 1, ..four() }, fleet(1, 0), Status::Critical),
            (Shards { held: 1, ..four() }, fleet(1, 0), Status::Critical),
            (four(), fleet(2, 0), Status::Ok),
            (four(), fleet(2, 1), Status::Warning),
            (four(), fleet(0, 4), Status::Critical),
            (four(), drained(2, 1), Status::Ok),
            (four(), drained(2, 2), Status::Critical),
            (four(), Some(Err("no answer".to_owned())), Status::Warning),
        ] {
            assert_eq!(timers(&shards, fleet.as_ref()).status, status, "{shards:?} {fleet:?}");
        }
    }

    #[test]
    fn what_is_known_to_be_wrong_comes_before_what_is_not_known() {
        let one = |status| Judged::new(status, "x", "");
        assert_eq!(worst(&[one(Status::Unknown), one(Status::Warning)]), Status::Unknown);
        assert_eq!(worst(&[one(Status::Unknown), one(Status::Critical)]), Status::Critical);
        assert_eq!(worst(&[]), Status::Unknown);
    }
}
