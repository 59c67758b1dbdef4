//! The intake `rabbitmq`.

use crate::conformance::{self, conforms};
use crate::guide;
use crate::look::look;
use crate::stage::{Broker, Guard, PASSWORD, Place, Sent, Stage, USER};
use delayq_compensator::{IntakeFault, IntakeLook};
use delayq_tests::content::texts;
use delayq_tests::deadline::{LONG, wait_for, wait_until};
use delayq_tests::lent::Lent;
use delayq_tests::rabbitmq_server::RabbitmqServer;
use futures_util::future::join_all;
use lapin::options::{
    BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};

const QUEUE: &str = "orders-in";
const DEAD: &str = "orders-dead";

struct Rabbitmq {
    server: Lent<RabbitmqServer>,
    has_tls: bool,
}

// === impl Rabbitmq ===

impl Rabbitmq {
    async fn channel(&self) -> Channel {
        let connection = Connection::connect(&self.server.url(), ConnectionProperties::default()).await;
        let channel = connection.unwrap().create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        channel
    }

    async fn declare(&self, queue: &str, arguments: &[(&str, AMQPValue)]) {
        let arguments = table(arguments);
        self.channel()
            .await
            .queue_declare(queue.into(), QueueDeclareOptions::durable(), arguments)
            .await
            .unwrap();
    }

    async fn publish_as(&self, properties: BasicProperties, body: &[u8]) {
        publish(&self.channel().await, properties, body).await;
    }
}

impl Broker for Rabbitmq {
    const EVENT_PREFIX: &'static str = "cloudEvents:";
    const MISSING: &'static str = "no queue 'orders-in'";
    const ORIGIN: &'static str = "rabbitmq orders-in";

    const TLS: &'static str = "tls = true\n";
    const LOGIN: &'static str = "";

    async fn start(guard: Guard<'_>) -> Self {
        let server = match guard {
            Guard::Asking(authority) => {
                RabbitmqServer::start_asking(&authority.server(), &authority.authority()).await.into()
            }
            Guard::Open | Guard::Login => Lent::take(RabbitmqServer::start).await,
        };
        if matches!(guard, Guard::Login) {
            server.add_user(USER, PASSWORD, [".*"; 3]).await;
        }
        let broker = Self { server, has_tls: matches!(guard, Guard::Asking(_)) };
        broker.create(Place::Source).await;
        broker.create(Place::Dead).await;
        broker
    }

    fn section(&self) -> String {
        let server = match self.has_tls {
            true => format!("127.0.0.1:{}", self.server.tls_port()),
            false => self.server.address(),
        };
        format!("dead = \"{DEAD}\"\n[intake.orders.rabbitmq]\nserver = \"{server}\"\nqueue = \"{QUEUE}\"\n")
    }

    async fn publish(&self, records: Vec<Sent>) {
        let channel = self.channel().await;
        let sends = records.iter().map(|record| {
            let (kinds, headers): (Vec<_>, Vec<_>) =
                record.headers.iter().partition(|(name, _)| name == "content-type");
            let headers: Vec<_> = headers
                .into_iter()
                .map(|(name, value)| (name.as_str(), AMQPValue::LongString(value.as_str().into())))
                .collect();
            let properties = BasicProperties::default().with_delivery_mode(2).with_headers(table(&headers));
            let properties = kinds
                .into_iter()
                .fold(properties, |properties, (_, kind)| properties.with_content_type(kind.as_str().into()));
            publish(&channel, properties, &record.body)
        });
        join_all(sends).await;
    }

    async fn dead(&self, count: usize) -> Vec<Sent> {
        let channel = self.channel().await;
        let mut found = Vec::new();
        while found.len() < count {
            let got = wait_for("a dead record", LONG, async || {
                channel.basic_get(DEAD.into(), BasicGetOptions { no_ack: true }).await.unwrap()
            });
            let got = got.await.delivery;
            let headers = got.properties.headers().clone().unwrap();
            let headers = headers.inner().iter().map(|(name, value)| match value {
                AMQPValue::LongString(text) => (name.to_string(), text.to_string()),
                other => panic!("{name} is {other:?}"),
            });
            found.push(Sent { headers: headers.collect(), body: got.data, key: String::new() });
        }
        found
    }

    async fn keep_created(&self) {
        self.server.keep_declared().await;
    }

    async fn buried(&self) -> u64 {
        self.server.messages(DEAD).await
    }

    async fn unsettled(&self) -> u64 {
        self.server.messages(QUEUE).await
    }

    async fn delete(&self, place: Place) {
        let queue = if place == Place::Source { QUEUE } else { DEAD };
        self.channel().await.queue_delete(queue.into(), QueueDeleteOptions::default()).await.unwrap();
    }

    async fn create(&self, place: Place) {
        match place {
            Place::Source => {
                self.declare(QUEUE, &[("x-single-active-consumer", AMQPValue::Boolean(true))]).await;
            }
            Place::Dead => self.declare(DEAD, &[]).await,
        }
    }

    async fn kill(&mut self) {
        self.server.kill().await;
    }

    async fn resume(&mut self) {
        self.server.resume().await;
    }
}

conforms!(Rabbitmq);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_dead_destination_took_is_not_buried_again() {
    let refuse = async |rabbitmq: &Rabbitmq| {
        rabbitmq.delete(Place::Dead).await;
        let full = [
            ("x-max-length", AMQPValue::LongInt(5)),
            ("x-overflow", AMQPValue::LongString("reject-publish".into())),
        ];
        rabbitmq.declare(DEAD, &full).await;
    };
    conformance::what_the_dead_destination_took_is_not_buried_again::<Rabbitmq>(refuse, 5).await;
}

/// Behind an exchange that binds by headers: without care, one returned record would bury all others again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_dead_records_one_that_comes_back_has_the_others_buried_once_more_at_most() {
    const EXCHANGE: &str = "graveyard";
    let stage = Stage::<Rabbitmq>::start().await;
    let channel = stage.broker.channel().await;
    let (kind, none) = (ExchangeKind::Headers, FieldTable::default());
    channel.exchange_declare(EXCHANGE.into(), kind, ExchangeDeclareOptions::default(), none).await.unwrap();
    let small = table(&[("size", AMQPValue::LongString("small".into()))]);
    channel
        .queue_bind(DEAD.into(), EXCHANGE.into(), DEAD.into(), QueueBindOptions::default(), small)
        .await
        .unwrap();
    let poison = |n: usize| {
        // The last record alone is large, so that no later record waits, however many arrive at once.
        let size = if n == 19 { "large" } else { "small" };
        Sent::put(&format!("m{n}"), &[("delayq-dely", "5m"), ("size", size)])
    };
    stage.broker.publish((0..20).map(poison).collect()).await;
    let compensator = stage.compensator_with("", &format!("dead_exchange = \"{EXCHANGE}\"")).await;
    compensator.is_unready("no queue accepts the message").await;
    wait_until("one that is left", LONG, async || stage.broker.unsettled().await == 1).await;
    let buried = stage.broker.buried().await;
    assert!(buried >= 19, "{buried}");
    let before = compensator.metric("source_held_total{source=\"intake.orders\"}").await.unwrap();
    let tries = async || {
        compensator.metric("source_held_total{source=\"intake.orders\"}").await.unwrap() >= before + 3.0
    };
    wait_until("more tries", LONG, tries).await;
    assert_eq!(stage.broker.buried().await, buried);
    compensator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_of_other_types_than_text_are_read_and_kept_when_buried() {
    let stage = Stage::<Rabbitmq>::start().await;
    let compensator = stage.compensator("topic = \"orders\"").await;
    let text = |text: &str| AMQPValue::LongString(text.into());
    let publish = async |id: &str, at: Option<u64>, headers: &[(&str, AMQPValue)]| {
        let properties = BasicProperties::default().with_message_id(id.into()).with_headers(table(headers));
        let properties = at.into_iter().fold(properties, BasicProperties::with_timestamp);
        stage.broker.publish_as(properties, id.as_bytes()).await;
    };
    let (past, attempts) = (1_700_000_000_000, ("delayq-max-attempts", AMQPValue::ShortInt(7)));
    publish("number", None, &[("delayq-due", AMQPValue::LongLongInt(past)), attempts]).await;
    publish("moment", None, &[("delayq-due", AMQPValue::Timestamp(1_700_000_000))]).await;
    publish("delay", Some(1_700_000_000), &[("delayq-delay", text("59m")), ("count", AMQPValue::LongInt(3))])
        .await;
    // The delay counts from a future time, so the message is still delayed.
    publish("later", Some(4_102_444_800), &[("delayq-delay", text("1s"))]).await;
    publish("poison", None, &[("delayq-dely", text("1s")), ("count", AMQPValue::LongInt(3))]).await;
    let found = stage.reserved(3).await;
    assert_eq!(found.keys().collect::<Vec<_>>(), ["delay", "moment", "number"]);
    assert_eq!(found["delay"].envelope.headers, [("count".to_owned(), "3".to_owned())]);
    assert_eq!(found["number"].envelope.payload, b"number");
    stage.has_delayed(1).await;
    let channel = stage.broker.channel().await;
    let got = wait_for("the dead record", LONG, async || {
        channel.basic_get(DEAD.into(), BasicGetOptions { no_ack: true }).await.unwrap()
    });
    let properties = got.await.delivery.properties;
    let headers = properties.headers().clone().unwrap();
    assert_eq!(headers.inner()["count"], AMQPValue::LongInt(3));
    assert_eq!(headers.inner()["delayq-origin"], text("rabbitmq orders-in"));
    assert_eq!(properties.message_id(), &Some("poison".into()));
    assert_eq!(properties.delivery_mode(), &Some(2));
    stage.is_settled().await;
    compensator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_missing_or_cannot_keep_order_is_named_until_it_is_right() {
    let stage = Stage::<Rabbitmq>::start().await;
    stage.broker.delete(Place::Source).await;
    let compensator = stage.compensator("").await;
    compensator.is_unready("no queue 'orders-in'").await;
    stage.broker.declare(QUEUE, &[]).await;
    compensator.is_unready("without x-single-active-consumer").await;
    stage.broker.delete(Place::Source).await;
    let priorities = ("x-max-priority", AMQPValue::LongInt(3));
    stage.broker.declare(QUEUE, &[("x-single-active-consumer", AMQPValue::Boolean(true)), priorities]).await;
    compensator.is_unready("x-max-priority=3").await;
    stage.broker.delete(Place::Source).await;
    stage.broker.declare(QUEUE, &[("x-queue-type", AMQPValue::LongString("stream".into()))]).await;
    compensator.is_unready("is a stream").await;
    stage.broker.delete(Place::Source).await;
    stage.broker.create(Place::Source).await;
    compensator.is_ready().await;
    compensator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quorum_queues_as_the_guide_declares_them_are_used() {
    let stage = Stage::<Rabbitmq>::start().await;
    let quorum = ("x-queue-type", AMQPValue::LongString("quorum".into()));
    for place in [Place::Source, Place::Dead] {
        stage.broker.delete(place).await;
    }
    let single = ("x-single-active-consumer", AMQPValue::Boolean(true));
    stage.broker.declare(QUEUE, &[quorum.clone(), single]).await;
    stage.broker.declare(DEAD, std::slice::from_ref(&quorum)).await;
    let compensator = stage.compensator("").await;
    compensator.is_ready().await;
    stage.broker.publish(vec![Sent::put("a", &[]), Sent::put("b", &[("delayq-dely", "5m")])]).await;
    stage.has_delayed(1).await;
    wait_until("the dead record", LONG, async || stage.broker.buried().await == 1).await;
    stage.is_settled().await;
    assert!(look(&stage.broker, "").await.is_ok());
    // A queue with settings that cannot keep order is still named.
    stage.broker.delete(Place::Source).await;
    stage.broker.declare(QUEUE, &[quorum]).await;
    compensator.is_unready("without x-single-active-consumer").await;
    compensator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_record_that_no_queue_takes_stays_in_the_queue_until_one_does() {
    const EXCHANGE: &str = "graveyard";
    let stage = Stage::<Rabbitmq>::start().await;
    let channel = stage.broker.channel().await;
    let (kind, none) = (ExchangeKind::Direct, FieldTable::default());
    let options = ExchangeDeclareOptions::default();
    channel.exchange_declare(EXCHANGE.into(), kind, options, none.clone()).await.unwrap();
    let compensator = stage.compensator_with("", &format!("dead_exchange = \"{EXCHANGE}\"")).await;
    compensator.is_ready().await;
    stage.broker.publish(vec![Sent::put("a", &[]), Sent::put("b", &[("delayq-dely", "5m")])]).await;
    compensator.is_unready("no queue accepts the message").await;
    stage.has_delayed(1).await;
    assert_eq!(stage.broker.unsettled().await, 1);
    let bind = QueueBindOptions::default();
    channel.queue_bind(DEAD.into(), EXCHANGE.into(), DEAD.into(), bind, none).await.unwrap();
    let dead = stage.broker.dead(1).await;
    assert_eq!(dead[0].header("delayq-reason"), "unknown header delayq-dely");
    stage.is_settled().await;
    compensator.is_ready().await;
    compensator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_only_read_the_queue_and_write_the_dead_records_is_enough() {
    let stage = Stage::<Rabbitmq>::start().await;
    stage.broker.server.add_user("delayq", "secret", ["^$", "^amq\\.default$", "^orders-in$"]).await;
    let login = "username = \"delayq\"\npassword = \"secret\"";
    let compensator = stage.compensator_with("", login).await;
    stage.broker.publish(vec![Sent::put("a", &[]), Sent::put("b", &[("delayq-dely", "5m")])]).await;
    stage.has_delayed(1).await;
    stage.broker.dead(1).await;
    stage.is_settled().await;
    compensator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_names_the_right_that_is_missing_and_leaves_no_trace() {
    let stage = Stage::<Rabbitmq>::start().await;
    stage.broker.publish(vec![Sent::put("a", &[])]).await;
    for (user, [write, read], missing) in [
        ("reader", ["^$", "^orders-in$"], Some("access to exchange 'amq.default'")),
        ("writer", ["^amq\\.default$", "^$"], Some("access to queue 'orders-in'")),
        ("both", ["^amq\\.default$", "^orders-in$"], None),
    ] {
        stage.broker.server.add_user(user, "secret", ["^$", write, read]).await;
        let login = format!("username = \"{user}\"\npassword = \"secret\"");
        match (look(&stage.broker, &login).await, missing) {
            (Ok(look), None) => assert_eq!(look, IntakeLook { lag: 1, lost: 0, reader: None }),
            (Err(IntakeFault::Unusable(why)), Some(missing)) => {
                assert!(why.contains(missing), "{user}: {why}");
            }
            (found, _) => panic!("{user}: {found:?}"),
        }
    }
    assert_eq!((stage.broker.unsettled().await, stage.broker.server.messages(DEAD).await), (1, 0));
}

fn table(pairs: &[(&str, AMQPValue)]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in pairs {
        table.insert((*name).into(), value.clone());
    }
    table
}

async fn publish(channel: &Channel, properties: BasicProperties, body: &[u8]) {
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let sent = channel.basic_publish("".into(), QUEUE.into(), options, body, properties).await;
    let confirm = sent.unwrap().await.unwrap();
    assert!(confirm.is_ack() && confirm.take_message().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_the_guide_take_a_text_of_any_content_byte_for_byte() {
    let (server, port) = RabbitmqServer::start_with_management().await;
    let broker = Rabbitmq { server: server.into(), has_tls: false };
    broker.create(Place::Dead).await;
    let block =
        guide::block("rabbitmqadmin declare").replace("rabbitmqadmin ", &format!("rabbitmqadmin -P {port} "));
    let block = block.replace("reminders-in", QUEUE);
    let stage = Stage::on(broker).await;
    let folder = stage.folder.path();
    guide::run(folder, &block);
    let compensator = stage.compensator("topic = \"orders\"").await;
    stage.has_delayed(1).await;
    assert_eq!(guide::stored(&stage, "reminder-5").await, br#"{"user":5}"#);
    let (_, publish) = block.split_once("> reminder.json\n").unwrap();
    for (n, payload) in texts().iter().enumerate() {
        std::fs::write(folder.join("reminder.json"), payload).unwrap();
        guide::run(folder, &publish.replace("reminder-5", &format!("m{n}")));
    }
    stage.has_delayed(1 + texts().len() as u64).await;
    for (n, payload) in texts().iter().enumerate() {
        let stored = guide::stored(&stage, &format!("m{n}")).await;
        assert!(stored == payload.as_bytes(), "{n}: {} bytes", stored.len());
    }
    compensator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_permissions_of_the_guide_are_all_that_an_intake_needs() {
    let stage = Stage::<Rabbitmq>::start().await;
    let command = guide::block("rabbitmqctl set_permissions delayq ").replace("reminders-in", QUEUE);
    let patterns: Vec<&str> = command.split('\'').skip(1).step_by(2).collect();
    stage.broker.server.add_user(USER, PASSWORD, patterns.try_into().unwrap()).await;
    let login = format!("username = \"{USER}\"\npassword = \"{PASSWORD}\"\n");
    guide::rights_are_enough(&stage, &login).await;
}
