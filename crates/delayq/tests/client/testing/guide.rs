use delayq::worker::testing::{Isolated, isolated};
use delayq::{Error, Message, Producer, ProducerOptions, PutError, Settled, ShardCount, Topic};
use std::time::Duration;

async fn place_order(producer: &Producer, expiries: &Topic) -> Result<(), PutError> {
    let unpaid = Message::new(expiries.clone(), "order-17").after(Duration::from_secs(30 * 60)); // your program
    producer.put(unpaid).await.map(drop)
}

pub async fn an_unpaid_order_expires_after_half_an_hour(redis: &str) -> Result<(), Error> {
    let (shards, expiries) = (ShardCount::new(1).unwrap(), Topic::new("expiries").unwrap());
    isolated(redis, shards, async |queue: &Isolated| {
        let producer = Producer::start(queue.client().clone(), ProducerOptions::default());
        place_order(&producer, &expiries).await.unwrap();

        let pending = queue.pending(&expiries).await.unwrap(); // nothing waits for half an hour …
        assert_eq!(pending[0].payload, b"order-17");

        let drained = queue.drain(std::slice::from_ref(&expiries), async |_job| Ok(())).await.unwrap();
        assert_eq!(drained[0].settled, Settled::Delivered);
        assert!(queue.pending(&expiries).await.unwrap().is_empty());
    })
    .await
}
