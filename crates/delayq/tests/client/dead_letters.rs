//! Dead letters through the client: buried by a worker, and replayed at once, by reason, in part, or slowly.

use delayq::admin::{ListState, Listed, ReplayOptions, TimeRange};
use delayq::{Consumer, ConsumerOptions, Message, Topic};
use delayq_tests::deadline::{LONG, within};
use delayq_tests::deployment::Deployment;
use std::time::Duration;

struct Dead {
    deployment: Deployment,
    topic: Topic,
}

impl Dead {
    /// `0` is the oldest; even letters died of a timeout, odd letters of invalid JSON.
    async fn letters(shards: u16, count: usize) -> Self {
        let dead = Self { deployment: Deployment::new(shards).await, topic: Topic::new("orders").unwrap() };
        let mut consumer = dead.consumer();
        for n in 0..count {
            let message = Message::new(dead.topic.clone(), "x").id(n.to_string()).unwrap();
            dead.deployment.put([message]).await;
            let delivery = within("a delivery", LONG, consumer.next()).await.unwrap();
            let reason = if n % 2 == 0 { "timeout of the receiver" } else { "no JSON" };
            delivery.bury(reason).await.unwrap();
        }
        consumer.stop().await;
        dead
    }

    fn consumer(&self) -> Consumer {
        let options = ConsumerOptions::new([self.topic.clone()]).concurrency(1);
        Consumer::start(self.deployment.client.clone(), options).unwrap()
    }

    async fn replay(&self, options: ReplayOptions) -> u64 {
        self.deployment.admin.topic(&self.topic).replay(&options).await.unwrap().replayed
    }

    async fn list(&self, state: ListState) -> Vec<Listed> {
        self.deployment.admin.topic(&self.topic).list(state, TimeRange::ALL, 1000).await.unwrap()
    }

    async fn ids(&self, state: ListState) -> Vec<String> {
        let mut ids: Vec<String> =
            self.list(state).await.iter().map(|listed| listed.id.to_string()).collect();
        ids.sort_unstable();
        ids
    }
}

const DEAD: ListState = ListState::Dead { newest_first: false };

#[tokio::test]
async fn all_dead_letters_of_every_shard_live_again_with_their_attempts_counted_again() {
    let dead = Dead::letters(4, 9).await;
    assert_eq!(dead.replay(ReplayOptions::default()).await, 9);
    let numbers = dead.deployment.admin.topic(&dead.topic).count().await.unwrap();
    assert_eq!((numbers.dead, numbers.ready), (0, 9));
    assert_eq!(dead.replay(ReplayOptions::default()).await, 0);
    let mut consumer = dead.consumer();
    for _ in 0..9 {
        let delivery = within("a delivery", LONG, consumer.next()).await.unwrap();
        assert_eq!((delivery.envelope.attempt, delivery.envelope.delivery), (1, 2));
        delivery.ack().await.unwrap();
    }
    consumer.stop().await;
}

#[tokio::test]
async fn a_replay_by_reason_leaves_those_that_died_of_another() {
    let dead = Dead::letters(2, 6).await;
    let timeouts = ReplayOptions::default().reason("timeout");
    assert_eq!(dead.replay(timeouts).await, 3);
    assert_eq!(dead.ids(ListState::Ready).await, ["0", "2", "4"]);
    assert_eq!(dead.ids(DEAD).await, ["1", "3", "5"]);
}

#[tokio::test]
async fn a_replay_of_at_most_so_many_takes_the_oldest_of_those_that_fit() {
    let dead = Dead::letters(1, 6).await;
    let most = |most| ReplayOptions::default().max_messages(most);
    assert_eq!(dead.replay(most(0)).await, 0);
    assert_eq!(dead.replay(most(2)).await, 2);
    assert_eq!(dead.ids(ListState::Ready).await, ["0", "1"]);
    let one = most(1).reason("JSON");
    assert_eq!(dead.replay(one).await, 1);
    assert_eq!(dead.ids(ListState::Ready).await, ["0", "1", "3"]);
    assert_eq!(dead.replay(most(100)).await, 3);
}

#[tokio::test]
async fn a_replay_at_a_rate_makes_them_due_one_after_the_other_over_all_shards() {
    let dead = Dead::letters(2, 5).await;
    let delay = Duration::from_secs(3600);
    assert_eq!(dead.replay(ReplayOptions::default().rate(10).delay(delay)).await, 5);
    let listed = dead.list(ListState::Delayed).await;
    let mut dues: Vec<u64> =
        listed.iter().map(|listed| listed.envelope.as_ref().unwrap().due.get()).collect();
    dues.sort_unstable();
    assert_eq!(dues.len(), 5);
    assert!(dues.windows(2).all(|pair| pair[1] - pair[0] >= 100), "{dues:?}");
}
