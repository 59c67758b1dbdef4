//! A connection to a Redis that messages are delivered to, which is thrown away when it no longer answers.

use crate::{Blame, Outcome, Outcomes, Parcel};
use delayq_service::config::RedisConfig;
use redis::{
    AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo, Pipeline, RedisError, RedisResult, Value,
    aio::MultiplexedConnection,
    io::tcp::{TcpSettings, socket2::TcpKeepalive},
};
use secrecy::ExposeSecret;
use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Answers of a server that is not, or no longer, the right one to ask on this connection.
const STALE: [&str; 4] = ["READONLY", "MASTERDOWN", "NOAUTH", "WRONGPASS"];

/// A connection that is made when it is first used, and again after it broke.
pub(super) struct RedisLink {
    config: RedisConfig,
    address: String,
    deadline: Duration,
    current: Mutex<Option<MultiplexedConnection>>,
}

// === impl RedisLink ===

impl RedisLink {
    pub(super) fn new(config: RedisConfig, deadline: Duration) -> Self {
        Self { address: config.url.to_string(), config, deadline, current: Mutex::new(None) }
    }

    /// The address, without its password.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Runs one command. An error is a sentence; `code` is Redis's own word where Redis answered.
    pub(super) async fn run(&self, command: &Cmd) -> Result<Value, LinkError> {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.add_command(command.clone());
        let answers = self.run_all(&pipeline, 1).await?;
        let answer = answers.into_iter().next().ok_or_else(|| self.broken("an empty answer"))?;
        answer.map_err(|error| self.fault(&error))
    }

    /// Runs a pipeline: one answer each, or the error of the connection.
    pub(super) async fn run_all(
        &self,
        pipeline: &Pipeline,
        count: usize,
    ) -> Result<Vec<RedisResult<Value>>, LinkError> {
        let run = async {
            let mut connection = self.connection().await?;
            let answers = connection.send_packed_commands(pipeline, 0, count).await;
            answers.map_err(|error| self.fault(&error))
        };
        let answers = match tokio::time::timeout(self.deadline, run).await {
            Ok(answers) => answers,
            Err(_) => Err(self.broken(&format!("no answer within {:?}", self.deadline))),
        };
        let answers: Vec<RedisResult<Value>> = match answers {
            Ok(answers) => answers.into_iter().map(Value::extract_error).collect(),
            Err(error) => {
                *self.slot() = None;
                return Err(error);
            }
        };
        // Another server may be the master by now, and another password the right one: a new connection finds out.
        let code = |answer: &RedisResult<Value>| {
            answer.as_ref().err().and_then(|error| error.code().map(str::to_owned))
        };
        if answers.iter().filter_map(code).any(|code| STALE.contains(&code.as_str())) {
            *self.slot() = None;
        }
        Ok(answers)
    }

    /// Runs one command for each parcel whose key may be delivered to.
    pub(super) async fn deliver(
        &self,
        parcels: &[Parcel],
        outcomes: &Outcomes,
        command: impl Fn(&Parcel) -> Cmd,
        answered: impl Fn(&Parcel, Value) -> Outcome,
    ) {
        let (mut sent, mut pipeline) = (Vec::new(), Pipeline::with_capacity(parcels.len()));
        for (place, parcel) in parcels.iter().enumerate() {
            match key(&parcel.destination) {
                Err(why) => outcomes.put(place, Outcome::rejected(why)),
                Ok(()) => {
                    sent.push(place);
                    pipeline.add_command(command(parcel));
                }
            }
        }
        if sent.is_empty() {
            return;
        }
        match self.run_all(&pipeline, sent.len()).await {
            Err(error) => outcomes.put_rest(&failed(&error)),
            Ok(answers) => {
                for (answer, place) in answers.into_iter().zip(sent) {
                    let outcome = match answer {
                        Ok(value) => answered(&parcels[place], value),
                        Err(error) => failed(&self.fault(&error)),
                    };
                    outcomes.put(place, outcome);
                }
            }
        }
    }

    async fn connection(&self) -> Result<MultiplexedConnection, LinkError> {
        if let Some(connection) = self.slot().clone() {
            return Ok(connection);
        }
        let settings = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(*self.config.connect_timeout))
            .set_response_timeout(None);
        let client = self.client()?;
        let connection = client.get_multiplexed_async_connection_with_config(&settings).await;
        let connection = connection.map_err(|error| self.fault(&error))?;
        *self.slot() = Some(connection.clone());
        Ok(connection)
    }

    /// The secret and the certificates are read anew for each connection.
    fn client(&self) -> Result<Client, LinkError> {
        let fault = |error: RedisError| self.fault(&error);
        let info = self.config.url.expose().into_connection_info().map_err(fault)?;
        let mut redis = info.redis_settings().clone();
        if let Some(username) = &self.config.username {
            redis = redis.set_username(username);
        }
        if let Some(password) = &self.config.password {
            let password = password.reveal().map_err(|error| self.broken(&error))?;
            redis = redis.set_password(password.expose_secret());
        }
        let keepalive = TcpKeepalive::new().with_time(*self.config.keepalive);
        let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
        let info = info.set_redis_settings(redis).set_tcp_settings(tcp);
        match &self.config.ca {
            None => Client::open(info).map_err(fault),
            Some(path) => {
                let pem = std::fs::read(path)
                    .map_err(|error| self.broken(&format!("{}: {error}", path.display())))?;
                let certificates = redis::TlsCertificates { client_tls: None, root_cert: Some(pem) };
                Client::build_with_tls(info, certificates).map_err(fault)
            }
        }
    }

    pub(super) fn fault(&self, error: &RedisError) -> LinkError {
        LinkError {
            code: error.code().map(str::to_owned),
            sentence: format!("Redis {}: {error}", self.address),
        }
    }

    fn broken(&self, why: &str) -> LinkError {
        LinkError { code: None, sentence: format!("Redis {}: {why}", self.address) }
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<MultiplexedConnection>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks that a text is a key that messages may be delivered to: no key of a deployment, which all begin with
/// `{NAMESPACE:SHARD}:`.
///
/// # Errors
/// Why it is not.
pub(super) fn key(text: &str) -> Result<(), String> {
    let tag = text.strip_prefix('{').and_then(|rest| rest.split_once("}:"));
    let shard = tag.and_then(|(tag, _)| tag.rsplit_once(':')).map(|(_, shard)| shard);
    let of_a_deployment =
        shard.is_some_and(|shard| !shard.is_empty() && shard.bytes().all(|byte| byte.is_ascii_digit()));
    match of_a_deployment {
        true => Err(format!("the key `{text}` is one of a delayq deployment: nothing is delivered to it")),
        false if text.is_empty() => Err("a key needs a name".to_owned()),
        false => Ok(()),
    }
}

/// What an error of Redis means for one parcel. The codes are those that Redis gives before it writes.
fn failed(error: &LinkError) -> Outcome {
    let reason = error.sentence.clone();
    match error.code.as_deref() {
        // The key is something else, or nobody may write to it: others may be fine.
        Some("WRONGTYPE" | "NOPERM") => {
            Outcome::Unavailable { reason, retry_after: None, blame: Blame::Message }
        }
        Some("ERR") => Outcome::Rejected { reason },
        _ => Outcome::down(reason),
    }
}

/// Why a command has no answer, or which error the answer was.
#[derive(Debug)]
pub(super) struct LinkError {
    pub(super) code: Option<String>,
    pub(super) sentence: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_none_of_a_deployment() {
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
            assert_eq!(key(text).is_ok(), expected, "{text}");
        }
    }
}
