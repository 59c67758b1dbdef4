//! The intake `sqs`, against ElasticMQ.

use crate::conformance::conforms;
use crate::look::look;
use crate::stage::{Broker, Guard, Place, Sent, Stage};
use delayq_compensator::IntakeFault;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::lent::Lent;
use delayq_tests::sqs_server::SqsServer;
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

const QUEUE: &str = "orders-in.fifo";
const DEAD: &str = "orders-dead";

struct Sqs {
    server: Lent<SqsServer>,
}

/// Headers as a producer sends them: an attribute for each, or one with all of them where there are many.
fn attributes(headers: &[(String, String)]) -> Value {
    let text = |value: &str| json!({ "DataType": "String", "StringValue": value });
    match headers.len() {
        0..=10 => {
            headers.iter().map(|(name, value)| (name.clone(), text(value))).collect::<Map<_, _>>().into()
        }
        _ => json!({ "delayq-more-headers": text(&json!(headers).to_string()) }),
    }
}

fn sent(message: &Value) -> Sent {
    let mut headers = Vec::new();
    for (name, value) in message["MessageAttributes"].as_object().unwrap() {
        let value = value["StringValue"].as_str().unwrap();
        match name.as_str() {
            "delayq-more-headers" => {
                headers.extend(serde_json::from_str::<Vec<(String, String)>>(value).unwrap());
            }
            "delayq-encoding" => {}
            _ => headers.push((name.clone(), value.to_owned())),
        }
    }
    headers.sort();
    Sent { headers, body: message["Body"].as_str().unwrap().into(), key: String::new() }
}

impl Broker for Sqs {
    const EVENT_PREFIX: &'static str = "ce-";
    // ElasticMQ takes some 40 a second on a busy machine.
    const RECORDS: u64 = 300;
    const MISSING: &'static str = "the queue `orders-in.fifo` does not exist";
    const ORIGIN: &'static str = "sqs orders-in.fifo message ";

    const TLS: &'static str = "";
    const LOGIN: &'static str = "";

    async fn start(guard: Guard<'_>) -> Self {
        assert!(matches!(guard, Guard::Open), "ElasticMQ has no login and no TLS");
        let broker = Self { server: Lent::take(SqsServer::start_stored).await };
        broker.create(Place::Source).await;
        broker.create(Place::Dead).await;
        broker
    }

    fn section(&self) -> String {
        format!(
            "dead = \"{DEAD}\"\n[intake.orders.sqs]\nendpoint = \"http://{}\"\nqueue = \"{QUEUE}\"\nvisibility = \
             \"10s\"\naccess_key = \"x\"\nsecret_key = \"y\"\n",
            self.server.address()
        )
    }

    async fn publish(&self, records: Vec<Sent>) {
        for (number, some) in records.chunks(10).enumerate() {
            let entry = |(index, record): (usize, &Sent)| {
                let body = match record.body.as_slice() {
                    b"" => "-".to_owned(),
                    body => String::from_utf8(body.to_vec()).unwrap(),
                };
                json!({
                    "Id": index.to_string(),
                    "MessageBody": body,
                    "MessageAttributes": attributes(&record.headers),
                    "MessageGroupId": record.key,
                    "MessageDeduplicationId": format!("{number}-{index}-{}", fastrand::u64(..)),
                })
            };
            let entries: Vec<Value> = some.iter().enumerate().map(entry).collect();
            let asked = json!({ "QueueUrl": self.server.queue(QUEUE), "Entries": entries });
            let answer = self.server.call("SendMessageBatch", &asked).await;
            assert!(answer["Failed"].as_array().is_none_or(Vec::is_empty), "{answer}");
        }
    }

    async fn dead(&self, count: usize) -> Vec<Sent> {
        let (mut found, start) = (Vec::new(), Instant::now());
        while found.len() < count {
            assert!(start.elapsed() < LONG, "{} of {count} dead records", found.len());
            found.extend(self.server.take(DEAD).await.iter().map(sent));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        found
    }

    async fn buried(&self) -> u64 {
        self.server.messages(DEAD).await
    }

    async fn unsettled(&self) -> u64 {
        self.server.messages(QUEUE).await
    }

    async fn delete(&self, place: Place) {
        self.server.delete_queue(if place == Place::Source { QUEUE } else { DEAD }).await;
    }

    async fn create(&self, place: Place) {
        self.server.create_queue(if place == Place::Source { QUEUE } else { DEAD }, json!({})).await;
    }

    async fn kill(&mut self) {
        self.server.kill().await;
    }

    async fn resume(&mut self) {
        self.server.resume().await;
    }
}

// Neither ElasticMQ nor SQS tells of readers, and records have 256 KiB here: `a_look…` and `records_of…` are below.
conforms!(Sqs:
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
    two_compensators_take_each_record_in_once,
    each_message_ends_as_the_order_of_its_records_says,
);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_counts_what_waits_and_what_is_held_and_names_what_is_missing() {
    let stage = Stage::<Sqs>::start().await;
    stage.broker.publish((0..3).map(|n| Sent::put(&format!("m{n}"), &[])).collect()).await;
    let seen = look(&stage.broker, "").await.unwrap();
    assert_eq!((seen.lag, seen.reader), (3, None));
    let asked = json!({ "QueueUrl": stage.broker.server.queue(QUEUE), "MaxNumberOfMessages": 1 });
    stage.broker.server.call("ReceiveMessage", &asked).await;
    let seen = look(&stage.broker, "").await.unwrap();
    assert_eq!((seen.lag, seen.reader.is_some()), (3, true));
    for place in [Place::Dead, Place::Source] {
        stage.broker.delete(place).await;
        assert!(matches!(look(&stage.broker, "").await, Err(IntakeFault::Unusable(_))));
    }
    let gone = look(&stage.broker, "").await;
    assert!(matches!(&gone, Err(IntakeFault::Unusable(why)) if why.contains(Sqs::MISSING)), "{gone:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_whose_message_rests_stays_hidden_beyond_its_time() {
    let stage = Stage::<Sqs>::start().await;
    let compensator = stage.compensator("").await;
    let daily = Sent::new(&[("delayq-topic", "orders"), ("delayq-id", "daily")], "body of daily");
    stage.broker.publish(vec![daily]).await;
    let held = stage.reserved(1).await.remove("daily").unwrap();
    // Rests until the message that it replaces has ended.
    stage.broker.publish(vec![Sent::put("daily", &[("delayq-replace", "true")])]).await;
    let resting = "source_records{source=\"intake.orders\",state=\"resting\"}";
    compensator.shows(resting, 1.0).await;
    let (start, visibility) = (Instant::now(), Duration::from_secs(10));
    while start.elapsed() < visibility + Duration::from_secs(3) {
        let asked = json!({ "QueueUrl": stage.broker.server.queue(QUEUE), "WaitTimeSeconds": 1 });
        let found = stage.broker.server.call("ReceiveMessage", &asked).await;
        assert!(found["Messages"].as_array().is_none_or(Vec::is_empty), "{found}");
    }
    delayq::protocol::Holder::new(stage.deployment.client.clone()).ack(&[held.receipt]).await;
    stage.has_delayed(1).await;
    stage.is_settled().await;
    compensator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_stopped_compensator_held_comes_back_at_once() {
    let mut stage = Stage::<Sqs>::start().await;
    let compensator = stage.compensator("").await;
    compensator.is_ready().await;
    stage.deployment.server.kill().await;
    stage.broker.publish((0..5).map(|n| Sent::put(&format!("m{n}"), &[])).collect()).await;
    let reader = async |who: Option<&str>| {
        look(&stage.broker, "").await.is_ok_and(|seen| seen.reader.as_deref() == who && seen.lag == 5)
    };
    wait_until("all of them held", LONG, async || reader(Some("the holders of 5 records")).await).await;
    compensator.stop().await;
    wait_until("all of them back", Duration::from_secs(5), async || reader(None).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_with_many_headers_or_a_damaged_form_are_buried_whole() {
    let stage = Stage::<Sqs>::start().await;
    let compensator = stage.compensator("").await;
    // More than Redis takes.
    let many = "x".repeat(100);
    let names: Vec<String> = (0..300).map(|n| format!("x-{n}")).collect();
    let headers: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), many.as_str())).collect();
    stage
        .broker
        .publish(vec![
            Sent::put("headers", &headers),
            Sent::put("form", &[("delayq-encoding", "gzip")]),
            Sent::put("sound", &[("x-kept", "1")]),
        ])
        .await;
    let dead = stage.broker.dead(2).await;
    let of = |id: &str| dead.iter().find(|dead| dead.header("delayq-id") == id).unwrap();
    assert_eq!(of("headers").headers.len(), 3 + 300 + 2);
    assert_eq!(of("form").header("delayq-reason"), "delayq-encoding is neither base64 nor empty");
    stage.is_settled().await;
    compensator.stop().await;
}

#[test]
fn a_queue_without_order_is_refused_unless_that_is_accepted() {
    let text = "[intake.orders]\ndead = \"dead\"\n[intake.orders.sqs]\nqueue = \"plain\"\n";
    assert!(read(text).unwrap_err().contains("any_order = true"));
    assert_eq!(read(&format!("{text}any_order = true\n")), Ok(()));
}

fn read(text: &str) -> Result<(), String> {
    use delayq_service::config::{Environment, Source, load};
    let read = load::<crate::look::IntakeSections>(&Source::text("test.toml", text), &Environment::empty());
    read.map(drop).map_err(|fault| fault.to_string())
}
