//! `claim`: acquiring the ownership of a shard.

use crate::call::Call;
use crate::identity::DeploymentId;
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;
use crate::time::{UnixMicros, UnixMillis};
use std::time::Duration;

/// The outcome of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The caller owns the shard, under this epoch.
    Mine {
        /// The epoch, for every pump.
        epoch: u64,
        /// Redis's clock.
        now: UnixMicros,
        /// Time of the first pump; `None`: nothing in the shard has a time.
        next_due: Option<UnixMillis>,
    },
    /// Another owner's lock is still valid; or, of a claim of an orphaned shard or by a worker, its owner pumps.
    Owned {
        /// The owner's name.
        owner: String,
        /// The time until the owner's lock ends; `None`: the owner has no lock.
        lock: Option<Duration>,
    },
}

/// How the name of a worker begins that pumps next to its own work; its lock refuses workers, and no timer.
pub const WORKER: &str = "worker/";

/// Returns true for the name of a worker, not of a timer.
pub fn is_worker(owner: &str) -> bool {
    owner.starts_with(WORKER)
}

/// Makes `owner` the owner under a new epoch; with a `lock`, refused while another owner's lock is valid. Refused in another
/// deployment than the owner's, if that is known.
pub fn request(shard: ShardId, owner: &str, lock: Duration, of: Option<DeploymentId>) -> Call {
    Call::new(Verb::Claim, shard).arg(owner).number(lock.as_millis() as u64).arg(text(of))
}

/// Makes `owner` the owner under a new epoch if no owner has pumped the shard for long, and other timers had to.
pub fn orphaned(shard: ShardId, owner: &str, of: Option<DeploymentId>) -> Call {
    Call::new(Verb::Claim, shard).arg(owner).arg("orphaned").arg(text(of))
}

/// Gives a shard back, if `owner` owns the shard: the next claim is granted, and the workers that watch the shard are
/// notified.
pub fn free(shard: ShardId, owner: &str, of: Option<DeploymentId>) -> Call {
    Call::new(Verb::Claim, shard).arg(owner).arg("free").arg(text(of))
}

fn text(of: Option<DeploymentId>) -> String {
    of.map(|id| id.to_string()).unwrap_or_default()
}

/// Reads the outcome.
pub fn read(reply: Value) -> Result<Claimed, ReplyError> {
    let mut reply = Reply::new(Verb::Claim, reply)?;
    let word = reply.text()?;
    let (epoch, now, owner) = (reply.number()?, UnixMicros(reply.number()?), reply.text()?);
    let next_due = reply.maybe_number()?.map(UnixMillis::new);
    match word.as_str() {
        "claimed" | "renewed" => Ok(Claimed::Mine { epoch, now, next_due }),
        "owned" => Ok(Claimed::Owned { owner, lock: reply.maybe_number()?.map(Duration::from_millis) }),
        _ => Err(reply.nonsense(&word)),
    }
}

/// Reads whether the shard was given back; false: another owner has the shard.
pub fn read_freed(reply: Value) -> Result<bool, ReplyError> {
    let word = Reply::new(Verb::Claim, reply)?.text()?;
    Ok(word == "free")
}
