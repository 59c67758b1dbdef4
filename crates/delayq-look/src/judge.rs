//! The one judge of looks: a verdict, an advice and a page for each cause.

mod causes;
mod check;
mod etcd;
mod judgement;
mod limits;
mod redis;
mod shards;
mod timers;
mod topics;

pub use causes::{Cause, EXTRAS, causes};
pub use check::{Check, worst};
pub use judgement::Judgement;
pub use limits::{Limits, Pair, pair};
pub use timers::without_timer;

use crate::look::Look;
use causes::DEPLOYMENT_MISSING;
use delayq::Error;

/// Judges every part of a look.
pub fn judge(look: &Look, limits: &Limits) -> Vec<Check> {
    let servers = look.servers.iter();
    let mut checks: Vec<Check> = servers.flat_map(|servers| redis::judge(look, servers)).collect();
    match &look.shards {
        Ok(shards) => {
            checks.extend(shards::judge(look, shards));
            checks.extend(timers::judge(look, shards, limits));
            checks.extend(look.topics.iter().flat_map(|topics| topics::judge(look, topics, limits)));
        }
        // The servers say why.
        Err(_) if checks.iter().any(|check| check.verdict == Judgement::Bad) => {}
        Err(error) => checks.push(nowhere(look, error)),
    }
    if !look.part.has_etcd() {
        checks.push(Check::good("etcd", "not used: one timer owns every shard, or workers pump"));
    }
    checks.extend(look.etcd.iter().flat_map(etcd::judge));
    checks
}

/// The servers do answer.
fn nowhere(look: &Look, error: &Error) -> Check {
    let missing = DEPLOYMENT_MISSING.found(error.to_string(), []).with("why", error.to_string());
    match &look.others {
        Some(others) => missing.advising(others).with("others", others.as_str()),
        None => missing,
    }
}
