//! Checks of a topic: settings that lose acked records.

use crate::CheckError;
use delayq_service::brokers::{KafkaPublisher, kafka_topic, kafka_topic_exists};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::metadata::{Metadata, MetadataTopic};
use std::collections::BTreeMap;
use std::time::Duration;

type TopicAdmin = AdminClient<DefaultClientContext>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Facts {
    replicas: usize,
    settings: BTreeMap<String, String>,
}

/// Lists all topics: a request for a single topic may create it.
pub(super) async fn ask(publisher: &KafkaPublisher, patience: Duration) -> Result<Metadata, String> {
    let client = publisher.clone();
    let asked = tokio::task::spawn_blocking(move || client.client().fetch_metadata(None, patience)).await;
    let asked = asked.map_err(|panic| panic.to_string())?;
    asked.map_err(|error| publisher.words().explain(error.to_string()))
}

pub(super) async fn check(
    metadata: Metadata,
    config: &ClientConfig,
    topic: &str,
    patience: Duration,
) -> Result<Vec<String>, CheckError> {
    kafka_topic(topic).map_err(CheckError::Refused)?;
    let (admin, metadata) =
        existing(metadata, config, topic, patience).await.map_err(CheckError::Unreachable)?;
    let found = metadata.topics().iter().filter(|found| found.name() == topic);
    let replicas = found.flat_map(MetadataTopic::partitions).map(|partition| partition.replicas().len());
    let replicas = replicas.min().unwrap_or(0);
    let settings = match settings(&admin, topic, patience).await.map_err(CheckError::Unreachable)? {
        Ok(settings) => settings,
        Err(denied) => return Ok(unseen(topic, replicas, &denied)),
    };
    let max_bytes = config.get("message.max.bytes").and_then(|text| text.parse().ok()).unwrap_or(0);
    Ok(judge(topic, &Facts { replicas, settings }, max_bytes))
}

/// Checks that the topic exists, through a client that creates none.
async fn existing(
    metadata: Metadata,
    config: &ClientConfig,
    topic: &str,
    patience: Duration,
) -> Result<(TopicAdmin, Metadata), String> {
    let (mut config, topic) = (config.clone(), topic.to_owned());
    let admin: TopicAdmin =
        config.set("allow.auto.create.topics", "false").create().map_err(|error| error.to_string())?;
    let check =
        move || kafka_topic_exists(&metadata, &topic, admin.inner(), patience).map(|()| (admin, metadata));
    tokio::task::spawn_blocking(check).await.map_err(|panic| panic.to_string())?
}

/// The settings of a topic, or the brokers' refusal to show settings to this user.
async fn settings(
    admin: &TopicAdmin,
    topic: &str,
    patience: Duration,
) -> Result<Result<BTreeMap<String, String>, RDKafkaErrorCode>, String> {
    let options = AdminOptions::new().request_timeout(Some(patience));
    let described = admin.describe_configs(&[ResourceSpecifier::Topic(topic)], &options).await;
    let mut settings = BTreeMap::new();
    for resource in described.map_err(|error| error.to_string())? {
        let resource = match resource {
            Ok(resource) => resource,
            Err(denied) if is_denied(denied) => return Ok(Err(denied)),
            Err(error) => return Err(format!("the settings of `{topic}`: {error}")),
        };
        settings.extend(resource.entries.into_iter().filter_map(|entry| Some((entry.name, entry.value?))));
    }
    Ok(Ok(settings))
}

const fn is_denied(code: RDKafkaErrorCode) -> bool {
    matches!(code, RDKafkaErrorCode::TopicAuthorizationFailed | RDKafkaErrorCode::ClusterAuthorizationFailed)
}

fn unseen(topic: &str, replicas: usize, denied: &RDKafkaErrorCode) -> Vec<String> {
    let mut warnings = judge(topic, &Facts { replicas, ..Facts::default() }, 0);
    warnings.push(format!(
        "cannot read the settings of the topic `{topic}` ({denied}): make sure that it has \
         min.insync.replicas=2 and no compaction, or allow DescribeConfigs"
    ));
    warnings
}

fn judge(topic: &str, facts: &Facts, max_bytes: u64) -> Vec<String> {
    let number = |name: &str| facts.settings.get(name).and_then(|text| text.parse::<i64>().ok());
    let mut warnings = Vec::new();
    if facts.replicas <= 1 {
        warnings.push(format!(
            "the topic `{topic}` has a single replica: acked records are lost with the broker's disk"
        ));
    } else if number("min.insync.replicas").is_some_and(|least| least <= 1) {
        warnings.push(format!(
            "the topic `{topic}` has min.insync.replicas=1: even with acks=all, a single broker may ack a \
             record alone and lose it; set 2"
        ));
    }
    if facts.settings.get("cleanup.policy").is_some_and(|policy| policy.contains("compact")) {
        warnings.push(format!(
            "the topic `{topic}` has cleanup.policy=compact: only the last message of each key is kept"
        ));
    }
    if facts.settings.get("unclean.leader.election.enable").is_some_and(|value| value == "true") {
        warnings.push(format!(
            "the topic `{topic}` has unclean.leader.election.enable=true: acked records may be lost"
        ));
    }
    if let Some(most) =
        number("max.message.bytes").filter(|most| u64::try_from(*most).is_ok_and(|m| m < max_bytes))
    {
        warnings
            .push(format!("the topic `{topic}` has max.message.bytes={most}: larger messages are buried"));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_lose_messages_are_named() {
        let facts = |replicas, pairs: &[(&str, &str)]| Facts {
            replicas,
            settings: pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        };
        for (facts, part) in [
            (facts(1, &[]), "single replica"),
            (facts(3, &[("min.insync.replicas", "1")]), "min.insync.replicas=1"),
            (facts(3, &[("cleanup.policy", "compact,delete")]), "cleanup.policy=compact"),
            (facts(3, &[("unclean.leader.election.enable", "true")]), "unclean.leader.election"),
            (facts(3, &[("max.message.bytes", "1000")]), "max.message.bytes=1000"),
        ] {
            let warnings = judge("t", &facts, 1_000_000);
            assert!(warnings.len() == 1 && warnings[0].contains(part), "{warnings:?}");
        }
        let denied = unseen("t", 1, &RDKafkaErrorCode::TopicAuthorizationFailed);
        assert!(denied.len() == 2 && denied[1].contains("allow DescribeConfigs"), "{denied:?}");
        assert!(judge("t", &facts(3, &[("min.insync.replicas", "2")]), 1000).is_empty());
    }
}
