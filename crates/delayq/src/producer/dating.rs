//! Dating repeats: a put carries the start of an earlier attempt that may have arrived, on the clock of the shard's
//! Redis.
//!
//! By this time a topic tells if the first attempt may be forgotten, and a replacing put does not replace the message
//! of the first attempt. Redis would take an undated repeat for a new message, so undated repeats are not sent.

use crate::calls::Calls;
use crate::error::Error;
use crate::placing::Placed;
use crate::{clock, server};
use delayq_core::shard::ShardId;
use delayq_core::time::UnixMillis;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

/// Dates the repeats among these puts: the present time of the shard's Redis, less the age of the first attempt by this
/// host's clock. Returns one answer for each put, in order.
///
/// # Errors
/// Redis did not answer TIME.
pub(super) async fn date(calls: &Calls, puts: &mut [&mut Placed], until: Instant) -> Vec<Result<(), Error>> {
    let ages = ages(puts);
    if ages.iter().all(Option::is_none) {
        return puts.iter().map(|_| Ok(())).collect();
    }
    let homes: BTreeSet<ShardId> =
        puts.iter().zip(&ages).filter(|(_, age)| age.is_some()).map(|(put, _)| put.place.home()).collect();
    let times = server::times(calls, &homes, until.saturating_duration_since(clock::instant())).await;
    let date = |(put, age): (&mut &mut Placed, Option<Duration>)| -> Result<(), Error> {
        let Some(age) = age else { return Ok(()) };
        // Rounded up: a message that finished before the first attempt has to be replaced.
        let now_ms = times[&put.place.home()].clone()?.0.div_ceil(1000);
        put.first_try = Some(UnixMillis::new(now_ms.saturating_sub(age.as_millis() as u64)));
        Ok(())
    };
    puts.iter_mut().zip(ages).map(date).collect()
}

/// Returns the age of each first attempt; `None` if the put is no repeat, or is already dated.
fn ages(puts: &[&mut Placed]) -> Vec<Option<Duration>> {
    let (host_now, asked) = (clock::now(), clock::instant());
    let age = |put: &&mut Placed| match put.message.tried {
        _ if put.first_try.is_some() => None,
        Some(tried) => Some(host_now.since(tried)),
        // The record tells Redis if the first attempt arrived.
        None if put.message.record.is_some() => None,
        None => put.lost.map(|began| asked.duration_since(began)),
    };
    puts.iter().map(age).collect()
}
