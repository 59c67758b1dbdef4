//! The consumer's own reports: assigned partitions, lag, and error messages.

use super::config::KafkaIntakeConfig;
use super::offsets::Offsets;
use crate::intake::broker::Lost;
use delayq_service::brokers::KafkaWords;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{ClientContext, Offset, Statistics, TopicPartitionList};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum time for the brokers' answer about committed offsets, while nothing else is done.
const PATIENCE: Duration = Duration::from_secs(5);

/// No report yet.
const UNKNOWN: u64 = u64::MAX;

/// The reports of a consumer. Clones share the state.
#[derive(Clone)]
pub(super) struct Group(Arc<Shared>);

struct Shared {
    topic: String,
    /// The name of the group.
    name: String,
    words: KafkaWords,
    offsets: Mutex<Offsets>,
    /// Nothing is to be fetched, of newly assigned partitions either.
    is_paused: AtomicBool,
    lag: AtomicU64,
    lost: Mutex<Vec<Lost>>,
}

// === impl Group ===

impl Group {
    pub(super) fn new(config: &KafkaIntakeConfig) -> Self {
        Self(Arc::new(Shared {
            topic: config.topic.clone(),
            name: config.group.clone(),
            words: KafkaWords::default(),
            offsets: Mutex::default(),
            is_paused: AtomicBool::new(false),
            lag: AtomicU64::new(UNKNOWN),
            lost: Mutex::default(),
        }))
    }

    pub(super) fn words(&self) -> &KafkaWords {
        &self.0.words
    }

    /// An error with the right that the user lacks, or with the client's last message.
    pub(super) fn explain(&self, error: &KafkaError) -> String {
        match self.missing_right(error) {
            Some(missing) => format!("{error}: {missing}"),
            None => self.0.words.explain(error.to_string()),
        }
    }

    fn missing_right(&self, error: &KafkaError) -> Option<String> {
        let on = match error.rdkafka_error_code()? {
            RDKafkaErrorCode::TopicAuthorizationFailed => format!("topic `{}`", self.0.topic),
            RDKafkaErrorCode::GroupAuthorizationFailed => format!("group `{}`", self.0.name),
            _ => return None,
        };
        Some(format!("the user has no right Read on the {on}"))
    }

    pub(super) fn offsets(&self) -> MutexGuard<'_, Offsets> {
        // Each change is complete before anything that could panic.
        self.0.offsets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the pause. Returns the state from before.
    pub(super) fn set_paused(&self, is_paused: bool) -> bool {
        self.0.is_paused.swap(is_paused, Ordering::Relaxed)
    }

    /// Records that the brokers dropped, to be taken out.
    pub(super) fn lost(&self) -> MutexGuard<'_, Vec<Lost>> {
        self.0.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lag(&self) -> Option<u64> {
        Some(self.0.lag.load(Ordering::Relaxed)).filter(|&lag| lag != UNKNOWN)
    }
}

impl ClientContext for Group {
    fn error(&self, error: KafkaError, reason: &str) {
        let missing = self.missing_right(&error).map(|missing| format!("{reason} {missing}"));
        self.0.words.error(error, missing.as_deref().unwrap_or(reason));
    }

    /// High watermark minus committed offset, over the partitions that are assigned; without any commit so far, the whole
    /// log counts.
    fn stats(&self, statistics: Statistics) {
        let Some(topic) = statistics.topics.get(&self.0.topic) else { return };
        let mut offsets = self.offsets();
        for (&number, partition) in &topic.partitions {
            for (from, to) in offsets.dropped(number, partition.lo_offset) {
                let place = format!("kafka {}/{number} offsets {from} to {}", self.0.topic, to - 1);
                self.lost().push(Lost { records: (to - from).unsigned_abs(), place });
            }
        }
        let lags = offsets.assigned().filter_map(|number| {
            let partition = topic.partitions.get(&number)?;
            let behind = match partition.consumer_lag {
                behind @ 0.. => behind,
                _ => partition.hi_offset - partition.lo_offset.max(0),
            };
            u64::try_from(behind).ok()
        });
        self.0.lag.store(lags.sum(), Ordering::Relaxed);
    }
}

/// Committed offsets by partition. A missing partition is read from the beginning, or the brokers did not answer.
fn committed(consumer: &BaseConsumer<Group>, partitions: &TopicPartitionList) -> HashMap<i32, i64> {
    let asked = consumer.committed_offsets(partitions.clone(), PATIENCE);
    let known = asked.inspect_err(|error| {
        tracing::warn!(%error, "cannot determine which records the brokers dropped before this start");
    });
    let elements = known.as_ref().map_or_else(|_| Vec::new(), TopicPartitionList::elements);
    let offset = |element: &TopicPartitionListElem<'_>| match element.offset() {
        Offset::Offset(offset) => Some((element.partition(), offset)),
        _ => None,
    };
    elements.iter().filter_map(offset).collect()
}

impl ConsumerContext for Group {
    /// Runs inside a call that waits for records, so nothing is under way: every record is settled, or waits for another try
    /// and is lost with the partition. The client commits settled records before releasing a partition.
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(partitions) => {
                let committed = committed(consumer, partitions);
                let mut offsets = self.offsets();
                for element in partitions.elements() {
                    let partition = element.partition();
                    offsets.assign(partition, committed.get(&partition).copied());
                }
            }
            Rebalance::Revoke(partitions) => {
                let mut offsets = self.offsets();
                partitions.elements().iter().for_each(|element| offsets.revoke(element.partition()));
            }
            Rebalance::Error(_) => {}
        }
    }

    fn commit_callback(&self, result: KafkaResult<()>, _: &TopicPartitionList) {
        // Uncommitted records are carried out again, by the next owner of the partition.
        match result {
            Ok(()) | Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) => {}
            Err(error) => tracing::warn!(topic = self.0.topic, %error, "cannot commit offsets"),
        }
    }

    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let (Rebalance::Assign(partitions), true) = (rebalance, self.0.is_paused.load(Ordering::Relaxed))
            && let Err(error) = consumer.pause(partitions)
        {
            tracing::warn!(%error, "cannot pause new partitions");
        }
    }
}
