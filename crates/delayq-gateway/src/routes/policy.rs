//! The policy of a topic, in the words of `delayq topic show`.

use super::answer::{Answer, counted, hash, tagged, typed};
use crate::input::Ask;
use crate::problem::{Kind, Problem};
use crate::state::Scope;
use axum::http::{HeaderValue, StatusCode, header};
use delayq::Topic;
use delayq::admin::{Form, Policy, PolicySetting};
use delayq_service::json::policy as json_of;
use delayq_service::policy_text::policy_of;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A null stands for the default.
type GivenSettings = BTreeMap<String, Value>;

pub(super) async fn get(ask: Ask) -> Answer {
    let text = text(&ask.scope, &ask.topic()?).await?;
    tagged(&ask, &tag(&text), text)
}

pub(super) async fn set(ask: Ask) -> Answer {
    let (topic, scope, expected) = (ask.topic()?, ask.scope.clone(), expected(&ask)?);
    let given = ask.json::<GivenSettings>().await?;
    let (policy, _) = read(&given)?;
    must_be(&scope, &topic, expected).await?;
    scope.set_policy(&topic, &policy).await?;
    changed(&scope, &topic, &given).await
}

pub(super) async fn change(ask: Ask) -> Answer {
    let (topic, scope, expected) = (ask.topic()?, ask.scope.clone(), expected(&ask)?);
    let given = ask.json::<GivenSettings>().await?;
    let (policy, reset) = read(&given)?;
    must_be(&scope, &topic, expected).await?;
    scope.change_policy(&topic, &policy, &reset).await?;
    changed(&scope, &topic, &given).await
}

async fn changed(scope: &Scope, topic: &Topic, given: &GivenSettings) -> Answer {
    let text = text(scope, topic).await?;
    let tag = HeaderValue::from_str(&tag(&text)).expect("it is hex");
    let mut response = typed(StatusCode::OK, "application/json", text);
    response.headers_mut().insert(header::ETAG, tag);
    Ok(counted((response, 0), Some(json!(given))))
}

async fn text(scope: &Scope, topic: &Topic) -> Result<String, Problem> {
    Ok(json_of(&scope.policy(topic).await?).to_string())
}

fn tag(text: &str) -> String {
    format!("\"{}\"", hash(text))
}

/// `If-Match`. `None`: without, or for any policy.
fn expected(ask: &Ask) -> Result<Option<String>, Problem> {
    let tags = ask.header("if-match")?.map(str::trim).filter(|tags| *tags != "*");
    Ok(tags.map(str::to_owned))
}

/// Each shard has the policy, so nothing prevents a change between this look and the write.
async fn must_be(scope: &Scope, topic: &Topic, expected: Option<String>) -> Result<(), Problem> {
    let Some(tags) = expected else { return Ok(()) };
    let now = tag(&text(scope, topic).await?);
    match tags.split(',').any(|one| one.trim() == now) {
        true => Ok(()),
        false => Err(Problem::outcome(
            Kind::Changed,
            json!({ "outcome": "changed", "tag": now.trim_matches('"') }),
        )),
    }
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
