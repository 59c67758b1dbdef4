//! Expiry after a change of the due time: an expiry by the topic moves too, an expiry by the producer stays.

use crate::action::{Action, Item};
use crate::bare_shard::{BareShard, scripts_with};
use crate::lab::in_g;
use crate::snapshot::{Name, lossy};
use delayq::UnixMillis;
use delayq::protocol::Verb;
use delayq_tests::redis_server::{RedisServer, SharedRedis};

const NOW: u64 = 1_763_697_600_000;
const AFTER: u64 = 1000;

/// A topic whose messages expire a second after their due time. `follows` uses the topic's expiry, `stays` an
/// expiry of its own.
async fn shard(server: &SharedRedis) -> BareShard {
    let mut shard = BareShard::create(server, "x", scripts_with(&[])).await;
    shard.clock_us = Some(NOW * 1000);
    shard.call(Verb::Configure, &["t", "expire_after_ms", &AFTER.to_string()]).await.unwrap();
    let item = |id: &[u8]| Item::new(id, NOW + 100).in_group("g");
    let (follows, stays) = (item(b"follows"), Item { expires: Some(NOW + 5000), ..item(b"stays") });
    let put = Action::Put { topic: "t".into(), items: vec![follows, stays] };
    shard.call(Verb::Put, &put.args()).await.unwrap();
    shard
}

async fn expiry(shard: &mut BareShard, id: &str) -> Option<UnixMillis> {
    let name: Name = (1, in_g(id).into());
    let snapshot = shard.snapshot().await;
    let stored = snapshot.envelope(&name).unwrap().expires;
    let listed = snapshot.index("expiries").get(format!("1:{}", in_g(id)).as_bytes()).copied();
    assert_eq!(stored.filter(|at| *at < UnixMillis::MAX).map(UnixMillis::get), listed, "{id}");
    stored
}

async fn reschedule(shard: &mut BareShard, id: &str, due: u64) -> String {
    let change = ["t", &in_g(id), &due.to_string(), ""];
    lossy(&shard.call(Verb::Reschedule, &change).await.unwrap()[0])
}

#[tokio::test]
async fn an_expiry_that_goes_by_the_topic_moves_with_the_due_time() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server).await;
    for due in [NOW + 100_000, NOW + 50, NOW] {
        let word = reschedule(&mut shard, "follows", due).await;
        assert!(word.starts_with(if due > NOW { "delayed" } else { "ready" }), "{word}");
        assert_eq!(expiry(&mut shard, "follows").await, Some(UnixMillis::new(due + AFTER)));
    }
    // The message is delivered before the new expiry, and expires at the new expiry.
    reschedule(&mut shard, "follows", NOW + 100_000).await;
    shard.clock_us = Some((NOW + 100_000 + AFTER) * 1000);
    let report = shard.call(Verb::Pump, &["0", "500"]).await.unwrap();
    let report = [report, shard.call(Verb::Pump, &["0", "500"]).await.unwrap()].concat();
    assert_eq!(shard.snapshot().await.number("stats", "expired:1"), 2, "{report:?}");
}

#[tokio::test]
async fn an_expiry_of_the_producers_own_stays_and_nothing_moves_past_it() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server).await;
    let own = Some(UnixMillis::new(NOW + 5000));
    assert_eq!(
        reschedule(&mut shard, "stays", NOW + 4999).await,
        format!("delayed {} {}", NOW + 100, NOW + 4999)
    );
    assert_eq!(expiry(&mut shard, "stays").await, own);
    let refused = reschedule(&mut shard, "stays", NOW + 5000).await;
    assert_eq!(refused, "refused expiry not after the due time");
    assert_eq!(expiry(&mut shard, "stays").await, own);
}

#[tokio::test]
async fn a_group_that_is_shifted_takes_the_expiries_along_that_go_by_the_topic() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server).await;
    let answer = shard.call(Verb::ShiftGroup, &["g", "", "token", "60000", "500"]).await.unwrap();
    assert_eq!(answer.iter().map(|item| lossy(item)).collect::<Vec<_>>(), ["done", "1", "1"]);
    assert_eq!(expiry(&mut shard, "follows").await, Some(UnixMillis::new(NOW + 60_100 + AFTER)));
    assert_eq!(expiry(&mut shard, "stays").await, Some(UnixMillis::new(NOW + 5000)));
}

#[tokio::test]
async fn a_lifetime_of_its_own_is_counted_from_the_due_time_whatever_the_topic_says() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server).await;
    let item = Item { lifetime: Some(70), ..Item::new(b"lasts", NOW + 100).in_group("g") };
    let put = Action::Put { topic: "t".into(), items: vec![item] };
    shard.call(Verb::Put, &put.args()).await.unwrap();
    assert_eq!(expiry(&mut shard, "lasts").await, Some(UnixMillis::new(NOW + 170)));
    for after in ["0", "5"] {
        shard.call(Verb::Configure, &["t", "expire_after_ms", after]).await.unwrap();
        for due in [NOW + 100_000, NOW + 50] {
            reschedule(&mut shard, "lasts", due).await;
            assert_eq!(expiry(&mut shard, "lasts").await, Some(UnixMillis::new(due + 70)));
        }
    }
}

#[tokio::test]
async fn a_lifetime_that_no_message_may_have_is_refused() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server).await;
    for (lifetime, expires) in [(0, None), (1 << 53, None), (u64::MAX, None), (5, Some(NOW + 5000))] {
        let item = Item { lifetime: Some(lifetime), expires, ..Item::new(b"lasts", NOW + 100) };
        let put = Action::Put { topic: "t".into(), items: vec![item] };
        let answer = shard.call(Verb::Put, &put.args()).await.unwrap();
        assert!(
            answer[1].starts_with(b"refused ") && answer[1].ends_with(b"lifetime"),
            "{lifetime}: {answer:?}"
        );
    }
}

async fn bury_both(shard: &mut BareShard) {
    shard.clock_us = Some((NOW + 200) * 1000);
    shard.call(Verb::Pump, &["0", "500"]).await.unwrap();
    let answer = shard.call(Verb::Reserve, &["10", "0", "1000", "t"]).await.unwrap();
    for at in [10, 13] {
        let word = shard.call(Verb::Bury, &[&answer[at][..], b"broken"]).await.unwrap();
        assert_eq!(word, [b"buried"]);
    }
}

async fn replay(shard: &mut BareShard, id: &str, delay: &str) -> String {
    lossy(&shard.call(Verb::Replay, &["t", delay, &in_g(id)]).await.unwrap()[0])
}

#[tokio::test]
async fn a_replayed_dead_letter_does_not_expire_at_once() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server).await;
    bury_both(&mut shard).await;
    let later = NOW + 60_000;
    shard.clock_us = Some(later * 1000);
    assert_eq!(replay(&mut shard, "follows", "0").await, format!("ready {later}"));
    assert_eq!(expiry(&mut shard, "follows").await, Some(UnixMillis::new(later + AFTER)));
    shard.call(Verb::Pump, &["0", "500"]).await.unwrap();
    let answer = shard.call(Verb::Reserve, &["10", "0", "1000", "t"]).await.unwrap();
    assert_eq!((lossy(&answer[3]), lossy(&answer[8])), ("0".into(), "1".into()), "expired, reserved");
}

#[tokio::test]
async fn a_dead_letter_past_an_expiry_of_its_own_is_refused_and_stays_dead() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server).await;
    bury_both(&mut shard).await;
    let refused = "refused expiry not after the due time";
    for (now, delay) in [(NOW + 4000, "1000"), (NOW + 5000, "0"), (NOW + 60_000, "0")] {
        shard.clock_us = Some(now * 1000);
        let before = format!("{:?}", shard.snapshot().await.dead);
        assert_eq!(replay(&mut shard, "stays", delay).await, refused);
        assert_eq!(format!("{:?}", shard.snapshot().await.dead), before);
    }
    shard.clock_us = Some((NOW + 4000) * 1000);
    assert_eq!(replay(&mut shard, "stays", "999").await, format!("delayed {}", NOW + 4999));
    assert_eq!(expiry(&mut shard, "stays").await, Some(UnixMillis::new(NOW + 5000)));
}

#[tokio::test]
async fn a_message_whose_topic_lets_none_expire_any_more_expires_no_more_once_it_is_moved() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server).await;
    bury_both(&mut shard).await;
    shard.call(Verb::Configure, &["t", "expire_after_ms", ""]).await.unwrap();
    replay(&mut shard, "follows", "100").await;
    assert_eq!(expiry(&mut shard, "follows").await, Some(UnixMillis::MAX));
    reschedule(&mut shard, "follows", NOW + 50_000).await;
    assert_eq!(expiry(&mut shard, "follows").await, Some(UnixMillis::MAX));
}
