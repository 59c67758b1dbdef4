//! The settings of a policy as text: as operators write and read them, and as a backup carries them.

use crate::config::{HumanDuration, backoff, backoff_text};
use delayq::admin::{Policy, PolicySetting};
use std::collections::BTreeMap;
use std::time::Duration;

/// The settings of a policy by name, without those at their defaults.
pub fn settings_of(policy: &Policy) -> BTreeMap<String, String> {
    let set = |setting: PolicySetting| Some((setting.name().to_owned(), text(policy, setting)?));
    PolicySetting::ALL.into_iter().filter_map(set).collect()
}

/// The policy with these settings.
///
/// # Errors
/// A sentence that names the setting that does not exist, or whose value is invalid.
pub fn policy_of(settings: &BTreeMap<String, String>) -> Result<Policy, String> {
    let mut policy = Policy::default();
    for (name, value) in settings {
        set(&mut policy, name, value).map_err(|fault| format!("{name} = {value:?}: {fault}"))?;
    }
    Ok(policy)
}

fn set(policy: &mut Policy, name: &str, value: &str) -> Result<(), String> {
    let span = || value.parse::<HumanDuration>().map(|span| Some(Duration::from(span)));
    match PolicySetting::ALL.into_iter().find(|setting| setting.name() == name) {
        Some(PolicySetting::MaxAttempts) => {
            policy.max_attempts = Some(value.parse().map_err(|_| "write a number up to 65535")?);
        }
        Some(PolicySetting::Lease) => policy.lease = span()?,
        Some(PolicySetting::Backoff) => policy.backoff = Some(backoff(value)?),
        Some(PolicySetting::ExpireAfter) => policy.expire_after = span()?,
        Some(PolicySetting::RememberCancelled) => policy.remember_cancelled = span()?,
        Some(PolicySetting::RememberOwn) => policy.remember_own = span()?,
        Some(PolicySetting::RememberGenerated) => policy.remember_generated = span()?,
        Some(PolicySetting::Repeats) => policy.repeats = Some(value.parse()?),
        Some(PolicySetting::History) => {
            policy.history = Some(value.parse().map_err(|error| format!("{error}"))?);
        }
        Some(PolicySetting::HistoryFor) => policy.history_for = span()?,
        Some(PolicySetting::DeadFor) => policy.dead_for = span()?,
        Some(PolicySetting::DeadMax) => {
            policy.dead_max = Some(value.parse().map_err(|error| format!("{error}"))?);
        }
        Some(PolicySetting::Codec) => {
            policy.codec = Some(value.parse().map_err(|error| format!("{error}"))?);
        }
        Some(PolicySetting::Durability) => policy.durability = Some(value.parse()?),
        None => return Err("there is no such setting".to_owned()),
    }
    Ok(())
}

/// A setting as `set` takes it; `None`: at its default.
pub fn text(policy: &Policy, setting: PolicySetting) -> Option<String> {
    let span = |span: Option<Duration>| span.map(exactly);
    match setting {
        PolicySetting::MaxAttempts => policy.max_attempts.map(|most| most.to_string()),
        PolicySetting::Lease => span(policy.lease),
        PolicySetting::Backoff => policy.backoff.as_ref().map(backoff_text),
        PolicySetting::ExpireAfter => span(policy.expire_after),
        PolicySetting::RememberCancelled => span(policy.remember_cancelled),
        PolicySetting::RememberOwn => span(policy.remember_own),
        PolicySetting::RememberGenerated => span(policy.remember_generated),
        PolicySetting::Repeats => policy.repeats.map(|repeats| repeats.to_string()),
        PolicySetting::Codec => policy.codec.map(|codec| codec.to_string()),
        PolicySetting::History => policy.history.map(|most| most.to_string()),
        PolicySetting::HistoryFor => span(policy.history_for),
        PolicySetting::DeadFor => span(policy.dead_for),
        PolicySetting::DeadMax => policy.dead_max.map(|most| most.to_string()),
        PolicySetting::Durability => policy.durability.map(|durability| durability.to_string()),
    }
}

/// A duration as it can be set again.
fn exactly(length: Duration) -> String {
    HumanDuration::from(length).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq::Backoff;
    use delayq::admin::{Codec, Durability, Repeats};

    #[test]
    fn every_setting_is_read_back_as_it_was_written() {
        let policy = Policy {
            max_attempts: Some(0),
            lease: Some(Duration::from_millis(90_500)),
            backoff: Some(Backoff::List([1, 5, 60].map(Duration::from_secs).to_vec())),
            expire_after: Some(Duration::from_secs(60)),
            remember_cancelled: Some(Duration::ZERO),
            remember_own: Some(Duration::from_secs(90_061)),
            remember_generated: Some(Duration::from_secs(1)),
            repeats: Some(Repeats::Refuse),
            codec: Some(Codec::ZstdDictionary(7)),
            history: Some(5),
            history_for: Some(Duration::from_secs(3600)),
            dead_for: Some(Duration::from_secs(86_400)),
            dead_max: Some(1_000),
            durability: Some(Durability::Replicas(2)),
        };
        let settings = settings_of(&policy);
        assert_eq!((settings.len(), policy_of(&settings)), (PolicySetting::ALL.len(), Ok(policy)));
        assert_eq!(policy_of(&settings_of(&Policy::default())), Ok(Policy::default()));
        for (name, value) in [("lease", "soon"), ("lese", "1s"), ("codec", "lzma"), ("max-attempts", "70000")]
        {
            let fault = policy_of(&BTreeMap::from([(name.to_owned(), value.to_owned())])).unwrap_err();
            assert!(fault.starts_with(&format!("{name} = ")), "{fault}");
        }
    }
}
