//! Fair order: how long the only message of a group waits for a worker that is busy with the backlog of another group.

use crate::bench::Bench;
use crate::clock;
use crate::error::BenchError;
use crate::figures::{Figure, Target, percentile_ms};
use crate::lateness::apart;
use crate::shape::Shape;
use delayq::admin::{GroupOrder, Policy};
use delayq::protocol::NameError;
use delayq::{Admin, Client, Consumer, ConsumerOptions, Delivery, Group, Message, MessageId, Topic};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{interval, sleep, timeout};

/// Ready messages of the one group.
const BACKLOG: usize = 1_000_000;
const BATCH: usize = 4000;
/// Messages of other groups, one each, and the time from one to the next.
const OTHERS: usize = 1000;
const EVERY: Duration = Duration::from_millis(10);
/// Handlers of the worker, and the time that each needs for a message.
const HANDLERS: usize = 64;
const HANDLING: Duration = Duration::from_millis(10);

// === impl Bench ===

impl Bench {
    /// From the put of a message to its handler: beside the backlog, and as the limit without one.
    pub(crate) async fn fair(&self, shape: Shape) -> Result<Vec<Figure>, BenchError> {
        let alone = self.fair_waits(shape, 0).await?;
        let beside = self.fair_waits(shape, BACKLOG).await?;
        let figure = |name, part| {
            let (measured, limit) = (percentile_ms(&beside, part), percentile_ms(&alone, part));
            Figure::new(shape, name, "ms", measured).limit(limit).target(Target::AtMost(2.0 * limit))
        };
        Ok(vec![
            figure("put -> worker, beside 1 M of another group, p50", 0.5),
            figure("put -> worker, beside 1 M of another group, p99", 0.99),
        ])
    }

    /// Sorted, in µs.
    async fn fair_waits(&self, shape: Shape, backlog: usize) -> Result<Vec<u64>, BenchError> {
        let mut prepared = self.prepared(shape).await?;
        let topic = prepared.messages.topic.clone();
        let fair = Policy { group_order: Some(GroupOrder::Fair), ..Policy::default() };
        Admin::new(prepared.client.clone()).topic(&topic).set_policy(&fair).await?;
        let ready = prepared.redis_ms().await?;
        let message = |id: String, group: String, payload: Vec<u8>| {
            let message = Message::new(topic.clone(), payload).at(ready);
            Ok::<_, NameError>(message.with_id(MessageId::own(id)?).with_group(Group::new(group)?))
        };
        for from in (0..backlog).step_by(BATCH) {
            let one = |n: usize| message(format!("order-{n}"), "large".to_owned(), Vec::new());
            let batch = (from..from + BATCH).map(one).collect::<Result<_, _>>()?;
            for put in prepared.producer.put_many(batch).await {
                put?;
            }
        }
        let (started, start) = oneshot::channel();
        let worker = apart(work(self.client(shape.shards), topic.clone(), backlog > 0, started));
        let others = async {
            start.await.map_err(|_| BenchError::Wrong("the worker ended".to_owned()))?;
            let mut ticks = interval(EVERY);
            for n in 0..OTHERS {
                ticks.tick().await;
                let now_us = clock::micros(clock::since_epoch()).to_be_bytes();
                let message = message(format!("other-{n}"), format!("customer-{n}"), now_us.into())?;
                prepared.producer.put(message).await?;
            }
            Ok(())
        };
        Ok(tokio::try_join!(worker, others)?.0)
    }
}

/// Works until the messages of all other groups came; `started` once all handlers are busy, if there is a backlog.
async fn work(
    client: Client,
    topic: Topic,
    is_busy: bool,
    started: oneshot::Sender<()>,
) -> Result<Vec<u64>, BenchError> {
    let mut options = ConsumerOptions::new([topic]);
    options.concurrency = HANDLERS;
    let mut consumer = Consumer::start(client, options).expect("the options are in their ranges");
    let (mut waits, mut handed, mut started) = (Vec::new(), 0, Some(started));
    while waits.len() < OTHERS {
        if handed >= HANDLERS || !is_busy {
            started.take().map(|started| started.send(()));
        }
        let delivery = timeout(clock::PATIENCE, consumer.next()).await;
        let Ok(Some(delivery)) = delivery else {
            return Err(BenchError::Wrong(format!("only {} of {OTHERS} were delivered", waits.len())));
        };
        waits.extend(waited_us(&delivery));
        handed += 1;
        tokio::spawn(async move {
            sleep(HANDLING).await;
            delivery.ack().await
        });
    }
    waits.sort_unstable();
    Ok(waits)
}

/// Since the put, of a message of another group.
fn waited_us(delivery: &Delivery) -> Option<u64> {
    let put_us = u64::from_be_bytes(delivery.payload().try_into().ok()?);
    Some(clock::micros(clock::since_epoch()).saturating_sub(put_us))
}
