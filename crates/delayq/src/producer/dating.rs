//! Dating repeats: a put whose first try may have arrived says when that try began, on the clock of its Redis.
//!
//! By that its topic tells what it may have forgotten, and a put that replaces does not replace what it had put itself.
//! Undated, a repeat would be taken for a new message, so it is not sent.

use crate::calls::Calls;
use crate::error::Error;
use crate::placing::Placed;
use crate::{clock, server};
use delayq_core::shard::ShardId;
use delayq_core::time::UnixMillis;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Dates those of these puts that are repeats, from the time of their Redis now, less how long ago the first try was by
/// this host's clock: one answer each, in order.
///
/// # Errors
/// Its Redis did not say its time.
pub(super) async fn date(calls: &Calls, puts: &mut [&mut Placed], until: Instant) -> Vec<Result<(), Error>> {
    let ages = ages(puts);
    if ages.iter().all(Option::is_none) {
        return puts.iter().map(|_| Ok(())).collect();
    }
    let homes: BTreeSet<ShardId> =
        puts.iter().zip(&ages).filter(|(_, age)| age.is_some()).map(|(put, _)| put.place.home()).collect();
    let times = match timeout_at(until, server::times(calls, &homes)).await {
        Ok(times) => times,
        Err(_) => BTreeMap::new(),
    };
    let date = |(put, age): (&mut &mut Placed, Option<Duration>)| {
        let Some(age) = age else { return Ok(()) };
        // A little late rather than early: what was over before the first try has to be replaced.
        let now_ms = match times.get(&put.place.home()) {
            Some(now) => now.clone()?.0.div_ceil(1000),
            None => return Err(silent(calls)),
        };
        put.first_try = Some(UnixMillis::new(now_ms.saturating_sub(age.as_millis() as u64)));
        Ok(())
    };
    puts.iter_mut().zip(ages).map(date).collect()
}

/// How long ago the first try of each was; `None`: it is no repeat, or is dated.
fn ages(puts: &[&mut Placed]) -> Vec<Option<Duration>> {
    let (host_now, asked) = (clock::now(), clock::instant());
    let age = |put: &&mut Placed| match put.message.tried {
        _ if put.first_try.is_some() => None,
        Some(tried) => Some(host_now.since(tried)),
        // Its record says whether the first try arrived.
        None if put.message.record.is_some() => None,
        None => put.lost.map(|began| asked.duration_since(began)),
    };
    puts.iter().map(age).collect()
}

fn silent(calls: &Calls) -> Error {
    let why = "its time, which a repeat needs, was not answered by the deadline".to_owned();
    Error::Unreachable { address: calls.nodes().address(), why }
}
