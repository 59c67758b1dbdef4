//! Waiting until replicas or a disk have the writes of a pipeline.

use crate::clock;
use crate::error::Error;
use crate::link::LinkSettings;
use delayq_core::durability::Waits;
use delayq_core::fate::Fate;
use redis::{FromRedisValue, Pipeline, RedisError, RedisResult, Value, from_redis_value};
use std::time::Duration;
use tokio::time::Instant;

pub(super) struct Confirming<'w> {
    waits: &'w Waits,
    within_ms: u64,
}

// === impl Confirming ===

impl<'w> Confirming<'w> {
    /// `until` is the deadline of the calls. Half of the remaining time is kept for a repeat. Redis waits for the two
    /// commands in turn.
    pub(super) fn new(waits: &'w Waits, settings: &LinkSettings, until: Instant) -> Self {
        let left = until.saturating_duration_since(clock::instant()) / 2;
        let commands = u32::from(waits.disk()) + u32::from(waits.replicas() > 0);
        let within = settings.confirmed_within().min(left) / commands.max(1);
        // Redis treats a timeout of 0 as infinite.
        Self { waits, within_ms: (within.as_micros().div_ceil(1000) as u64).max(1) }
    }

    pub(super) fn ask(&self, pipeline: &mut Pipeline) {
        if self.waits.disk() {
            pipeline.cmd("WAITAOF").arg(1).arg(0).arg(self.within_ms);
        }
        if self.waits.replicas() > 0 {
            pipeline.cmd("WAIT").arg(self.waits.replicas()).arg(self.within_ms);
        }
    }

    /// `None` if everything is confirmed.
    pub(super) fn read(
        &self,
        address: &str,
        answers: impl Iterator<Item = RedisResult<Value>>,
    ) -> Option<Error> {
        let answers: Vec<RedisResult<Value>> = answers.collect();
        if let Some(error) = answers.iter().filter_map(|answer| answer.as_ref().err()).find(is_demotion) {
            return Some(Error::NoAnswer { address: address.to_owned(), why: error.to_string() });
        }
        let mut answers = answers.into_iter();
        let within = Duration::from_millis(self.within_ms);
        let mut why = Vec::new();
        if self.waits.disk() {
            match answer(answers.next()) {
                Ok((1.., _)) => {}
                Ok::<(u32, u32), _>(_) => {
                    why.push(format!("no confirmation from the master's disk within {within:?}"));
                }
                Err(error) => why.push(error),
            }
        }
        let replicas = u32::from(self.waits.replicas());
        if replicas > 0 {
            match answer(answers.next()) {
                Ok(confirmed) if confirmed >= replicas => {}
                Ok::<u32, _>(confirmed) => {
                    why.push(format!("{confirmed} of {replicas} replicas confirmed within {within:?}"));
                }
                Err(error) => why.push(error),
            }
        }
        (!why.is_empty()).then(|| Error::Unconfirmed {
            durability: self.waits.to_string(),
            fate: Fate::Unknown,
            why: why.join("; "),
        })
    }
}

/// Returns true if the master became a replica meanwhile: the wait did not take place.
fn is_demotion(error: &&RedisError) -> bool {
    error.code() == Some("UNBLOCKED")
        || error.detail().is_some_and(|detail| detail.contains("replica instances"))
}

/// An error becomes text.
fn answer<T: FromRedisValue>(answer: Option<RedisResult<Value>>) -> Result<T, String> {
    let answer = answer.expect("each command has one answer");
    answer
        .map_err(|error| format!("Redis answered {error}"))
        .and_then(|value| from_redis_value(value).map_err(|error| error.to_string()))
}
