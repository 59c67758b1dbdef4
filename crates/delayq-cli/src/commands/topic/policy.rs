//! A topic's policy: changing some of its settings, and showing all of them.

use crate::deployment::Context;
use crate::failure::{SERVER_UNFIT, UNKNOWN, of_core, unknown, usage};
use crate::output::complain;
use clap::Args;
use delayq::admin::{Admin, Codec, Durability, Policy, PolicySetting, Repeats};
use delayq::{Backoff, Topic};
use delayq_service::Fault;
use delayq_service::config::{HumanDuration, backoff};
pub(in crate::commands) use delayq_service::json::policy as json_of;
use delayq_service::policy_text::text;
use serde_json::json;
use std::time::Duration;

/// The shortest lease that the command line sets: a worker extends its leases three times in each.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);
const LONGEST_LEASE: Duration = Duration::from_secs(24 * 3600);

/// Changes of a policy on the command line.
#[derive(Debug, Args)]
pub(super) struct Set {
    /// The topic
    topic: Topic,
    /// Create the topic if it does not exist
    #[arg(long)]
    create: bool,
    /// The maximum number of attempts; 0 for no limit. Default 16
    #[arg(long, value_name = "COUNT")]
    max_attempts: Option<u16>,
    /// How long a lease lasts: 1s to 1day. Default 30s
    #[arg(long, value_name = "DURATION", value_parser = lease)]
    lease: Option<HumanDuration>,
    /// Back-off before another attempt: 10s (fixed), 1s..10m (exponential), 1s,5s,1m (a list). Default 1s..10m
    #[arg(long, value_parser = backoff)]
    backoff: Option<Backoff>,
    /// How long after its due time a message expires. Default 0s: never
    #[arg(long, value_name = "DURATION")]
    expire_after: Option<HumanDuration>,
    /// How long a cancelled id is kept for deduplication. Default 1h
    #[arg(long, value_name = "DURATION")]
    remember_cancelled: Option<HumanDuration>,
    /// How long a finished id of the producer's own is kept for deduplication. Default 1m
    #[arg(long, value_name = "DURATION")]
    remember_own: Option<HumanDuration>,
    /// How long a finished generated id is kept for deduplication. Default not at all
    #[arg(long, value_name = "DURATION")]
    remember_generated: Option<HumanDuration>,
    /// What to do with a repeated put whose first attempt may have finished and been forgotten: deliver (perhaps twice) or
    /// refuse (perhaps never). Default deliver
    #[arg(long)]
    repeats: Option<Repeats>,
    /// How payloads are compressed: none, zstd, or zstd:ID of a dictionary. Default none
    #[arg(long)]
    codec: Option<Codec>,
    /// About how many events of its messages each shard keeps for delayq log: at most 100000; 0 for none. Default none
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    history: Option<u32>,
    /// How long a history is kept: at least 1s. Default 7days
    #[arg(long, value_name = "DURATION", value_parser = history_for)]
    history_for: Option<HumanDuration>,
    /// How long a dead letter is kept; sweeps delete older ones. Default 0s: until it is purged or replayed
    #[arg(long, value_name = "DURATION")]
    dead_for: Option<HumanDuration>,
    /// How many dead letters each shard keeps; sweeps delete the oldest beyond that. Default 0: all
    #[arg(long, value_name = "COUNT")]
    dead_max: Option<u32>,
    /// What the answers to puts, cancels and reschedules wait for: memory (nothing), disk (the master's append-only file,
    /// synced; needs Redis 7.2), or replica:N (N replicas have them). Default memory
    #[arg(long)]
    durability: Option<Durability>,
    /// Reset this setting to its default, or "all" of them; may be repeated
    #[arg(long, value_name = "SETTING", value_parser = reset)]
    reset: Vec<Reset>,
}

/// What `--reset` names.
#[derive(Clone, Copy, Debug)]
enum Reset {
    All,
    One(PolicySetting),
}

// === impl Set ===

impl Set {
    /// Changes the policy, and prints it whole with what changed.
    pub(super) async fn run(self, context: &Context) -> Result<(), Fault> {
        let (set, reset) = (self.policy(), self.resets());
        if reset.is_empty() && set == Policy::default() {
            return Err(usage("nothing to set; name a setting, or --reset one"));
        }
        if let Some(both) = reset.iter().find(|&&setting| !self.resets_all() && text(&set, setting).is_some())
        {
            return Err(usage(format!("{} is both set and reset", both.name())));
        }
        if !self.create {
            context.known_topic(&self.topic).await.map_err(or_create)?;
        }
        let (admin, topic) = (context.admin(), &self.topic);
        if let Some(durability) = self.durability {
            confirmed(&admin, durability).await?;
        }
        let before = admin.policy(topic).await.map_err(of_core)?;
        admin.change_policy(topic, &set, &reset).await.map_err(of_core)?;
        let after = admin.policy(topic).await.map_err(of_core)?;
        let value = json!({ "topic": topic, "policy": json_of(&after), "before": json_of(&before) });
        context.output.print(&value, || {
            let mut rows = context.output.rows(&["setting", "value", "before"]);
            for setting in PolicySetting::ALL {
                let (old, new) = (in_force(&before, setting), in_force(&after, setting));
                let old = if old == new { String::new() } else { old };
                rows.row([setting.name().to_owned(), new, old]);
            }
            rows.text()
        })
    }

    fn resets_all(&self) -> bool {
        self.reset.iter().any(|reset| matches!(reset, Reset::All))
    }

    fn resets(&self) -> Vec<PolicySetting> {
        if self.resets_all() {
            return PolicySetting::ALL.to_vec();
        }
        let one = |reset: &Reset| if let Reset::One(setting) = reset { Some(*setting) } else { None };
        self.reset.iter().filter_map(one).collect()
    }

    fn policy(&self) -> Policy {
        let span = |span: Option<HumanDuration>| span.map(Duration::from);
        Policy {
            max_attempts: self.max_attempts,
            lease: span(self.lease),
            backoff: self.backoff.clone(),
            expire_after: span(self.expire_after),
            remember_cancelled: span(self.remember_cancelled),
            remember_own: span(self.remember_own),
            remember_generated: span(self.remember_generated),
            repeats: self.repeats,
            codec: self.codec,
            history: self.history,
            history_for: span(self.history_for),
            dead_for: span(self.dead_for),
            dead_max: self.dead_max,
            durability: self.durability,
        }
    }
}

/// A topic that is not there may be created with its policy.
fn or_create(fault: Fault) -> Fault {
    match fault.code() == &UNKNOWN {
        true => unknown(format!("{}; for a new topic, add --create", fault.message())),
        false => fault,
    }
}

/// Refuses a durability that a Redis can never confirm; says so where it cannot now.
async fn confirmed(admin: &Admin, durability: Durability) -> Result<(), Fault> {
    for node in admin.check_nodes().await.map_err(of_core)? {
        let Err(why) = node.facts.confirms(durability) else { continue };
        let found = format!("{} cannot confirm {durability}: {why}", node.address);
        match durability {
            Durability::Replicas(_) => {
                complain(&format!("{found}; until more do, answers to this topic's writes are unknown"));
            }
            Durability::Memory | Durability::Disk => {
                let repair = format!("{found}; repair that first, or choose replica:N or memory");
                return Err(Fault::new(&SERVER_UNFIT, repair));
            }
        }
    }
    Ok(())
}

/// A setting as it is in force, and whether that is its default.
pub(super) fn in_force(policy: &Policy, setting: PolicySetting) -> String {
    let value = text(&policy.in_force(), setting).unwrap_or_default();
    if text(policy, setting).is_some() { value } else { format!("{value} (default)") }
}

fn lease(text: &str) -> Result<HumanDuration, String> {
    let lease: HumanDuration = text.parse()?;
    match (SHORTEST_LEASE..=LONGEST_LEASE).contains(&*lease) {
        true => Ok(lease),
        false => Err("a lease lasts 1s to 1day".to_owned()),
    }
}

fn history_for(text: &str) -> Result<HumanDuration, String> {
    let span: HumanDuration = text.parse()?;
    match *span >= Duration::from_secs(1) {
        true => Ok(span),
        false => Err("a history is kept for at least 1s".to_owned()),
    }
}

fn reset(text: &str) -> Result<Reset, String> {
    if text == "all" {
        return Ok(Reset::All);
    }
    let found = PolicySetting::ALL.into_iter().find(|setting| setting.name() == text);
    found.map(Reset::One).ok_or_else(|| {
        let names: Vec<&str> = PolicySetting::ALL.into_iter().map(PolicySetting::name).collect();
        format!("write all, or one of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq_service::config::backoff_text;

    #[test]
    fn a_policy_is_shown_as_it_is_set_with_its_defaults_named() {
        let list = Backoff::List([1, 5, 60].map(Duration::from_secs).to_vec());
        let policy =
            Policy { lease: Some(Duration::from_secs(90)), backoff: Some(list.clone()), ..Policy::default() };
        assert_eq!(text(&policy, PolicySetting::Backoff).as_deref().map(backoff), Some(Ok(list)));
        assert_eq!(in_force(&policy, PolicySetting::Lease), "1m 30s");
        assert_eq!(in_force(&policy, PolicySetting::Codec), "none (default)");
        let day = Policy { remember_own: Some(Duration::from_secs(90_061)), ..Policy::default() };
        assert_eq!(in_force(&day, PolicySetting::RememberOwn), "1day 1h 1m 1s");
        assert_eq!(json_of(&policy)["remember_own"], "1m");
        let exponential = backoff("1s..10m").unwrap();
        assert_eq!(backoff(&backoff_text(&exponential)), Ok(exponential));
    }

    #[test]
    fn a_lease_has_a_sensible_least_and_a_reset_a_name() {
        assert!(lease("1s").is_ok() && lease("1day").is_ok());
        assert!(["0s", "999ms", "25h"].iter().all(|bad| lease(bad).is_err()));
        assert!(matches!(reset("lease"), Ok(Reset::One(PolicySetting::Lease))));
        assert!(matches!(reset("all"), Ok(Reset::All)));
        assert!(reset("leese").unwrap_err().contains("max-attempts, lease"));
    }
}
