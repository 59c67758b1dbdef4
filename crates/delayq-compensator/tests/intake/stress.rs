//! Writes of few messages in every order under kills: the order of the records decides the end.

use crate::stage::{Broker, Running, Sent, Stage, topic};
use delayq::admin::Policy;
use delayq::{Admin, MessageId, State, Target};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::last_word::{Is, PAYLOAD, Verb, Write, id, writes};
use std::collections::BTreeMap;
use std::time::Duration;

const A_ROUND: usize = 400;
/// Small batches, so that a kill comes between few records.
const SMALL: &str = "batch = 5\nin_flight = 20";

fn record(write: &Write) -> Sent {
    let due = (write.due_s * 1000).to_string();
    let mut headers =
        vec![("delayq-verb", write.verb.name()), ("delayq-topic", "orders"), ("delayq-due", due.as_str())];
    let id = write.id();
    headers.push(("delayq-id", id.as_str()));
    match write.verb {
        Verb::Put | Verb::Reschedule => {}
        Verb::Replace => headers.push(("delayq-replace", "true")),
        Verb::Cancel => headers.retain(|(name, _)| *name != "delayq-due"),
    }
    let body = if write.verb.name() == "put" { PAYLOAD } else { "" };
    Sent { key: id.clone(), ..Sent::new(&headers, body) }
}

async fn each_is<B: Broker>(stage: &Stage<B>, expected: BTreeMap<u64, Is>) {
    let admin = Admin::new(stage.deployment.client.clone());
    for (message, expected) in expected {
        let target = Target::from(MessageId::own(id(message)).unwrap());
        let found = match admin.topic(&topic()).get(&target).await.unwrap() {
            None => Is::Unknown,
            Some(kept) => match kept.envelope.unwrap() {
                kept if kept.state == State::Cancelled => Is::Cancelled,
                kept => Is::Due(kept.due.get() / 1000),
            },
        };
        assert_eq!(found, expected, "{}", id(message));
    }
}

/// Publishes a part of the writes, and replaces one of the compensators by a kill meanwhile.
async fn round<B: Broker>(
    stage: &Stage<B>,
    writes: &[Write],
    compensators: &mut [Running; 2],
    random: &mut fastrand::Rng,
) {
    stage.broker.publish(writes.iter().map(record).collect()).await;
    let left = random.u64(1..=writes.len() as u64);
    wait_until("some of the records", LONG, async || stage.broker.unsettled().await <= left).await;
    let next = stage.compensator(SMALL).await;
    std::mem::replace(&mut compensators[random.usize(0..2)], next).kill().await;
}

pub(crate) async fn each_message_ends_as_the_order_of_its_records_says<B: Broker>() {
    let stage = Stage::<B>::start().await;
    let remember = Policy {
        remember_own: Some(Duration::from_secs(86_400)),
        remember_cancelled: Some(Duration::from_secs(86_400)),
        ..Policy::default()
    };
    stage.deployment.admin.topic(&topic()).set_policy(&remember).await.unwrap();
    let mut random = fastrand::Rng::with_seed(11);
    let all: Vec<Write> = (0..writes()).map(|n| Write::random(n, &mut random)).collect();
    let mut compensators = [stage.compensator(SMALL).await, stage.compensator(SMALL).await];
    // Few rounds: some brokers deliver a killed reader's records again only after a while, and each round
    // waits for that.
    for part in all.chunks(A_ROUND.max(all.len().div_ceil(25))) {
        round(&stage, part, &mut compensators, &mut random).await;
    }
    stage.is_settled().await;
    each_is(&stage, Is::of_each(all)).await;
    for compensator in compensators {
        compensator.stop().await;
    }
}
