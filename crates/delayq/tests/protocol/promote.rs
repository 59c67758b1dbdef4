//! Promotion: delayed messages become ready before their due time.

use delayq::admin::{Numbers, PromoteOptions, Promoted, TimeRange};
use delayq::protocol::{Holder, ReserveRequest, ShardId};
use delayq::{Consumer, ConsumerOptions, Group, Members, Message, Topic, UnixMillis};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::deployment::Deployment;
use std::time::Duration;
use tokio::time::timeout;

const HOUR: Duration = Duration::from_secs(3600);
const SHARDS: [u16; 3] = [1, 2, 7];

fn topic(name: &str) -> Topic {
    Topic::new(name).unwrap()
}

fn message(name: &str, id: &str, hours: u32) -> Message {
    Message::new(topic(name), "x").id(id).unwrap().after(HOUR * hours)
}

fn promoted(promoted: u64) -> Promoted {
    Promoted { promoted, kept: 0 }
}

async fn until(scene: &Deployment, hours: u64) -> PromoteOptions {
    let to = UnixMillis::new(scene.now().await.get() + hours * 3_600_000 + 60_000);
    PromoteOptions::default().due(TimeRange { from: UnixMillis::new(0), to })
}

async fn held(scene: &Deployment, name: &str) -> (u64, u64) {
    let Numbers { delayed, ready, .. } = scene.admin.topic(&topic(name)).count().await.unwrap();
    (delayed, ready)
}

async fn is_sound(scene: &Deployment) {
    let audit = scene.admin.audit().run(|_| {}).await.unwrap();
    assert!(audit.findings.is_empty() && audit.drifts.is_empty(), "{audit:?}");
}

#[tokio::test]
async fn what_is_due_up_to_a_time_is_ready_whatever_the_number_of_shards() {
    for shards in SHARDS {
        let scene = Deployment::new(shards).await;
        scene.put((1..=40).map(|n| message("a", &format!("a{n}"), n))).await;
        scene.put([message("b", "b1", 1)]).await;
        let options = until(&scene, 30).await;
        let mut seen = Vec::new();
        let outcome = scene.admin.promote(&topic("a"), &options, |so_far| seen.push(so_far)).await;
        assert_eq!(outcome.unwrap(), promoted(30), "{shards} shards");
        assert!(seen.is_sorted() && seen.last() == Some(&30), "{seen:?}");
        assert_eq!(held(&scene, "a").await, (10, 30));
        assert_eq!(held(&scene, "b").await, (1, 0), "another topic waits");
        let again = scene.admin.promote(&topic("a"), &options, |_| {}).await.unwrap();
        assert_eq!(again, promoted(0), "a repeat finds nothing");
        is_sound(&scene).await;
    }
}

#[tokio::test]
async fn a_group_is_promoted_in_all_topics_or_in_one() {
    for shards in SHARDS {
        let scene = Deployment::new(shards).await;
        let group = Group::new("user-5").unwrap();
        let of = |name: &str, n: u32| message(name, &format!("{name}{n}"), n).group("user-5").unwrap();
        scene.put((1..=6).flat_map(|n| [of("a", n), of("b", n)])).await;
        scene.put([message("a", "alone", 1)]).await;
        let in_a = Members::of_topic(group.clone(), topic("a"));
        let options = until(&scene, 4).await;
        assert_eq!(scene.admin.promote(&in_a, &options, |_| {}).await.unwrap(), promoted(4));
        assert_eq!((held(&scene, "a").await, held(&scene, "b").await), ((3, 4), (6, 0)));
        let all = PromoteOptions::default();
        assert_eq!(scene.admin.promote(&Members::from(&group), &all, |_| {}).await.unwrap(), promoted(8));
        assert_eq!((held(&scene, "a").await, held(&scene, "b").await), ((1, 6), (0, 6)));
        is_sound(&scene).await;
    }
}

#[tokio::test]
async fn a_promotion_stops_at_its_maximum_with_the_earliest_and_keeps_to_its_rate() {
    let scene = Deployment::new(1).await;
    scene.put((1..=300).rev().map(|n| message("a", &format!("{n:03}"), n))).await;
    let options = PromoteOptions::default().max_messages(250).rate(1000);
    let began = std::time::Instant::now();
    assert_eq!(scene.admin.promote(&topic("a"), &options, |_| {}).await.unwrap(), promoted(250));
    assert!(began.elapsed() >= Duration::from_millis(250), "1,000 per second");
    let request = ReserveRequest { topics: vec![topic("a")], most: 250, max_bytes: 0, lease: Some(HOUR) };
    let holder = Holder::new(scene.client.clone());
    let report = holder.reserve(&[(ShardId::new(0), request)]).await.remove(0).unwrap();
    let ids: Vec<_> = report.messages.iter().map(|message| message.id.to_string()).collect();
    assert_eq!(
        ids,
        (1..=250).map(|n| format!("{n:03}")).collect::<Vec<_>>(),
        "in the order of their due times"
    );
    assert_eq!(held(&scene, "a").await, (50, 0));
    let refused = scene.admin.promote(&topic("a"), &PromoteOptions::default().rate(0), |_| {}).await;
    assert_eq!(refused.unwrap_err().to_string(), "rate is 0: it must be from 1 to 4294967295");
    is_sound(&scene).await;
}

#[tokio::test]
async fn a_consumer_hands_out_the_earliest_due_of_all_shards_and_promotes_no_more_than_it_holds() {
    for shards in SHARDS {
        let scene = Deployment::new(shards).await;
        scene.put((1..=20).rev().map(|n| message("a", &format!("{n:02}"), n))).await;
        let until = until(&scene, 10).await.due.to;
        let options = ConsumerOptions::new([topic("none"), topic("a")]).concurrency(1).promote_until(until);
        let mut consumer = Consumer::start(scene.client.clone(), options).unwrap();
        for n in 1..=10 {
            let delivery = consumer.next().await.unwrap();
            assert_eq!(delivery.id.to_string(), format!("{n:02}"), "{shards} shards");
            assert_eq!(held(&scene, "a").await, (20 - n, 0));
            delivery.ack().await.unwrap();
        }
        scene.put([message("a", "late", 5)]).await;
        let late = consumer.next().await.unwrap();
        assert_eq!((late.id.to_string(), held(&scene, "a").await), ("late".to_owned(), (10, 0)));
        late.ack().await.unwrap();
        consumer.stop().await;
        is_sound(&scene).await;
    }
}

#[tokio::test]
async fn of_a_paused_topic_a_consumer_promotes_no_more_than_it_has_room_for() {
    for shards in SHARDS {
        let scene = Deployment::new(shards).await;
        scene.put((1..=20).map(|n| message("a", &format!("{n:02}"), n))).await;
        scene.admin.topic(&topic("a")).pause().await.unwrap();
        let until = until(&scene, 20).await.due.to;
        let options = ConsumerOptions::new([topic("a")]).concurrency(3).promote_until(until);
        let mut consumer = Consumer::start(scene.client.clone(), options).unwrap();
        wait_until("some to be promoted", LONG, async || held(&scene, "a").await == (17, 3)).await;
        // Two steps more would promote six more.
        assert!(timeout(Duration::from_millis(2_500), consumer.next()).await.is_err());
        assert_eq!(held(&scene, "a").await, (17, 3), "{shards} shards");
        consumer.stop().await;
        is_sound(&scene).await;
    }
}
