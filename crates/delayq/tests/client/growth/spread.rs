//! Placement of messages with generated ids.

use crate::growth::grown::{FAR, Grown};
use delayq::protocol::ShardId;
use delayq::{Admin, Message};

async fn holds(grown: &Grown, shards: u16) -> Vec<u64> {
    let shards: Vec<ShardId> = (0..shards).map(ShardId::new).collect();
    let found = Admin::new(grown.client.clone()).shards().layouts(&shards).await.into_iter();
    found.map(|layout| layout.unwrap().unwrap().messages).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_shard_gets_an_equal_share_a_new_one_too() {
    let grown = Grown::new().await;
    let party = grown.party(4);
    let message = |_| Message::new(grown.topic.clone(), "x").after(FAR);
    party.put_all((0..40_000).map(message)).await;
    let before = holds(&grown, 4).await;
    assert!(before.iter().all(|&messages| (9_500..=10_500).contains(&messages)), "{before:?}");

    grown.grow(8).await;
    party.put(message(0)).await;
    let before = holds(&grown, 8).await;
    party.put_all((0..40_000).map(message)).await;
    let got: Vec<u64> = holds(&grown, 8).await.iter().zip(before).map(|(now, then)| now - then).collect();
    assert!(got.iter().all(|messages| (4_500..=5_500).contains(messages)), "{got:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_tells_how_many_messages_it_holds() {
    let grown = Grown::new().await;
    let party = grown.party(4);
    let mut puts = Vec::new();
    for _ in 0..40 {
        puts.push(
            party.producer.put(Message::new(grown.topic.clone(), "x").after(FAR)).await.unwrap().reference,
        );
    }
    assert_eq!(holds(&grown, 4).await.iter().sum::<u64>(), 40);
    for reference in puts.iter().take(15) {
        party.producer.cancel(&grown.topic, &reference.clone().into()).await.unwrap();
    }
    let expected: Vec<u64> = (0..4)
        .map(|shard| puts.iter().skip(15).filter(|reference| reference.shard.get() == shard).count() as u64)
        .collect();
    assert_eq!(holds(&grown, 4).await, expected);
}
