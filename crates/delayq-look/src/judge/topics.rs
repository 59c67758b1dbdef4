//! The topics: ready messages, dead letters and durability.

use super::causes::{DEAD_LETTERS, READY_MANY, READY_OLD, TOPICS_UNREAD, UNCONFIRMABLE};
use super::limits::verdict;
use super::{Cause, Check, Judgement, Limits, Pair};
use crate::look::{Look, Servers, Topics};
use crate::phrase::{counted, duration};
use delayq::admin::{Durability, NodeFacts, Numbers};
use delayq::{Error, UnixMillis};
use std::time::Duration;

pub(super) fn judge(look: &Look, topics: &Result<Topics, Error>, limits: &Limits) -> Vec<Check> {
    let topics = match topics {
        Ok(topics) => topics,
        Err(error) => return vec![TOPICS_UNREAD.found(error.to_string(), []).with("why", error.to_string())],
    };
    let mut checks = vec![
        ready_age(topics, look.now(), limits.ready_age),
        most(topics, &READY_MANY, limits.ready, |numbers| numbers.ready),
        most(topics, &DEAD_LETTERS, limits.dead, |numbers| numbers.dead),
    ];
    if let Some(Ok(servers)) = &look.servers {
        checks.extend(durability(servers, topics));
    }
    checks
}

fn ready_age(topics: &Topics, now: UnixMillis, limits: Pair) -> Check {
    let judged = |age: Duration| verdict(age.as_secs_f64(), limits);
    let Some((topic, age)) = topics.ready_ages(now).max_by_key(|(_, age)| *age) else {
        return Check::good(READY_OLD.what, "no message waits for a consumer");
    };
    let paused = if topics.numbers[topic].paused > 0 { ", which is paused," } else { "" };
    let numbers = &topics.numbers[topic];
    let held = match (numbers.full_groups, numbers.paused_groups, numbers.blocking) {
        (0, 0, 0) => String::new(),
        (_, 0, blocking @ 1..) => format!("; groups blocked by {}", counted(blocking, "failed message")),
        (full, 0, 0) => format!("; {} of messages held by their group", counted(full, "group")),
        (_, paused, _) => format!("; {} paused", counted(paused, "group")),
    };
    let waits = format!("the oldest ready message of {topic}{paused} has waited for {}{held}", duration(age));
    let too_old = topics.ready_ages(now).filter(|(_, age)| judged(*age) != Judgement::Good).count();
    let found = match too_old.saturating_sub(1) {
        0 => waits,
        1 => format!("{waits}; another topic is also over the limit"),
        others => format!("{waits}; {others} more topics are also over the limit"),
    };
    let values = [topic.as_str().into(), (age.as_millis() as u64).into()];
    let mut check = READY_OLD.judged(judged(age), found, values);
    if check.verdict != Judgement::Good {
        let extras = [
            ("paused", u64::from(numbers.paused)),
            ("full_groups", numbers.full_groups),
            ("paused_groups", numbers.paused_groups),
            ("more", too_old.saturating_sub(1) as u64),
        ];
        for (name, count) in extras.into_iter().filter(|(_, count)| *count > 0) {
            check = check.with(name, count);
        }
    }
    check
}

fn most(topics: &Topics, cause: &Cause, limits: Pair, of: impl Fn(&Numbers) -> u64) -> Check {
    let what = cause.what;
    match topics.numbers.iter().max_by_key(|(_, numbers)| of(numbers)) {
        Some((topic, numbers)) if of(numbers) > 0 => {
            let most = of(numbers);
            let counted = counted(most, what.trim_end_matches('s'));
            let values = [most.into(), topic.as_str().into()];
            cause.judged(verdict(most as f64, limits), format!("{counted} in {topic}"), values)
        }
        _ => Check::good(what, format!("no {what}")),
    }
}

/// If no topic asks for more than a node can confirm, one good check for all topics that ask.
fn durability(servers: &Servers, topics: &Topics) -> Vec<Check> {
    let policies = topics.policies.iter();
    let asked = policies.filter_map(|(topic, policy)| Some((topic, policy.durability?)));
    let asked: Vec<_> = asked.filter(|(_, durability)| *durability != Durability::Memory).collect();
    let nodes: Vec<&NodeFacts> = servers.nodes.iter().flatten().collect();
    let missing = asked.iter().filter_map(|(topic, durability)| {
        let why = |node: &&NodeFacts| {
            node.facts.confirms(*durability).err().map(|why| format!("{why} at {}", node.address))
        };
        let each: Vec<String> = nodes.iter().filter_map(why).collect();
        let found = format!("{topic} asks for {durability}: {}", each.join("; "));
        let advice = UNCONFIRMABLE.advice.replace("TOPIC", topic.as_str());
        let values = [topic.as_str().into(), durability.to_string().into()];
        (!each.is_empty())
            .then(|| UNCONFIRMABLE.found(found, values).advising(advice).with("why", each.join("; ")))
    });
    let bad: Vec<Check> = missing.collect();
    if !bad.is_empty() || asked.is_empty() {
        return bad;
    }
    let each: Vec<String> = asked.iter().map(|(topic, durability)| format!("{topic} {durability}")).collect();
    let guarded = nodes.iter().all(|node| node.facts.min_replicas_seen.is_some());
    let guard = if guarded { "set" } else { "not set" };
    let found = format!("{}; min-replicas-to-write is {guard}", each.join(", "));
    vec![Check::good(UNCONFIRMABLE.what, found)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq::Topic;
    use std::collections::BTreeMap;

    const LIMITS: Pair = (Some(300.0), Some(3600.0));
    const NOW: UnixMillis = UnixMillis::new(1_800_000_000_000);

    fn topics(ages: &[u64]) -> Topics {
        let numbers = |age: &u64| Numbers {
            ready: 1,
            oldest_ready: Some(UnixMillis::new(NOW.get() - age * 1000)),
            ..Numbers::default()
        };
        let topics = ages.iter().enumerate();
        let topics = topics.map(|(n, age)| (Topic::new(format!("t{n}")).unwrap(), numbers(age)));
        Topics { numbers: topics.collect(), ..Topics::default() }
    }

    #[test]
    fn topics_that_nobody_works_on_are_not_ok() {
        for (ages, judgement, found) in [
            (&[][..], Judgement::Good, "no message waits for a consumer"),
            (&[299], Judgement::Good, "the oldest ready message of t0 has waited for 4m 59s"),
            (&[7, 300], Judgement::Warning, "the oldest ready message of t1 has waited for 5m"),
            (
                &[300, 3600],
                Judgement::Bad,
                "the oldest ready message of t1 has waited for 1h; another topic is also over the limit",
            ),
            (
                &[400; 9],
                Judgement::Warning,
                "the oldest ready message of t8 has waited for 6m 40s; 8 more topics are also over the limit",
            ),
        ] {
            let judged = ready_age(&topics(ages), NOW, LIMITS);
            assert_eq!((judged.verdict, judged.found.as_str()), (judgement, found));
        }
        let off = ready_age(&topics(&[90_000]), NOW, (None, None));
        assert_eq!(off.verdict, Judgement::Good, "switched off");
    }

    #[test]
    fn groups_that_hold_old_messages_are_counted() {
        for (full_groups, paused_groups, blocking, held) in [
            (0, 0, 0, ""),
            (2, 0, 0, "; 2 groups of messages held by their group"),
            (2, 1, 0, "; 1 group paused"),
            (2, 0, 3, "; groups blocked by 3 failed messages"),
        ] {
            let mut topics = topics(&[300]);
            let numbers = topics.numbers.values_mut().next().unwrap();
            (numbers.full_groups, numbers.paused_groups, numbers.blocking) =
                (full_groups, paused_groups, blocking);
            let found = ready_age(&topics, NOW, LIMITS).found;
            assert_eq!(found, format!("the oldest ready message of t0 has waited for 5m{held}"));
        }
    }

    #[test]
    fn ready_messages_and_dead_letters_are_judged_by_the_topic_that_has_the_most() {
        let numbers = |ready, dead| Numbers { ready, dead, ..Numbers::default() };
        let [a, b] = ["a", "b"].map(|name| Topic::new(name).unwrap());
        let topics = Topics {
            numbers: BTreeMap::from([(a, numbers(9, 1)), (b, numbers(10, 0))]),
            ..Topics::default()
        };
        let ready = |limits| most(&topics, &READY_MANY, limits, |numbers| numbers.ready);
        let dead = |limits| most(&topics, &DEAD_LETTERS, limits, |numbers| numbers.dead);
        for (judged, judgement, found) in [
            (ready((Some(11.0), None)), Judgement::Good, "10 ready messages in b"),
            (ready((Some(10.0), None)), Judgement::Warning, "10 ready messages in b"),
            (dead((None, Some(1.0))), Judgement::Bad, "1 dead letter in a"),
            (dead((None, None)), Judgement::Good, "1 dead letter in a"),
        ] {
            assert_eq!((judged.verdict, judged.found.as_str()), (judgement, found));
        }
    }
}
