//! The errors of calls to Redis, each with the fate of the call.

use crate::options::OutOfRange;
use delayq_core::codec::CodecError;
use delayq_core::durability::Durability;
use delayq_core::fate::{Advice, Fate, is_passing, is_refusal};
use delayq_core::id::NameError;
use delayq_core::identity::DeploymentId;
use delayq_core::message::MessageError;
use delayq_core::reply::ReplyError;
use delayq_core::shard::ShardId;
use delayq_core::spool::SpoolRefusal;
use delayq_core::time::OddTime;
use redis::{ErrorKind, RedisError};

/// The reason for a failed call.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The message breaks a limit.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// A name is invalid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// An option is outside its range.
    #[error(transparent)]
    Option(#[from] OutOfRange),
    /// A time in another unit than milliseconds.
    #[error(transparent)]
    Time(#[from] OddTime),
    /// No connection could be made.
    #[error("cannot reach Redis at {address}: {why}")]
    Unreachable {
        /// The address of the Redis.
        address: String,
        /// The reason of the failure.
        why: String,
    },
    /// Redis closes new connections because the number of clients has reached `maxclients`.
    #[error("Redis at {address} has reached its maxclients limit, and closes new connections")]
    TooManyClients {
        /// The address of the Redis.
        address: String,
    },
    /// The connection broke, or the deadline passed, after the call was sent.
    #[error("no reply from Redis{}{address}: {why}", if address.is_empty() { "" } else { " " })]
    NoAnswer {
        /// The address of the Redis; empty where `why` names the address.
        address: String,
        /// The event that ended the call.
        why: String,
    },
    /// Redis answered with an error.
    #[error("Redis answered {code}: {detail}")]
    Redis {
        /// The first word of the error.
        code: String,
        /// The rest of the error.
        detail: String,
    },
    /// A shard does not exist: the deployment was never created, or this Redis came back empty.
    #[error(
        "shard {0} does not exist in this Redis: create the deployment with `delayq init`; if the shard \
         existed before, this Redis has lost its data"
    )]
    Uninitialised(ShardId),
    /// The shard's layout is unknown to this process and cannot be followed. A known growth is followed without an
    /// error.
    #[error(
        "shard {shard} has layout {found} with shard counts {counts}, but this process knows layout {known}"
    )]
    Layout {
        /// The shard that refused the call.
        shard: ShardId,
        /// The shard's layout.
        found: Box<str>,
        /// The shard counts of the deployment according to the shard, separated by commas, the newest last.
        counts: Box<str>,
        /// The identity of the shard's deployment; `None` if the deployment is older than identities.
        deployment: Option<DeploymentId>,
        /// The layout of the call; 0 before Redis was asked.
        known: u32,
    },
    /// The topic requires confirmed writes, and this call does not wait for a confirmation: nothing was done.
    #[error("the topic requires durability {0}, which this call does not wait for")]
    Durability(Durability),
    /// A write was not confirmed as its topic requires ([`Durability`]).
    #[error("not confirmed with the topic's durability {durability}: {why}")]
    Unconfirmed {
        /// The durability that the topic requires.
        durability: String,
        /// Tells if the write was carried out.
        fate: Fate,
        /// The confirmations that arrived, and the time that was allowed.
        why: String,
    },
    /// The deployment was created with a configuration other than this process's.
    #[error("the deployment differs: {0}")]
    Deployment(String),
    /// The Redis keeps a different deployment than this process serves, even if both have the same name.
    #[error(
        "{at} keeps deployment {}, but this process serves deployment {}: correct redis.url or \
         [[redis.nodes]], or, if the deployment was created again, restart this process",
        found.short(),
        known.short()
    )]
    Foreign {
        /// The Redis and the shard.
        at: Box<str>,
        /// The identity of the deployment in this Redis.
        found: DeploymentId,
        /// The identity of the deployment that this process serves.
        known: DeploymentId,
    },
    /// The requested growth is impossible.
    #[error("cannot grow the deployment: {0}")]
    Growth(String),
    /// The requested move of shards is impossible.
    #[error("cannot move the shards: {0}")]
    Move(String),
    /// A walk over all messages cannot continue: start the walk again.
    #[error("cannot continue the walk over all messages: {0}")]
    Walk(String),
    /// Redis is unfit to keep messages.
    #[error("this Redis must not be used: {0}")]
    Unfit(String),
    /// An answer that no script gives: incompatible versions, or a bug.
    #[error("unexpected reply from script {script}: {answer}")]
    Protocol {
        /// The name of the script.
        script: &'static str,
        /// The answer, shortened.
        answer: String,
    },
    /// A payload cannot be compressed or restored.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The spool refuses a write that Redis cannot take, or a write that has to wait behind an older write of the same
    /// message.
    #[error("the spool refuses the message: {refusal}{}", outage.iter().map(|error| format!("; before: {error}")).collect::<String>())]
    Spool {
        /// The spool's refusal.
        refusal: SpoolRefusal,
        /// The reason why Redis could not take the write; `None` if Redis was not asked, because an older write waits
        /// in the spool.
        outage: Option<Box<Error>>,
    },
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
}

// === impl Error ===

impl Error {
    /// Returns the fate of the call.
    pub fn fate(&self) -> Fate {
        match self {
            Self::NoAnswer { .. } | Self::Protocol { .. } => Fate::Unknown,
            Self::Redis { code, .. } if !is_refusal(code) => Fate::Unknown,
            Self::Unconfirmed { fate, .. } => *fate,
            Self::Spool { refusal, outage } => match outage {
                Some(outage) if refusal.fate == Fate::NotApplied => outage.fate(),
                _ => refusal.fate,
            },
            _ => Fate::NotApplied,
        }
    }

    /// Returns the recommended reaction.
    pub fn advice(&self) -> Advice {
        match self {
            Self::Unreachable { .. }
            | Self::TooManyClients { .. }
            | Self::NoAnswer { .. }
            | Self::Layout { .. }
            | Self::Durability(_)
            | Self::Unconfirmed { .. }
            | Self::Spool { .. } => Advice::Retry,
            Self::Redis { code, .. } if is_passing(code) => Advice::Retry,
            _ => Advice::GiveUp,
        }
    }

    /// Returns true if Redis itself could not be used: the case for a spool.
    pub fn is_outage(&self) -> bool {
        self.advice() == Advice::Retry
            && !matches!(self, Self::Layout { .. } | Self::Durability(_) | Self::Spool { .. })
    }

    /// Returns true if a key of another type than delayq's is in the way: of one message, one topic or one index.
    pub fn is_wrong_type(&self) -> bool {
        matches!(self, Self::Redis { code, .. } if code == "WRONGTYPE")
    }

    /// Returns true if Redis answered, but lacks the shard, or keeps another layout or deployment than this client knows.
    pub fn lacks_shard(&self) -> bool {
        matches!(
            self,
            Self::Uninitialised(_) | Self::Layout { .. } | Self::Deployment(_) | Self::Foreign { .. }
        )
    }

    /// Returns true if an operator has to grant access, restore the data of Redis, or correct the address: nothing was
    /// applied, and waiting calls can be carried out afterwards.
    pub(crate) fn is_mended_by_operator(&self) -> bool {
        match self {
            Self::Uninitialised(_) | Self::Foreign { .. } => true,
            Self::Redis { code, .. } => ["NOPERM", "NOAUTH", "WRONGPASS"].contains(&code.as_str()),
            _ => false,
        }
    }

    pub(crate) fn is_no_script(&self) -> bool {
        matches!(self, Self::Redis { code, .. } if code == "NOSCRIPT")
    }

    /// Returns true if Redis gave no answer at all.
    pub(crate) fn is_silence(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::TooManyClients { .. } | Self::NoAnswer { .. })
    }

    /// The error of a repeat, where the first attempt may have been carried out.
    pub(crate) fn into_unknown(self) -> Self {
        match self.fate() {
            Fate::Unknown => self,
            Fate::NotApplied => Self::NoAnswer { address: String::new(), why: self.to_string() },
        }
    }

    pub(crate) fn of_connecting(address: &str, error: &RedisError) -> Self {
        match (error.kind(), error.code()) {
            (ErrorKind::Server(_) | ErrorKind::Extension | ErrorKind::AuthenticationFailed, Some(code)) => {
                // Redis's own text is about HELLO, which no user sends.
                let detail = match code {
                    "NOAUTH" => "it asks for a password, and none is configured",
                    _ => error.detail().unwrap_or_default(),
                };
                Self::Redis { code: code.to_owned(), detail: detail.to_owned() }
            }
            _ => Self::Unreachable { address: address.to_owned(), why: error.to_string() },
        }
    }

    pub(crate) fn of_call(address: &str, call: Option<(ShardId, u32)>, error: &RedisError) -> Self {
        let Some(code) = error.code() else {
            return Self::NoAnswer { address: address.to_owned(), why: error.to_string() };
        };
        let detail = error.detail().unwrap_or_default();
        match (code, call) {
            ("DQUNINITIALISED", Some((shard, _))) => Self::Uninitialised(shard),
            ("DQLAYOUT", Some((shard, known))) => {
                let mut words = detail.split(' ');
                let mut word = || words.next().unwrap_or_default();
                let (found, counts) = (word().into(), word().into());
                let deployment = word().parse().ok();
                Self::Layout { shard, found, counts, deployment, known }
            }
            ("DQDEPLOYMENT", Some((shard, _))) if let Some((found, known)) = two_deployments(detail) => {
                Self::Foreign { at: format!("shard {shard} in Redis at {address}").into(), found, known }
            }
            // A script stops at such a key, and its earlier writes stay.
            ("WRONGTYPE", Some((shard, _))) => Self::Redis {
                code: code.to_owned(),
                detail: format!(
                    "a key of shard {shard} has another type, and the call may be carried out in part: `delayq audit` names \
                     the key"
                ),
            },
            ("DQDURABILITY", Some(_)) if let Some(asked) = asked(detail) => Self::Durability(asked),
            _ => Self::Redis { code: code.to_owned(), detail: detail.to_owned() },
        }
    }
}

fn asked(detail: &str) -> Option<Durability> {
    detail.split(' ').next()?.parse().ok()
}

/// The deployment of the shard comes first, the deployment of the caller second.
fn two_deployments(detail: &str) -> Option<(DeploymentId, DeploymentId)> {
    Some((detail.split(' ').next()?.parse().ok()?, detail.rsplit(' ').next()?.parse().ok()?))
}

impl From<ReplyError> for Error {
    fn from(ReplyError { script, answer }: ReplyError) -> Self {
        Self::Protocol { script, answer }
    }
}
