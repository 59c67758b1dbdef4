//! A timer's check of the books of its shards.

use crate::stand::Stand;
use delayq::protocol::{BooksAt, Owner, ShardId};

/// Enough shards that the check asks the first within a second.
const SHARDS: u16 = 256;
const FIRST: ShardId = ShardId::new(0);

async fn accept(stand: &Stand, by: i32) {
    let () = stand.server.command(&["HINCRBY", "{dq:0}:stats", "accepted:1", &by.to_string()]).await;
}

async fn off_by(stand: &Stand) -> Vec<Option<u64>> {
    let owner = Owner::new(stand.client.clone());
    let page = owner.books(FIRST, BooksAt::default()).await.unwrap();
    assert_eq!(page.next, BooksAt::default(), "one topic is one page");
    page.topics.into_iter().map(|(_, off_by)| off_by).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_tells_by_how_many_messages_the_books_are_off() {
    let stand = Stand::new(SHARDS).await;
    let now = stand.now_ms().await;
    stand.put_into(FIRST, [now, now + 3_600_000, now + 86_400_000]).await;
    assert_eq!(off_by(&stand).await, [Some(0)]);
    accept(&stand, 3).await;
    let timer = stand.timer().await;
    timer.reaches("delayq_timer_books_off_messages", 3.0).await;
    timer.exceeds("delayq_timer_books_counted_total", 0.5).await;
    accept(&stand, -5).await;
    assert_eq!(off_by(&stand).await, [Some(2)], "too few accepted");
    accept(&stand, 2).await;
    assert_eq!(off_by(&stand).await, [Some(0)]);
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn books_that_cannot_be_counted_at_one_instant_say_nothing() {
    let stand = Stand::new(1).await;
    let first = stand.now_ms().await + 3_600_000;
    stand.put_into(FIRST, (0..1_100).map(|hour| first + hour * 3_600_000)).await;
    accept(&stand, 3).await;
    assert_eq!(off_by(&stand).await, [None]);
}
