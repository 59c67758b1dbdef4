//! The promises of every intake, whatever its broker.

pub(crate) use crate::look::an_operator_sees_what_waits_who_reads_it_and_what_is_missing;
use crate::stage::{Books, Broker, Guard, PASSWORD, Place, Running, Sent, Stage, USER, topic};
pub(crate) use crate::stress::each_message_ends_as_the_order_of_its_records_says;
use delayq::protocol::Holder;
use delayq::{Message, PutOutcome, Settled, State, UnixMillis};
use delayq_tests::certs::Authority;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::environment::at_length;
use futures_util::future::join_all;
use std::collections::{BTreeMap, BTreeSet};

const DONE: &str = "source_settled_total{source=\"intake.orders\",outcome=\"done\"}";

pub(crate) async fn each_form_reaches_a_consumer<B: Broker>() {
    let stage = Stage::<B>::start().await;
    let compensator = stage.compensator("").await;
    let plain = [("delayq-topic", "orders"), ("delayq-id", "plain"), ("x-region", "eu")];
    let event = ["specversion", "id", "type", "source", "delayqtopic"]
        .map(|name| format!("{}{name}", B::EVENT_PREFIX));
    let values = ["1.0", "binary", "order.timeout", "/shop", "orders"];
    let binary: Vec<(&str, &str)> = event.iter().map(String::as_str).zip(values).collect();
    let document =
        r#"{"specversion":"1.0","id":"structured","type":"orders","source":"/shop","data":{"a":1}}"#;
    stage
        .broker
        .publish(vec![
            Sent::new(&plain, "body"),
            Sent::new(&binary, "body"),
            Sent::new(&[("content-type", "application/cloudevents+json")], document),
        ])
        .await;
    let found = stage.reserved(3).await;
    let header = |id: &str, name: &str| {
        let headers: BTreeMap<_, _> = found[id].envelope.headers.iter().cloned().collect();
        headers.get(name).cloned()
    };
    assert_eq!(found["plain"].envelope.payload, b"body");
    assert_eq!(header("plain", "x-region").as_deref(), Some("eu"));
    assert_eq!(found["/shop#binary"].envelope.payload, b"body");
    assert_eq!(header("/shop#binary", "ce-source").as_deref(), Some("/shop"));
    assert_eq!(found["/shop#structured"].envelope.payload, b"{\"a\":1}");
    assert_eq!(header("/shop#structured", "ce-type").as_deref(), Some("orders"));
    stage.is_settled().await;
    compensator.shows("intake_lag_records{intake=\"orders\"}", 0.0).await;
    compensator.stop().await;
}

pub(crate) async fn writes_of_one_message_keep_their_order<B: Broker>() {
    let stage = Stage::<B>::start().await;
    let (count, mut records) = (at_length(50, 200), Vec::new());
    for n in 0..count {
        let (kept, gone, again) = (format!("kept{n}"), format!("gone{n}"), format!("again{n}"));
        records.push(Sent::put(&kept, &[]));
        records.push(Sent::put(&gone, &[]));
        records.push(Sent::verb("reschedule", &kept, &[("delayq-due", "4102444805000")]));
        records.push(Sent::verb("cancel", &gone, &[]));
        records.push(Sent::put(&gone, &[]));
        // The last put has the content of the cancelled put, and is a new message.
        records.push(Sent::put(&again, &[]));
        records.push(Sent::verb("cancel", &again, &[]));
        records.push(Sent::put(&again, &[("delayq-replace", "true")]));
    }
    stage.broker.publish(records).await;
    let compensator = stage.compensator("batch = 7").await;
    compensator.shows(DONE, 8.0 * count as f64).await;
    let wanted = Books { accepted: 4 * count, delayed: 2 * count, ready: 0, cancelled: 2 * count };
    assert_eq!(stage.books().await, wanted);
    let again = Message::new(topic(), "body of kept7").id("kept7").unwrap();
    let answer = stage.deployment.producer.put(again).await.unwrap().outcome;
    assert_eq!(answer, PutOutcome::Exists(State::Delayed, UnixMillis::new(4_102_444_805_000)));
    stage.is_settled().await;
    compensator.stop().await;
}

pub(crate) async fn an_occurrence_that_a_handler_publishes_before_its_ack_is_put_after_it<B: Broker>() {
    let stage = Stage::<B>::start().await;
    let compensator = stage.compensator("").await;
    let daily = Sent::new(&[("delayq-topic", "orders"), ("delayq-id", "daily")], "body of daily");
    stage.broker.publish(vec![daily]).await;
    let held = stage.reserved(1).await.remove("daily").unwrap();
    stage.broker.publish(vec![Sent::put("daily", &[("delayq-replace", "true")]), Sent::put("b", &[])]).await;
    compensator.shows("source_records{source=\"intake.orders\",state=\"resting\"}", 1.0).await;
    stage.has_delayed(1).await;
    let settled = Holder::new(stage.deployment.client.clone()).ack(&[held.receipt]).await;
    assert!(matches!(settled[..], [Ok(Settled::Delivered)]), "{settled:?}");
    stage.has_delayed(2).await;
    stage.is_settled().await;
    assert_eq!(stage.broker.buried().await, 0);
    compensator.stop().await;
}

pub(crate) async fn poison_is_buried_with_its_reason_and_its_neighbours_go_on<B: Broker>() {
    let stage = Stage::<B>::start().await;
    let compensator = stage.compensator("").await;
    let misspelt = Sent::put("b", &[("delayq-dely", "5m"), ("x-kept", "1")]);
    // Redis refuses this message, which expires before it is due.
    let refused = Sent::put("d", &[("delayq-expires", "4102444700000")]);
    let conflict = Sent { body: b"another body".to_vec(), ..Sent::put("a", &[]) };
    let records = vec![Sent::put("a", &[]), misspelt.clone(), Sent::put("c", &[]), refused, conflict];
    stage.broker.publish(records).await;
    stage.has_delayed(2).await;
    let dead = stage.broker.dead(3).await;
    let of = |id: &str| dead.iter().find(|dead| dead.header("delayq-id") == id).unwrap();
    assert_eq!(of("b").header("delayq-reason"), "unknown header delayq-dely");
    assert_eq!((of("b").header("x-kept"), &of("b").body), ("1", &misspelt.body));
    assert!(of("b").header("delayq-origin").contains(B::ORIGIN), "{dead:?}");
    assert!(of("d").header("delayq-reason").contains("expiry"), "{dead:?}");
    assert_eq!(of("a").header("delayq-reason"), "the id is taken by another message");
    assert_eq!(of("a").body, b"another body");
    stage.is_settled().await;
    compensator.shows("source_settled_total{source=\"intake.orders\",outcome=\"rejected\"}", 2.0).await;
    compensator.shows("source_settled_total{source=\"intake.orders\",outcome=\"unreadable\"}", 1.0).await;
    compensator.stop().await;
}

pub(crate) async fn an_outage_of_redis_pauses_and_loses_nothing<B: Broker>() {
    let mut stage = Stage::<B>::start().await;
    let compensator = stage.compensator("batch = 50\nin_flight = 100").await;
    compensator.is_ready().await;
    stage.deployment.server.kill().await;
    let count: u64 = at_length(B::RECORDS, 3000);
    let records = (0..count).map(|n| Sent::put(&format!("m{n}"), &[])).collect();
    stage.broker.publish(records).await;
    compensator.shows("intake_paused{intake=\"orders\"}", 1.0).await;
    compensator.is_unready("orders").await;
    let taken =
        compensator.metric("source_records{source=\"intake.orders\",state=\"waiting\"}").await.unwrap();
    assert!((1.0..=100.0).contains(&taken), "{taken} records are taken of a broker that has {count}");
    assert_eq!(compensator.metric(DONE).await, Some(0.0));
    stage.deployment.server.resume().await;
    stage.has_delayed(count).await;
    compensator.is_ready().await;
    compensator.shows("intake_paused{intake=\"orders\"}", 0.0).await;
    assert_eq!(stage.books().await, all(count));
    stage.is_settled().await;
    compensator.stop().await;
}

/// The kill comes between Redis's answer and the commit.
pub(crate) async fn a_compensator_that_is_killed_loses_nothing_and_puts_nothing_twice<B: Broker>() {
    let count: u64 = at_length(B::RECORDS, 3000);
    let stage = Stage::<B>::start().await;
    stage.broker.publish((0..count).map(|n| Sent::put(&format!("m{n}"), &[])).collect()).await;
    for _ in 0..3 {
        let before = stage.books().await.delayed;
        let compensator = stage.compensator("batch = 5\nin_flight = 20").await;
        wait_until("some of them", LONG, async || stage.books().await.delayed > before + 50).await;
        compensator.kill().await;
    }
    let compensator = stage.compensator("").await;
    stage.has_delayed(count).await;
    stage.is_settled().await;
    assert_eq!(stage.books().await, all(count));
    compensator.stop().await;
}

pub(crate) async fn a_broker_that_is_killed_in_a_batch_loses_nothing<B: Broker>() {
    let count: u64 = at_length(B::RECORDS, 3000);
    let mut stage = Stage::<B>::start().await;
    stage.broker.keep_created().await;
    stage.broker.publish((0..count).map(|n| Sent::put(&format!("m{n}"), &[])).collect()).await;
    let compensator = stage.compensator("batch = 5\nin_flight = 20").await;
    wait_until("some of them", LONG, async || stage.books().await.delayed > 50).await;
    stage.broker.kill().await;
    compensator.is_unready("orders").await;
    stage.broker.resume().await;
    compensator.is_ready().await;
    stage.has_delayed(count).await;
    stage.is_settled().await;
    assert_eq!(stage.books().await, all(count));
    compensator.stop().await;
}

pub(crate) async fn a_dead_destination_that_is_away_is_waited_for_and_nothing_is_done_twice<B: Broker>() {
    let stage = Stage::<B>::start().await;
    let compensator = stage.compensator("").await;
    compensator.is_ready().await;
    stage.broker.delete(Place::Dead).await;
    let poison = Sent { key: "k".to_owned(), ..Sent::put("poison", &[("delayq-dely", "5m")]) };
    let of_key = |id: &str| Sent { key: "k".to_owned(), ..Sent::put(id, &[]) };
    let records = std::iter::once(poison).chain((0..50).map(|n| of_key(&format!("m{n}"))));
    stage.broker.publish(records.collect()).await;
    compensator.is_unready("dead").await;
    compensator.shows("intake_paused{intake=\"orders\"}", 1.0).await;
    let held = "source_held_total{source=\"intake.orders\"}";
    let before = compensator.metric(held).await.unwrap();
    wait_until("more tries", LONG, async || compensator.metric(held).await.unwrap() >= before + 2.0).await;
    stage.broker.create(Place::Dead).await;
    compensator.is_ready().await;
    stage.has_delayed(50).await;
    assert_eq!(stage.broker.dead(1).await[0].header("delayq-id"), "poison");
    stage.is_settled().await;
    assert_eq!(compensator.metric(DONE).await, Some(50.0));
    compensator.shows("source_settled_total{source=\"intake.orders\",outcome=\"unreadable\"}", 1.0).await;
    compensator.stop().await;
}

/// `refuse` makes the destination accept `taken` of 20.
pub(crate) async fn what_the_dead_destination_took_is_not_buried_again<B: Broker>(
    refuse: impl AsyncFnOnce(&B),
    taken: usize,
) {
    let stage = Stage::<B>::start().await;
    refuse(&stage.broker).await;
    let poison = |n: usize| {
        let body = if n == 7 { vec![b'x'; 20_000] } else { b"x".to_vec() };
        Sent { body, key: "k".to_owned(), ..Sent::put(&format!("m{n}"), &[("delayq-dely", "5m")]) }
    };
    stage.broker.publish((0..20).map(poison).collect()).await;
    let compensator = stage.compensator("").await;
    let unreadable = "source_settled_total{source=\"intake.orders\",outcome=\"unreadable\"}";
    compensator.shows(unreadable, taken as f64).await;
    let held = "source_held_total{source=\"intake.orders\"}";
    let before = compensator.metric(held).await.unwrap();
    wait_until("more tries", LONG, async || compensator.metric(held).await.unwrap() >= before + 3.0).await;
    assert_eq!(compensator.metric(unreadable).await, Some(taken as f64));
    assert_eq!(stage.broker.buried().await, taken as u64);
    compensator.stop().await;
}

pub(crate) async fn a_source_that_is_deleted_is_named_and_read_again_once_it_is_there<B: Broker>() {
    let stage = Stage::<B>::start().await;
    let compensator = stage.compensator("").await;
    stage.broker.publish(vec![Sent::put("a", &[])]).await;
    stage.has_delayed(1).await;
    stage.broker.delete(Place::Source).await;
    compensator.is_unready(B::MISSING).await;
    stage.broker.create(Place::Source).await;
    compensator.is_ready().await;
    stage.broker.publish(vec![Sent::put("b", &[])]).await;
    stage.has_delayed(2).await;
    compensator.stop().await;
}

pub(crate) async fn a_compensator_ends_while_its_broker_is_away<B: Broker>() {
    let mut stage = Stage::<B>::start().await;
    let compensator = stage.compensator("").await;
    compensator.is_ready().await;
    stage.broker.kill().await;
    compensator.is_unready("orders").await;
    compensator.stop().await;
}

pub(crate) async fn records_of_hostile_sizes_are_buried_with_a_brief_reason<B: Broker>() {
    let stage = Stage::<B>::start().await;
    let compensator = stage.compensator("").await;
    let (long, many) = ("\u{7f}é".repeat(10_000), "x".repeat(100));
    let names: Vec<String> = (0..300).map(|n| format!("x-{n}")).collect();
    let headers: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), many.as_str())).collect();
    stage
        .broker
        .publish(vec![
            Sent::put("delay", &[("delayq-delay", &long)]),
            Sent::put("at", &[("delayq-expires", "99999999999999999999999")]),
            Sent { body: vec![b'x'; 900_000], ..Sent::put("body", &[]) },
            Sent::put("headers", &headers),
            Sent::put("sound", &[]),
        ])
        .await;
    compensator.shows(DONE, 1.0).await;
    let dead = stage.broker.dead(4).await;
    let ids: BTreeSet<&str> = dead.iter().map(|dead| dead.header("delayq-id")).collect();
    assert_eq!(ids, BTreeSet::from(["at", "body", "delay", "headers"]));
    for dead in &dead {
        let reason = dead.header("delayq-reason");
        assert!(
            (1..=301).contains(&reason.chars().count()) && !reason.contains(char::is_control),
            "{reason}"
        );
    }
    stage.is_settled().await;
    compensator.stop().await;
}

pub(crate) async fn tls_shows_the_certificate_that_the_broker_asks_for<B: Broker>() {
    let authority = Authority::new();
    let stage = Stage::<B>::guarded(Guard::Asking(&authority)).await;
    let own = authority.sign("compensator", &["compensator.test"]);
    let without = format!("{}ca = {:?}\n", B::TLS, authority.authority());
    let refused = stage.compensator_with("", &without).await;
    refused.is_unready("set `cert` and `key`").await;
    refused.stop().await;
    let with = format!("{without}cert = {:?}\nkey = {:?}\n", own.certificate, own.key);
    let compensator = stage.compensator_with("", &with).await;
    stage.broker.publish(vec![Sent::put("a", &[]), Sent::put("b", &[("delayq-dely", "5m")])]).await;
    stage.has_delayed(1).await;
    assert_eq!(stage.broker.dead(1).await[0].header("delayq-id"), "b");
    stage.is_settled().await;
    compensator.stop().await;
}

pub(crate) async fn a_password_is_read_again_until_the_broker_takes_it<B: Broker>() {
    let stage = Stage::<B>::guarded(Guard::Login).await;
    let file = stage.folder.join("password");
    std::fs::write(&file, "battery-staple").unwrap();
    let login = format!("{}username = \"{USER}\"\npassword = {{ file = {file:?} }}\n", B::LOGIN);
    let compensator = stage.compensator_with("", &login).await;
    compensator.is_unready("intake.orders").await;
    let tries = "waiting for a refusal of the login";
    wait_until(tries, LONG, async || !compensator.endpoint.get("/readyz").await.1.contains("starting")).await;
    let (_, why) = compensator.endpoint.get("/readyz").await;
    assert!(!why.contains("battery-staple"), "{why}");
    std::fs::write(&file, PASSWORD).unwrap();
    compensator.is_ready().await;
    stage.broker.publish(vec![Sent::put("a", &[]), Sent::put("b", &[("delayq-dely", "5m")])]).await;
    stage.has_delayed(1).await;
    assert_eq!(stage.broker.dead(1).await[0].header("delayq-id"), "b");
    stage.is_settled().await;
    assert!(!compensator.process.tail().contains("battery-staple"));
    compensator.stop().await;
}

pub(crate) async fn two_compensators_take_each_record_in_once<B: Broker>() {
    let count: u64 = at_length(B::RECORDS, 4000);
    let stage = Stage::<B>::start().await;
    let (first, second) = tokio::join!(
        stage.compensator("batch = 5\nin_flight = 20"),
        stage.compensator("batch = 5\nin_flight = 20")
    );
    let publish = |range: std::ops::Range<u64>| {
        let records = range.flat_map(|n| {
            let id = format!("m{n}");
            [Sent::put(&id, &[]), Sent::verb("reschedule", &id, &[("delayq-due", "4102444805000")])]
        });
        stage.broker.publish(records.collect())
    };
    publish(0..count / 2).await;
    wait_until("some of them", LONG, async || stage.books().await.delayed > 50).await;
    first.kill().await;
    publish(count / 2..count).await;
    stage.has_delayed(count).await;
    stage.is_settled().await;
    assert_eq!(stage.books().await, all(count));
    // A reschedule before its put would have been rejected, and its message would be due earlier.
    assert_eq!(
        second.metric("source_settled_total{source=\"intake.orders\",outcome=\"rejected\"}").await,
        Some(0.0)
    );
    let again = (0..count).map(async |n| {
        let id = format!("m{n}");
        let again = Message::new(topic(), format!("body of {id}")).id(&id).unwrap();
        let answer = stage.deployment.producer.put(again).await.unwrap().outcome;
        assert_eq!(answer, PutOutcome::Exists(State::Delayed, UnixMillis::new(4_102_444_805_000)), "{id}");
    });
    join_all(again).await;
    second.stop().await;
}

pub(crate) async fn many_records_are_as_many_messages<B: Broker>() {
    let count: u64 = at_length(10_000, 100_000);
    let stage = Stage::<B>::start().await;
    let compensator: Running = stage.compensator("").await;
    for chunk in 0..20 {
        let range = chunk * count / 20..(chunk + 1) * count / 20;
        stage.broker.publish(range.map(|n| Sent::put(&format!("m{n}"), &[])).collect()).await;
    }
    stage.has_delayed(count).await;
    stage.is_settled().await;
    assert_eq!(stage.books().await, all(count));
    compensator.shows(DONE, count as f64).await;
    compensator.stop().await;
}

fn all(count: u64) -> Books {
    Books { accepted: count, delayed: count, ready: 0, cancelled: 0 }
}

macro_rules! conforms {
    ($broker:ty) => {
        conforms! { $broker:
            each_form_reaches_a_consumer,
            writes_of_one_message_keep_their_order,
            an_occurrence_that_a_handler_publishes_before_its_ack_is_put_after_it,
            poison_is_buried_with_its_reason_and_its_neighbours_go_on,
            an_outage_of_redis_pauses_and_loses_nothing,
            a_compensator_that_is_killed_loses_nothing_and_puts_nothing_twice,
            a_broker_that_is_killed_in_a_batch_loses_nothing,
            a_dead_destination_that_is_away_is_waited_for_and_nothing_is_done_twice,
            a_source_that_is_deleted_is_named_and_read_again_once_it_is_there,
            a_compensator_ends_while_its_broker_is_away,
            records_of_hostile_sizes_are_buried_with_a_brief_reason,
            tls_shows_the_certificate_that_the_broker_asks_for,
            a_password_is_read_again_until_the_broker_takes_it,
            two_compensators_take_each_record_in_once,
            an_operator_sees_what_waits_who_reads_it_and_what_is_missing,
            many_records_are_as_many_messages,
            each_message_ends_as_the_order_of_its_records_says,
        }
    };
    ($broker:ty: $($name:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::conformance::$name::<$broker>().await;
            }
        )*
    };
}

pub(crate) use conforms;
