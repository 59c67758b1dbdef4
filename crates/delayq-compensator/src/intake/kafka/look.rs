//! A look at a topic and a group, without joining the group.

use super::config::KafkaIntakeConfig;
use super::group::Group;
use crate::intake::look::{IntakeFault, IntakeLook};
use delayq_service::brokers::kafka_topic_exists;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::groups::GroupInfo;
use rdkafka::metadata::Metadata;
use rdkafka::{Offset, TopicPartitionList};
use std::collections::HashMap;
use std::time::Duration;

/// Maximum time for each answer of the brokers.
const PATIENCE: Duration = Duration::from_secs(4);

/// The brokers' answers during an election for a partition or a group, which pass.
const ELECTING: [RDKafkaErrorCode; 5] = [
    RDKafkaErrorCode::CoordinatorLoadInProgress,
    RDKafkaErrorCode::CoordinatorNotAvailable,
    RDKafkaErrorCode::NotCoordinator,
    RDKafkaErrorCode::LeaderNotAvailable,
    RDKafkaErrorCode::NotLeaderForPartition,
];

/// Looks at the topic, the group and the topic of the dead records.
pub(crate) async fn look(config: &KafkaIntakeConfig, dead: &str) -> Result<IntakeLook, IntakeFault> {
    let mut settings = config.access.settings("delayq-look").map_err(IntakeFault::Unreachable)?;
    settings.set("group.id", &config.group).set("allow.auto.create.topics", "false");
    let group = Group::new(config);
    let consumer = BaseConsumer::from_config_and_context(&settings, group.clone());
    let consumer = consumer.map_err(|error| IntakeFault::Unreachable(error.to_string()))?;
    let looker = Looker { consumer, group, config: config.clone(), dead: dead.to_owned() };
    let looked = tokio::task::spawn_blocking(move || looker.look()).await;
    looked.map_err(|panic| IntakeFault::Unreachable(panic.to_string()))?
}

struct Looker {
    /// Never subscribes, so never joins the group.
    consumer: BaseConsumer<Group>,
    group: Group,
    config: KafkaIntakeConfig,
    dead: String,
}

// === impl Looker ===

impl Looker {
    fn look(&self) -> Result<IntakeLook, IntakeFault> {
        let described = self.consumer.fetch_metadata(None, PATIENCE);
        let metadata = described
            .map_err(|error| IntakeFault::Unreachable(self.config.access.explain(self.explain(&error))))?;
        let topics = [self.config.topic.as_str(), &self.dead];
        let exists = |topic| kafka_topic_exists(&metadata, topic, self.consumer.client(), PATIENCE);
        topics.into_iter().try_for_each(exists).map_err(IntakeFault::Unusable)?;
        let fault = |error: KafkaError| match error.rdkafka_error_code() {
            Some(code) if ELECTING.contains(&code) => IntakeFault::Unreachable(self.explain(&error)),
            _ => IntakeFault::Unusable(self.explain(&error)),
        };
        let (lag, lost) = self.lag(&metadata).map_err(fault)?;
        Ok(IntakeLook { lag, lost, reader: self.reader().map_err(fault)? })
    }

    /// The number of records behind the committed offsets, or in the whole log without any commit; and the number of offsets
    /// dropped between the commits and the log's beginning.
    fn lag(&self, metadata: &Metadata) -> Result<(u64, u64), KafkaError> {
        let topic = self.config.topic.as_str();
        let mut partitions = TopicPartitionList::new();
        for described in metadata.topics().iter().filter(|described| described.name() == topic) {
            for partition in described.partitions() {
                partitions.add_partition(topic, partition.id());
            }
        }
        let committed = self.consumer.committed_offsets(partitions, PATIENCE)?;
        let [lows, highs] = [Offset::Beginning, Offset::End].map(|end| self.ends(&committed, end));
        let (lows, highs) = (lows?, highs?);
        let (mut lag, mut lost) = (0, 0);
        for partition in committed.elements() {
            partition.error()?;
            let [low, high] =
                [&lows, &highs].map(|ends| ends.get(&partition.partition()).copied().unwrap_or(0));
            let settled = match partition.offset() {
                Offset::Offset(offset) => {
                    lost += u64::try_from(low - offset).unwrap_or(0);
                    offset.max(low)
                }
                _ => low,
            };
            lag += u64::try_from(high - settled).unwrap_or(0);
        }
        Ok((lag, lost))
    }

    /// The offset of each partition's first record, or of the next one. A query by time takes one request to each broker,
    /// for all partitions together.
    fn ends(&self, partitions: &TopicPartitionList, end: Offset) -> Result<HashMap<i32, i64>, KafkaError> {
        let mut asked = partitions.clone();
        asked.set_all_offsets(end)?;
        let found = self.consumer.offsets_for_times(asked, PATIENCE)?;
        let mut ends = HashMap::new();
        for partition in found.elements() {
            partition.error()?;
            if let Offset::Offset(offset) = partition.offset() {
                ends.insert(partition.partition(), offset);
            }
        }
        Ok(ends)
    }

    fn reader(&self) -> Result<Option<String>, KafkaError> {
        let name = self.config.group.as_str();
        let groups = self.consumer.fetch_group_list(Some(name), PATIENCE)?;
        let members = groups.groups().iter().flat_map(GroupInfo::members);
        let mut hosts: Vec<&str> =
            members.map(|member| member.client_host().trim_start_matches('/')).collect();
        hosts.sort_unstable();
        Ok(match hosts.len() {
            0 => None,
            1 => Some(format!("1 member of the group {name}, at {}", hosts[0])),
            count => Some(format!("{count} members of the group {name}, at {}", hosts.join(", "))),
        })
    }

    /// An error with the client's last message.
    fn explain(&self, error: &KafkaError) -> String {
        while self.consumer.poll(Duration::ZERO).is_some() {}
        self.group.explain(error)
    }
}
