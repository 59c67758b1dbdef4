//! Delivery to a Redis over a link like the deployment's own.

use crate::Parcel;
use delayq::Error;
use delayq::protocol::Link;
use delayq_service::brokers::{Blame, Outcome, Outcomes};
use delayq_service::config::RedisConfig;
use delayq_service::deployment;
use redis::{Cmd, Pipeline, Value};
use std::time::Duration;

pub(super) struct RedisLink {
    link: Link,
}

// === impl RedisLink ===

impl RedisLink {
    /// Uses RESP2, which every Redis and proxy understands.
    pub(super) fn new(config: &RedisConfig, deadline: Duration) -> Result<Self, String> {
        Ok(Self { link: Link::new(deployment::link(config)?.deadline(deadline).resp2(true)) })
    }

    pub(super) fn address(&self) -> &str {
        self.link.address()
    }

    pub(super) async fn run(&self, command: &Cmd) -> Result<Value, Error> {
        self.link.run(command).await
    }

    /// Rejects parcels with a forbidden key.
    pub(super) async fn deliver(
        &self,
        parcels: &[Parcel],
        outcomes: &Outcomes,
        command: impl Fn(&Parcel) -> Cmd,
        answered: impl Fn(&Parcel, Value) -> Outcome,
    ) {
        let (mut sent, mut pipeline) = (Vec::new(), Pipeline::with_capacity(parcels.len()));
        for (index, parcel) in parcels.iter().enumerate() {
            match check_key(&parcel.destination) {
                Err(why) => outcomes.put(index, Outcome::rejected(why)),
                Ok(()) => {
                    sent.push(index);
                    pipeline.add_command(command(parcel));
                }
            }
        }
        if sent.is_empty() {
            return;
        }
        match self.link.pipeline(&pipeline).await {
            Err(error) => outcomes.put_rest(&self.failed(&error)),
            Ok(answers) => {
                for (answer, index) in answers.into_iter().zip(sent) {
                    let outcome = match answer {
                        Ok(value) => answered(&parcels[index], value),
                        Err(error) => self.failed(&error),
                    };
                    outcomes.put(index, outcome);
                }
            }
        }
    }

    pub(super) fn reason(&self, error: &Error) -> String {
        match error {
            Error::Redis { code, detail } => format!("Redis {}: {code}: {detail}", self.address()),
            error => error.to_string(),
        }
    }

    /// Redis gives these codes before writing anything.
    fn failed(&self, error: &Error) -> Outcome {
        let reason = self.reason(error);
        match code(error) {
            // The key has another type, or this user may not write this key: other keys may be fine.
            Some("WRONGTYPE" | "NOPERM") => {
                Outcome::Unavailable { reason, retry_after: None, blame: Blame::Message }
            }
            Some("ERR") => Outcome::Rejected { reason },
            _ => Outcome::down(reason),
        }
    }
}

/// Refuses keys of a deployment, which begin with `{NAMESPACE:SHARD}:`.
pub(super) fn check_key(text: &str) -> Result<(), String> {
    let tag = text.strip_prefix('{').and_then(|rest| rest.split_once("}:"));
    let shard = tag.and_then(|(tag, _)| tag.rsplit_once(':')).map(|(_, shard)| shard);
    let of_a_deployment =
        shard.is_some_and(|shard| !shard.is_empty() && shard.bytes().all(|byte| byte.is_ascii_digit()));
    match of_a_deployment {
        true => Err(format!("the key `{text}` belongs to a delayq deployment, which accepts no deliveries")),
        false if text.is_empty() => Err("a key needs a name".to_owned()),
        false => Ok(()),
    }
}

pub(super) fn code(error: &Error) -> Option<&str> {
    match error {
        Error::Redis { code, .. } => Some(code),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_a_deployment_is_refused() {
        for (text, expected) in [
            ("out", true),
            ("{out}:x", true),
            ("{a:b}:x", true),
            ("x{dq:7}:meta", true),
            ("{dq:}:meta", true),
            ("", false),
            ("{dq:7}:meta", false),
            ("{dq:0}:r:1", false),
        ] {
            assert_eq!(check_key(text).is_ok(), expected, "{text}");
        }
    }
}
