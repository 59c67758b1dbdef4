//! The settings of a policy as text: as operators write and read them, and as a backup carries them.

use crate::config::{HumanDuration, backoff, backoff_text};
use delayq::admin::{Form, Policy, PolicySetting};
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
    let setting = PolicySetting::ALL.into_iter().find(|setting| setting.name() == name);
    set_one(policy, setting.ok_or("unknown setting")?, value)
}

/// Sets one setting to a value as operators write it.
///
/// # Errors
/// A sentence about a value that is invalid.
pub fn set_one(policy: &mut Policy, setting: PolicySetting, value: &str) -> Result<(), String> {
    let stored = match setting.entry().form {
        Form::Span { .. } => {
            let span = Duration::from(value.parse::<HumanDuration>()?);
            span.as_millis().to_string().into_bytes()
        }
        Form::Backoff => backoff(value)?.encode(),
        _ => value.as_bytes().to_vec(),
    };
    policy.set(setting, &stored)
}

/// A setting as `set_one` takes it; `None`: at its default.
pub fn text(policy: &Policy, setting: PolicySetting) -> Option<String> {
    let stored = policy.stored(setting)?;
    let plain = String::from_utf8_lossy(&stored);
    Some(match setting.entry().form {
        Form::Span { .. } => {
            let ms = plain.parse().expect("a duration is stored as a number");
            HumanDuration::from(Duration::from_millis(ms)).to_string()
        }
        Form::Backoff => backoff_text(policy.backoff.as_ref().expect("the policy has a back-off")),
        _ => plain.into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_read_back_as_it_was_written() {
        let mut policy = Policy::default();
        for setting in PolicySetting::ALL {
            let value = match setting.entry().form {
                Form::Count { .. } => "5",
                Form::Span { .. } => "1day 1h 1m 1s 500ms",
                Form::Backoff => "1s,5s,1m",
                Form::Word(words) => &words[words.len() - 1]
                    .replace("[1-9]", "2")
                    .replace("[0-9]{1,10}", "7")
                    .replace("[0-9]{0,6}", "7")
                    .replace("[smh]", "m"),
                Form::Flag | Form::Rate { .. } => unreachable!("no setting of a policy is one"),
            };
            let value = if setting == PolicySetting::Lease { "1m 30s 500ms" } else { value };
            set_one(&mut policy, setting, value).unwrap();
            assert_eq!(text(&policy, setting).as_deref(), Some(value));
        }
        let settings = settings_of(&policy);
        assert_eq!((settings.len(), policy_of(&settings)), (PolicySetting::ALL.len(), Ok(policy)));
        assert_eq!(policy_of(&settings_of(&Policy::default())), Ok(Policy::default()));
        for (name, value) in [("lease", "soon"), ("lese", "1s"), ("codec", "lzma"), ("max-attempts", "70000")]
        {
            let fault = policy_of(&BTreeMap::from([(name.to_owned(), value.to_owned())])).unwrap_err();
            assert!(fault.starts_with(&format!("{name} = ")), "{fault}");
        }
    }

    #[test]
    fn the_default_in_the_table_is_the_one_in_force() {
        let policy = Policy::default().in_force();
        for setting in PolicySetting::ALL {
            assert_eq!(
                text(&policy, setting).as_deref(),
                Some(setting.entry().default),
                "{}",
                setting.name()
            );
        }
    }
}
