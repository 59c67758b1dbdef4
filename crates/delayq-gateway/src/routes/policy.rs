//! The policy of a topic, in the words of `delayq topic show`.

use super::answer::{Answer, counted, json as answer};
use crate::input::Ask;
use crate::problem::Problem;
use crate::state::Scope;
use axum::http::StatusCode;
use delayq::Topic;
use delayq::admin::{Form, Policy, PolicySetting};
use delayq_service::json::policy as json_of;
use delayq_service::policy_text::policy_of;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A null stands for the default.
type GivenSettings = BTreeMap<String, Value>;

pub(super) async fn get(ask: Ask) -> Answer {
    shown(&ask.scope, &ask.topic()?).await
}

pub(super) async fn set(ask: Ask) -> Answer {
    let (topic, scope) = (ask.topic()?, ask.scope.clone());
    let given = ask.json::<GivenSettings>().await?;
    let (policy, _) = read(&given)?;
    scope.set_policy(&topic, &policy).await?;
    Ok(counted((shown(&scope, &topic).await?, 0), Some(json!(given))))
}

pub(super) async fn change(ask: Ask) -> Answer {
    let (topic, scope) = (ask.topic()?, ask.scope.clone());
    let given = ask.json::<GivenSettings>().await?;
    let (policy, reset) = read(&given)?;
    scope.change_policy(&topic, &policy, &reset).await?;
    Ok(counted((shown(&scope, &topic).await?, 0), Some(json!(given))))
}

async fn shown(scope: &Scope, topic: &Topic) -> Answer {
    Ok(answer(StatusCode::OK, &json_of(&scope.policy(topic).await?)))
}

/// The second value has the settings that are null.
fn read(settings: &GivenSettings) -> Result<(Policy, Vec<PolicySetting>), Problem> {
    let (mut set, mut reset) = (BTreeMap::new(), Vec::new());
    for (name, value) in settings {
        let known = PolicySetting::ALL.into_iter().find(|setting| setting.name().replace('-', "_") == *name);
        let known = known.ok_or_else(|| Problem::invalid(name, "unknown setting"))?;
        let text = match value {
            Value::Null => {
                reset.push(known);
                continue;
            }
            Value::String(text) if text.is_empty() => {
                return Err(Problem::invalid(name, "is empty: null returns a setting to its default"));
            }
            Value::String(text) => text.clone(),
            Value::Number(number) if matches!(known.entry().form, Form::Count { .. }) => number.to_string(),
            Value::Number(_) => return Err(Problem::invalid(name, "must be a string, such as \"30s\"")),
            _ => return Err(Problem::invalid(name, "must be a string or a number")),
        };
        let one = BTreeMap::from([(known.name().to_owned(), text.clone())]);
        policy_of(&one).map_err(|why| Problem::invalid(name, why))?;
        set.insert(known.name().to_owned(), text);
    }
    let policy = policy_of(&set).map_err(|why| Problem::invalid("policy", why))?;
    Ok((policy, reset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_taken_as_it_is_shown() {
        let shown: GivenSettings = serde_json::from_value(json_of(&Policy::default())).unwrap();
        let (policy, reset) = read(&shown).unwrap();
        assert_eq!((policy.in_force(), reset), (Policy::default().in_force(), vec![]));
        let settings: GivenSettings =
            serde_json::from_value(json!({ "lease": "90s", "max_attempts": 3, "history": null })).unwrap();
        let (policy, reset) = read(&settings).unwrap();
        assert_eq!((policy.max_attempts, policy.lease.unwrap().as_secs()), (Some(3), 90));
        assert_eq!(reset, [PolicySetting::History]);
        for odd in [
            json!({ "lese": "1s" }),
            json!({ "lease": "soon" }),
            json!({ "lease": [1] }),
            json!({ "lease": 0 }),
            json!({ "codec": "" }),
        ] {
            assert!(read(&serde_json::from_value(odd).unwrap()).is_err());
        }
    }
}
