//! Consuming jobs: the first queue with a job wins, and a client that goes takes no job with it.

use super::ask::CheckedCall;
use super::job::{Job, shown, target};
use super::reply::{self, JobReply, Refusal, error, internal};
use crate::dispatch::{Handed, Poll, Wanted, WantedKind, watched};
use crate::receipts::Signer;
use bytes::Bytes;
use delayq::Topic;
use delayq::protocol::{Layout, Reservation, ShardId};
use serde_json::json;
use std::time::Duration;

/// Seconds until a job that is not deleted comes back.
const TTR: u32 = 120;
const MAX_LEASE: Duration = Duration::from_secs(24 * 3600);
const MAX_COUNT: u64 = 100;
/// Maximum stored bytes of an answer, which the last job may exceed.
const MAX_BYTES: u32 = 16 * 1024 * 1024;

pub(super) async fn consume(mut ask: CheckedCall) -> JobReply {
    let (outgoing, peer) = ask.connection.take().expect("the server gives every request its connection");
    let ttr = ask.query.number("ttr", TTR)?;
    let timeout = ask.query.number("timeout", 0)?;
    let count = ask.query.signed("count", 1, 1)?;
    if count > MAX_COUNT {
        return Err(error(400, "invalid count"));
    }
    if ask.call.queue.split(',').all(str::is_empty) {
        return Err(error(400, "invalid queue name(s)"));
    }
    if ask.topics.is_empty() {
        return Err(none());
    }
    let full = || error(503, "too many consumers are waiting");
    let _place = ask.app.unscoped().dispatcher.place().ok_or_else(full)?;
    let _counted = ask.app.metrics.poll_began();
    // Before anything is leased: a job may need a receipt.
    let signer = ask.app.unscoped().receipts.signer().await.map_err(internal)?;
    let lease = Duration::from_secs(ttr.into()).clamp(Duration::from_millis(1), MAX_LEASE);
    let kind = WantedKind {
        tenant: None,
        homes: homes(&ask.app.unscoped().admin.client().layout(), &ask.topics),
        topics: ask.topics.clone(),
        lease,
        max_bytes: MAX_BYTES,
    };
    let poll = |max: u64, wait| {
        let wanted = Wanted { kind: kind.clone(), max: max as u16 };
        ask.app.unscoped().dispatcher.reserve(Poll { wanted, wait, peer: peer.clone() })
    };
    let wait = Duration::from_secs(timeout.into());
    let mut handed = poll(count, if count == 1 { wait } else { Duration::ZERO }).await.map_err(internal)?;
    if handed.is_none() && count > 1 && timeout > 0 {
        handed = poll(1, wait).await.map_err(internal)?;
    }
    let Some(handed) = handed else { return Err(none()) };
    ask.lmstfy.counters.consumed(&ask.pool, handed.messages(), count > 1);
    let bytes = Bytes::from(text(&handed, count > 1, &signer));
    Ok(reply::typed(200, reply::JSON, watched(bytes, Some(handed), outgoing)))
}

fn none() -> Refusal {
    reply::refusal(404, &json!({ "msg": "no job available" }))
}

fn text(handed: &Handed, is_many: bool, signer: &Signer) -> String {
    let job = |message| Job::taken(message, job_id(message, signer));
    match handed.messages() {
        [message] if !is_many => reply::text(&job(message)),
        messages => reply::text(&messages.iter().map(job).collect::<Vec<_>>()),
    }
}

/// The id that deletes the job: a signed receipt where no text names the message alone.
fn job_id(message: &Reservation, signer: &Signer) -> String {
    let text = shown(&message.id);
    let is_named = message.envelope.group.is_none() || message.id.shard().is_some();
    match target(&text) {
        Some(target) if is_named && target.id == message.id => text,
        _ => signer.text(&message.receipt),
    }
}

/// The shards in which the jobs of these queues are, in the order of the queues. Those from before a growth come first, because
/// their jobs are older.
fn homes(layout: &Layout, topics: &[Topic]) -> Vec<ShardId> {
    let mut homes = Vec::new();
    for topic in topics {
        for count in layout.counts() {
            let home = count.shard_of_name(topic.as_str());
            if !homes.contains(&home) {
                homes.push(home);
            }
        }
    }
    homes
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq::ShardCount;

    #[test]
    fn the_homes_of_queues_come_in_their_order_and_the_oldest_first() {
        let [few, many] = [4, 64].map(|count| ShardCount::new(count).unwrap());
        let layout = Layout::new(few).grown_to(many).unwrap();
        let topics: Vec<Topic> = ["ns/a", "ns/b"].map(|name| Topic::new(name).unwrap()).into();
        let of = |count: ShardCount, at: usize| count.shard_of_name(topics[at].as_str());
        let mut wanted = vec![of(few, 0), of(many, 0), of(few, 1), of(many, 1)];
        let mut seen = Vec::new();
        wanted.retain(|home| {
            !seen.contains(home) && {
                seen.push(*home);
                true
            }
        });
        assert_eq!(homes(&layout, &topics), wanted);
    }
}
