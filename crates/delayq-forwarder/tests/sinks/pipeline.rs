//! The pipeline around the sinks: routes, bulkheads, drain and kill.

use crate::stage::{Seen, Stage, record, route, topic};
use delayq::admin::Policy;
use delayq::protocol::{Keys, ShardId};
use delayq::{Admin, Message, Producer, ProducerOptions};
use delayq_forwarder::{FileConfig, RedisSinkConfig, SinkConfig};
use delayq_service::config::{ByteSize, HumanDuration, RedisConfig};
use delayq_tests::deadline::{LONG, SHORT, wait_until};
use delayq_tests::invariants::Permit;
use delayq_tests::proxy::{Flow, Proxy};
use delayq_tests::redis_server::RedisServer;
use delayq_tests::stall::Stall;
use delayq_tests::timing::{Timing, conclusive};
use std::time::Duration;

fn file(dir: &std::path::Path) -> SinkConfig {
    SinkConfig { file: Some(FileConfig { dir: dir.to_owned(), rotate_at: None }), ..SinkConfig::default() }
}

fn stream(address: &str) -> SinkConfig {
    let redis = RedisConfig { url: format!("redis://{address}").parse().unwrap(), ..RedisConfig::default() };
    let config = RedisSinkConfig { server: Some(redis), ..RedisSinkConfig::default() };
    SinkConfig { redis: Some(config), ..SinkConfig::default() }
}

fn lines(dir: &std::path::Path, name: &str) -> Vec<Seen> {
    let text = std::fs::read_to_string(dir.join(name)).unwrap_or_default();
    text.lines().map(|line| record(name, line)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_hold_every_message_once() {
    let (stage, folder) = (Stage::new().await, tempfile::tempdir().unwrap());
    let settings = stage.settings([("f", file(folder.path()))], vec![route("t", "f", "{topic}.ndjson")]);
    let running = stage.forward(settings).await.unwrap();
    stage.put("t", 0, 3000, 100).await;
    stage.put_bodies("t", vec![("bytes".into(), (0..=255).collect())]).await;
    stage.drained("t").await;
    running.stop().await;
    stage.check("t", lines(folder.path(), "t.ndjson"), &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_without_a_route_waits_and_is_counted() {
    let (stage, folder) = (Stage::new().await, tempfile::tempdir().unwrap());
    let settings = stage.settings([("f", file(folder.path()))], vec![route("a.*", "f", "a")]);
    let running = stage.forward(settings).await.unwrap();
    stage.put("a.x", 0, 10, 10).await;
    stage.put("b", 100, 10, 10).await;
    stage.drained("a.x").await;
    wait_until("a counted topic", SHORT, || async {
        running.metric("delayq_forwarder_unrouted_topics") >= 1.0
            && running.metric("delayq_forwarder_unrouted_messages") >= 10.0
    })
    .await;
    assert_eq!((stage.numbers("b").await.ready, lines(folder.path(), "a").len()), (10, 10));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_destination_and_a_slow_one_delay_no_other() {
    conclusive(async || {
        let (stage, folder) = (Stage::new().await, tempfile::tempdir().unwrap());
        let server = RedisServer::private().await;
        let (dead, slow) = (Proxy::start(&server.address()), Proxy::start(&server.address()));
        let sinks = [
            ("fine", file(folder.path())),
            ("dead", stream(&dead.address())),
            ("slow", stream(&slow.address())),
        ];
        let routes =
            vec![route("fine", "fine", "f"), route("dead", "dead", "dead"), route("slow", "slow", "slow")];
        let running = stage.forward(stage.settings(sinks, routes)).await.unwrap();
        dead.refuse().await;
        slow.set_both(Flow::Delay(Duration::from_millis(400)));
        stage.put("dead", 0, 1000, 100).await;
        stage.put("slow", 1000, 1000, 100).await;
        wait_until("an open circuit", SHORT, || async {
            running.metric("delayq_forwarder_circuit{sink=\"dead\"") >= 1.0
        })
        .await;
        let (stall, mut timing) = (Stall::watch(), Timing::Kept);
        for round in 0..20 {
            let start = std::time::Instant::now();
            stage.put("fine", 10_000 + round * 10, 10, 100).await;
            stage.drained("fine").await;
            let what = format!("round {round}");
            timing = timing.and(stall.judge(&what, start.elapsed(), Duration::from_millis(700)));
        }
        assert!(stage.numbers("dead").await.pending() == 1000);
        dead.accept().await;
        slow.mend().await;
        stage.drained("dead").await;
        stage.drained("slow").await;
        running.stop().await;
        timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_bytes_are_under_way_than_the_sink_allows() {
    let stage = Stage::new().await;
    let server = RedisServer::private().await;
    let slow = Proxy::start(&server.address());
    slow.set_both(Flow::Delay(Duration::from_millis(100)));
    let (size, most) = (100 * 1024, ByteSize::from_mib(1));
    let sink = SinkConfig { in_flight_bytes: most, ..stream(&slow.address()) };
    stage.put("t", 0, 60, size).await;
    let running = stage.forward(stage.settings([("s", sink)], vec![route("t", "s", "t")])).await.unwrap();
    let bound = (most.bytes() / size as u64 + 1) as f64 + f64::from(stage.client.shards().get());
    wait_until("all delivered", LONG, || async {
        let under_way = running.metric("delayq_forwarder_in_flight{sink=\"s\"}");
        assert!(under_way <= bound, "{under_way} of at most {bound}");
        stage.numbers("t").await.pending() == 0
    })
    .await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_bytes_are_under_way_than_the_forwarder_allows_over_all_destinations() {
    let stage = Stage::new().await;
    let server = RedisServer::private().await;
    let slow = Proxy::start(&server.address());
    slow.set_both(Flow::Delay(Duration::from_millis(100)));
    let (size, most) = (100 * 1024, ByteSize::from_mib(4));
    let topics = ["a", "b", "c", "d"];
    for (n, name) in topics.iter().enumerate() {
        stage.put(name, n * 100, 40, size).await;
    }
    let routes = topics.iter().map(|name| route(name, "s", name)).collect();
    let mut settings = stage.settings([("s", stream(&slow.address()))], routes);
    settings.forwarder.in_flight_bytes = most;
    let running = stage.forward(settings).await.unwrap();
    // Each requested shard may exceed the limit by one message.
    let shards = f64::from(stage.client.shards().get()) * topics.len() as f64;
    let bound = (most.bytes() / size as u64 + 1) as f64 + shards;
    wait_until("all delivered", LONG, || async {
        let under_way = running.metric("delayq_forwarder_in_flight{sink=\"s\"}");
        assert!(under_way <= bound, "{under_way} of at most {bound}");
        let mut left = 0;
        for name in topics {
            left += stage.numbers(name).await.pending();
        }
        left == 0
    })
    .await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dictionary_that_cannot_be_fetched_for_a_moment_buries_nothing() {
    let server = RedisServer::private().await;
    let (stage, folder) = (Stage::at(&server.url()).await, tempfile::tempdir().unwrap());
    // The forwarder's client does not have the dictionary.
    let other = stage.client_at(&server.url());
    let (producer, admin) =
        (Producer::start(other.clone(), ProducerOptions::default()), Admin::new(other.clone()));
    let order = |n: usize| format!("{{\"order\":{n},\"event\":\"payment-timeout\",\"currency\":\"EUR\"}}");
    let later = |n: usize| Message::new(topic("t"), order(n)).after(LONG * 100);
    for answer in producer.put_many((0..200).map(later).collect()).await {
        answer.unwrap();
    }
    admin.dictionaries().train(&topic("t"), 200).await.unwrap();
    producer.put(Message::new(topic("t"), order(5000)).id("m").unwrap()).await.unwrap();
    let key = Keys::new(other.namespace().clone()).base(ShardId::new(0)) + "dictionaries";
    let aside = format!("{key}-aside");
    let _: String = server.command(&["RENAME", &key, &aside]).await;
    let _: String = server.command(&["SET", &key, "no hash"]).await;
    stage.put("plain", 0, 10, 10).await;
    let settings = stage.settings([("f", file(folder.path()))], vec![route("*", "f", "all")]);
    let running = stage.forward(settings).await.unwrap();
    stage.drained("plain").await;
    wait_until("it is given back", LONG, || async {
        running.metric("delayq_forwarder_settled_total{word=\"delayed\"}") >= 1.0
    })
    .await;
    let _: String = server.command(&["RENAME", &aside, &key]).await;
    wait_until("it is delivered", LONG, || async { stage.numbers("t").await.delivered == 1 }).await;
    running.stop().await;
    assert_eq!(stage.numbers("t").await.dead, 0);
    let all = lines(folder.path(), "all");
    let seen = all.iter().find(|seen| seen.id == "m").unwrap();
    assert!(seen.body == order(5000).as_bytes() && seen.delivery > 1, "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_that_is_too_long_is_buried() {
    let (stage, folder) = (Stage::new().await, tempfile::tempdir().unwrap());
    let settings = stage.settings([("f", file(folder.path()))], vec![route("t", "f", "{header.to}")]);
    let running = stage.forward(settings).await.unwrap();
    for (id, length) in [("fits", 200), ("part", 300), ("whole", 2000)] {
        let to = "x".repeat(length);
        let message = delayq::Message::new(topic("t"), "x").id(id).unwrap().header("to", to);
        assert!(stage.producer.put(message).await.unwrap().outcome.is_accepted());
    }
    stage.drained("t").await;
    running.stop().await;
    let dead = stage.dead("t").await;
    assert_eq!(dead.keys().collect::<Vec<_>>(), ["part", "whole"]);
    assert!(dead["whole"].contains("the destination has 2000 bytes, more than 1024"), "{dead:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_forwarder_repeats_at_most_what_it_held() {
    let (stage, folder) = (Stage::new().await, tempfile::tempdir().unwrap());
    Admin::new(stage.client.clone())
        .topic(&topic("t"))
        .set_policy(&Policy { backoff: None, ..Policy::default() })
        .await
        .unwrap();
    let sink = SinkConfig { in_flight: 100, batch: 10, ..file(folder.path()) };
    let mut settings = stage.settings([("f", sink)], vec![route("t", "f", "t")]);
    settings.forwarder.lease = HumanDuration::from_secs(1);
    stage.put("t", 0, 3000, 100).await;
    let mut kills = 0;
    for _ in 0..3 {
        let running = stage.forward(settings.clone()).await.unwrap();
        let before = stage.numbers("t").await.delivered;
        wait_until("some deliveries", LONG, || async { stage.numbers("t").await.delivered > before + 50 })
            .await;
        running.kill().await;
        kills += 1;
    }
    let running = stage.forward(settings).await.unwrap();
    stage.drained("t").await;
    running.stop().await;
    let permit = Permit { duplicates: 100 * kills, ..Permit::default() };
    stage.check("t", lines(folder.path(), "t"), &permit).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_value_buries_the_message_with_its_reason() {
    let (stage, folder) = (Stage::new().await, tempfile::tempdir().unwrap());
    let settings = stage.settings([("f", file(folder.path()))], vec![route("t", "f", "{header.region}")]);
    let running = stage.forward(settings).await.unwrap();
    stage.put("t", 0, 1, 10).await;
    stage.drained("t").await;
    running.stop().await;
    let reason = &stage.dead("t").await["0"];
    assert!(reason.contains("needs {header.region}, which the message does not have"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_the_wrong_type_in_one_shard_stops_no_other() {
    let server = RedisServer::private().await;
    let (stage, folder) = (Stage::at(&server.url()).await, tempfile::tempdir().unwrap());
    let settings = stage.settings([("f", file(folder.path()))], vec![route("t", "f", "t")]);
    stage.put("t", 0, 400, 10).await;
    let shard = delayq::protocol::ShardId::new(2);
    let leases = Keys::new(stage.client.namespace().clone()).meta(shard).replace(":meta", ":leases");
    let _: String = server.command(&["SET", &leases, "a string"]).await;
    let running = stage.forward(settings).await.unwrap();
    let held = Admin::new(stage.client.clone()).shards().overview_of(&[shard]).await;
    assert_eq!(held.len(), 1);
    wait_until("three of four shards", SHORT, || async { stage.numbers("t").await.delivered > 250 }).await;
    let _: i64 = server.command(&["DEL", &leases]).await;
    stage.drained("t").await;
    running.stop().await;
    stage.check("t", lines(folder.path(), "t"), &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_of_a_wrong_type_stops_no_other_of_its_lane() {
    let server = RedisServer::private().await;
    let (stage, folder) = (Stage::at(&server.url()).await, tempfile::tempdir().unwrap());
    let settings = stage.settings([("f", file(folder.path()))], vec![route("*", "f", "all")]);
    stage.put("bad", 0, 400, 10).await;
    let meta = Keys::new(stage.client.namespace().clone()).meta(delayq::protocol::ShardId::new(2));
    // The first topic of a shard has the number 1.
    let (queue, aside) = (meta.replace(":meta", ":r:1"), meta.replace(":meta", ":aside"));
    let _: String = server.command(&["RENAME", &queue, &aside]).await;
    let _: String = server.command(&["SET", &queue, "a string"]).await;
    let running = stage.forward(settings).await.unwrap();
    stage.put("good", 1000, 400, 10).await;
    stage.drained("good").await;
    // A poll, every 2 s, asks this shard for this topic alone: it has failed for longer than a shard may.
    wait_until("three failed calls", LONG, || async {
        running.metric("delayq_forwarder_reserve_errors_total") >= 3.0
    })
    .await;
    assert!(running.readiness.unready().is_empty(), "{:?}", running.readiness.unready());
    assert!(stage.numbers("bad").await.pending() > 0);
    let _: String = server.command(&["RENAME", &aside, &queue]).await;
    stage.drained("bad").await;
    running.stop().await;
    stage.check("bad", lines(folder.path(), "all"), &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_that_can_encode_no_message_does_not_empty_the_queue_into_the_dead_letters() {
    let (stage, folder) = (Stage::new().await, tempfile::tempdir().unwrap());
    let file = FileConfig { dir: folder.path().to_owned(), rotate_at: None };
    let sink = SinkConfig { file: Some(file), ..SinkConfig::default() };
    let mut settings = stage.settings([("s", sink)], vec![route("t", "s", "{header.missing}")]);
    settings.forwarder.max_burials = 10;
    stage.put("t", 0, 300, 10).await;
    let running = stage.forward(settings).await.unwrap();
    wait_until("a brake", LONG, || async { running.metric("delayq_forwarder_brakes_total") >= 1.0 }).await;
    wait_until("nothing under way", LONG, || async {
        running.metric("delayq_forwarder_in_flight{sink=\"s\"}") == 0.0
    })
    .await;
    running.stop().await;
    let dead = stage.dead("t").await;
    assert_eq!(dead.len(), 10, "{dead:?}");
    assert!(dead.values().all(|reason| reason.contains("needs {header.missing}")), "{dead:?}");
}
