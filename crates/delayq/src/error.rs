//! What can go wrong between a caller and Redis, and what is known of the call then.

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

/// Why a call has no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The message breaks a limit.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// A name is none.
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
        /// Where it should be.
        address: String,
        /// What the attempt said.
        why: String,
    },
    /// Redis ends new connections, because it has as many clients as its `maxclients` allows.
    #[error("Redis at {address} has as many clients as its maxclients allows, and ends new connections")]
    TooManyClients {
        /// Where it is.
        address: String,
    },
    /// The connection broke, or the deadline passed, after the call was sent.
    #[error("no answer from Redis{}{address}: {why}", if address.is_empty() { "" } else { " " })]
    NoAnswer {
        /// Where it should come from; empty where `why` says so.
        address: String,
        /// What happened instead.
        why: String,
    },
    /// Redis answered with an error.
    #[error("Redis answered {code}: {detail}")]
    Redis {
        /// The error's first word.
        code: String,
        /// The rest of it.
        detail: String,
    },
    /// A shard does not exist: the deployment was never created, or this Redis came back empty.
    #[error(
        "shard {0} does not exist in this Redis: create the deployment with `delayq init`, or, if it was there before, this Redis has lost its data"
    )]
    Uninitialised(ShardId),
    /// A shard has another layout than this process knows, and one that it cannot follow: a growth that this
    /// process knows of is followed without an error.
    #[error("shard {shard} has layout {found} with shard counts {counts}, this process knows layout {known}")]
    Layout {
        /// The shard that said so.
        shard: ShardId,
        /// Its layout.
        found: Box<str>,
        /// The shard counts of the deployment as it knows them, parted by commas, the newest last.
        counts: Box<str>,
        /// The identity of its deployment; `None` of one from before there were identities.
        deployment: Option<DeploymentId>,
        /// The layout of the call; 0: Redis had not been asked.
        known: u32,
    },
    /// A topic asks that its writes are waited for, and this call was not: nothing was done.
    #[error("the topic asks for durability {0}, which this call does not wait for")]
    Durability(Durability),
    /// A write was not confirmed as its topic asks ([`Durability`]).
    #[error("not confirmed as its topic asks, durability {durability}: {why}")]
    Unconfirmed {
        /// What its topic asks.
        durability: String,
        /// Whether it was carried out.
        fate: Fate,
        /// How much was confirmed, and within what time.
        why: String,
    },
    /// The deployment was created otherwise than this process is configured.
    #[error("the deployment differs: {0}")]
    Deployment(String),
    /// Another deployment is there than this process serves, whatever both are called.
    #[error(
        "{at} keeps deployment {}, and this process serves deployment {}: correct redis.url or [[redis.nodes]], or, if the \
         deployment was created again, restart this process",
        found.short(),
        known.short()
    )]
    Foreign {
        /// The Redis, and the shard of it.
        at: Box<str>,
        /// The identity of the deployment that it keeps.
        found: DeploymentId,
        /// The identity of the deployment that this process serves.
        known: DeploymentId,
    },
    /// The deployment cannot grow so.
    #[error("cannot grow the deployment: {0}")]
    Growth(String),
    /// Shards cannot move so.
    #[error("the shards do not move: {0}")]
    Move(String),
    /// A walk over all messages cannot continue: begin it again.
    #[error("the walk over all messages cannot continue: {0}")]
    Walk(String),
    /// Redis is not fit to keep messages.
    #[error("this Redis must not be used: {0}")]
    Unfit(String),
    /// An answer that no script gives: versions that do not belong together, or a bug.
    #[error("unexpected reply from script {script}: {answer}")]
    Protocol {
        /// The script.
        script: &'static str,
        /// The answer, shortened.
        answer: String,
    },
    /// A payload cannot be compressed or restored.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The spool does not take a write that Redis cannot, or one that has to wait behind an older one of its message.
    #[error("the spool does not take it: {refusal}{}", outage.iter().map(|error| format!("; before: {error}")).collect::<String>())]
    Spool {
        /// What the spool says.
        refusal: SpoolRefusal,
        /// Why Redis could not take it; `None`: it was not asked, because an older write waits in the spool.
        outage: Option<Box<Error>>,
    },
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
}

// === impl Error ===

impl Error {
    /// Whether the call was carried out.
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

    /// What to do about it.
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

    /// Whether Redis itself could not be used: what a spool is for.
    pub fn is_outage(&self) -> bool {
        self.advice() == Advice::Retry
            && !matches!(self, Self::Layout { .. } | Self::Durability(_) | Self::Spool { .. })
    }

    /// Whether a key of another type than delayq's is in the way: of one message, one topic or one index.
    pub fn is_wrong_type(&self) -> bool {
        matches!(self, Self::Redis { code, .. } if code == "DQTYPE" || code == "WRONGTYPE")
    }

    /// Whether an operator has to let this client in, to give Redis its data back, or to correct its address: nothing was applied, and what waits can
    /// be carried out then.
    pub(crate) fn is_mended_by_operator(&self) -> bool {
        match self {
            Self::Uninitialised(_) | Self::Foreign { .. } => true,
            Self::Redis { code, .. } => ["NOPERM", "NOAUTH", "WRONGPASS"].contains(&code.as_str()),
            _ => false,
        }
    }

    /// Whether its Redis does not know the script.
    pub(crate) fn is_no_script(&self) -> bool {
        matches!(self, Self::Redis { code, .. } if code == "NOSCRIPT")
    }

    /// Whether Redis gave no answer at all.
    pub(crate) fn is_silence(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::TooManyClients { .. } | Self::NoAnswer { .. })
    }

    /// The error of a repeat, where the first try may have been carried out.
    pub(crate) fn into_unknown(self) -> Self {
        match self.fate() {
            Fate::Unknown => self,
            Fate::NotApplied => Self::NoAnswer { address: String::new(), why: self.to_string() },
        }
    }

    pub(crate) fn of_connecting(address: &str, error: &RedisError) -> Self {
        match (error.kind(), error.code()) {
            (ErrorKind::Server(_) | ErrorKind::Extension | ErrorKind::AuthenticationFailed, Some(code)) => {
                // Redis's own words are about HELLO, which no user sends.
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
            ("DQDURABILITY", Some(_)) if let Some(asked) = asked(detail) => Self::Durability(asked),
            _ => Self::Redis { code: code.to_owned(), detail: detail.to_owned() },
        }
    }
}

/// What a topic asks, as its refusal begins.
fn asked(detail: &str) -> Option<Durability> {
    detail.split(' ').next()?.parse().ok()
}

/// The identity of the deployment that a shard belongs to, and that of the caller's, of which the refusal speaks.
fn two_deployments(detail: &str) -> Option<(DeploymentId, DeploymentId)> {
    Some((detail.split(' ').next()?.parse().ok()?, detail.rsplit(' ').next()?.parse().ok()?))
}

impl From<ReplyError> for Error {
    fn from(ReplyError { script, answer }: ReplyError) -> Self {
        Self::Protocol { script, answer }
    }
}
