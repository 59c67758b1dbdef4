//! A topic's policy: changing some settings, and showing all settings.

use crate::deployment::Context;
use crate::failure::{SERVER_UNFIT, UNKNOWN, of_core, unknown, usage};
use crate::output::complain;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use delayq::Topic;
use delayq::admin::{Admin, Durability, Form, Policy, PolicySetting, Setting};
use delayq_service::Fault;
pub(in crate::commands) use delayq_service::json::policy as json_of;
use delayq_service::policy_text::{set_one, text};
use serde_json::json;
use std::time::Duration;

/// The shortest lease that the command line sets: a worker extends a lease three times within the lease's length.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);

/// Changes of a policy on the command line.
#[derive(Debug, Args)]
pub(super) struct Set {
    /// The topic
    topic: Topic,
    /// Create the topic if it does not exist
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    changes: Changes,
    /// Reset this setting to its default, or "all" of them; may be repeated
    #[arg(long, value_name = "SETTING", value_parser = reset)]
    reset: Vec<Reset>,
}

/// An option for each setting of a policy.
#[derive(Clone, Debug, Default)]
struct Changes(Policy);

/// The settings that `--reset` names.
#[derive(Clone, Copy, Debug)]
enum Reset {
    All,
    One(PolicySetting),
}

// === impl Set ===

impl Set {
    /// Changes the policy, and prints the whole policy with the changes.
    pub(super) async fn run(self, context: &Context) -> Result<(), Fault> {
        let (set, reset) = (&self.changes.0, self.resets());
        if reset.is_empty() && *set == Policy::default() {
            return Err(usage("nothing to set: name a setting, or --reset one"));
        }
        if let Some(both) = reset.iter().find(|&&setting| !self.resets_all() && text(set, setting).is_some())
        {
            return Err(usage(format!("{} is both set and reset", both.name())));
        }
        if !self.create {
            context.known_topic(&self.topic).await.map_err(or_create)?;
        }
        let (admin, topic) = (context.admin(), &self.topic);
        if let Some(durability) = set.durability {
            confirmed(&admin, durability).await?;
        }
        let before = admin.topic(topic).policy().await.map_err(of_core)?;
        admin.topic(topic).change_policy(set, &reset).await.map_err(of_core)?;
        let after = admin.topic(topic).policy().await.map_err(of_core)?;
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
}

// === impl Changes ===

impl Args for Changes {
    fn augment_args(command: Command) -> Command {
        let option = |setting: PolicySetting| {
            let one = Arg::new(setting.name())
                .long(setting.name())
                .value_name(placeholder(setting))
                .help(help(setting));
            one.value_parser(move |value: &str| changed(setting, value))
        };
        command.args(PolicySetting::ALL.map(option))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Changes {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut changes = Self::default();
        changes.update_from_arg_matches(matches)?;
        Ok(changes)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for setting in PolicySetting::ALL {
            let given = matches.get_one::<Policy>(setting.name()).and_then(|given| given.stored(setting));
            given
                .map_or(Ok(()), |stored| self.0.set(setting, &stored))
                .map_err(|why| clap::Error::raw(clap::error::ErrorKind::ValueValidation, why))?;
        }
        Ok(())
    }
}

const fn placeholder(setting: PolicySetting) -> &'static str {
    match setting.entry().form {
        Form::Count { .. } => "COUNT",
        Form::Span { .. } => "DURATION",
        Form::Backoff => "BACKOFF",
        _ => "WORD",
    }
}

fn help(setting: PolicySetting) -> String {
    let &Setting { means, default, range, form, .. } = setting.entry();
    let range = match (setting, form) {
        (PolicySetting::Lease, _) => " (1s to 1day)",
        (_, Form::Backoff) => ": 10s (fixed), 1s..10m (exponential), 1s,5s,1m (a list)",
        (_, _) if range.is_empty() => "",
        _ => &format!(" ({range})"),
    };
    format!("{means}{range}. Default {default}")
}

/// A policy with this setting alone.
fn changed(setting: PolicySetting, value: &str) -> Result<Policy, String> {
    let mut policy = Policy::default();
    set_one(&mut policy, setting, value)?;
    match policy.lease {
        Some(lease) if lease < SHORTEST_LEASE => Err("a lease lasts 1s to 1day".to_owned()),
        _ => Ok(policy),
    }
}

/// Suggests `--create`, because a missing topic may be created with a policy.
fn or_create(fault: Fault) -> Fault {
    match fault.code() == &UNKNOWN {
        true => unknown(format!("{}; for a new topic, add --create", fault.message())),
        false => fault,
    }
}

/// Refuses a durability that a Redis can never confirm; complains about a durability that cannot be confirmed now.
async fn confirmed(admin: &Admin, durability: Durability) -> Result<(), Fault> {
    for node in admin.nodes().check().await.map_err(of_core)? {
        let Err(why) = node.facts.confirms(durability) else { continue };
        let found = format!("{} cannot confirm {durability}: {why}", node.address);
        match durability {
            Durability::Replicas(_) => {
                complain(&format!(
                    "{found}; until more replicas confirm, the outcome of this topic's writes is unknown"
                ));
            }
            Durability::Memory | Durability::Disk => {
                let repair = format!("{found}; fix that first, or choose replica:N or memory");
                return Err(Fault::new(&SERVER_UNFIT, repair));
            }
        }
    }
    Ok(())
}

/// A setting in force, marked if at the default.
pub(super) fn in_force(policy: &Policy, setting: PolicySetting) -> String {
    let value = text(&policy.in_force(), setting).unwrap_or_default();
    if text(policy, setting).is_some() { value } else { format!("{value} (default)") }
}

fn reset(text: &str) -> Result<Reset, String> {
    if text == "all" {
        return Ok(Reset::All);
    }
    let found = PolicySetting::ALL.into_iter().find(|setting| setting.name() == text);
    found.map(Reset::One).ok_or_else(|| {
        let names: Vec<&str> = PolicySetting::ALL.into_iter().map(PolicySetting::name).collect();
        format!("must be all, or one of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq::Backoff;
    use delayq_service::config::{backoff, backoff_text};

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
        let lease = |text: &str| changed(PolicySetting::Lease, text);
        assert!(lease("1s").is_ok() && lease("1day").is_ok());
        assert!(["0s", "999ms", "25h"].iter().all(|bad| lease(bad).is_err()));
        assert!(matches!(reset("lease"), Ok(Reset::One(PolicySetting::Lease))));
        assert!(matches!(reset("all"), Ok(Reset::All)));
        assert!(reset("leese").unwrap_err().contains("max-attempts, lease"));
    }
}
