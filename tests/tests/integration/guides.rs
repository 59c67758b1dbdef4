//! The blocks of the guides that need a database or a broker, or take a payload: as they are printed, then with payloads of
//! any content.

use super::shell::{block, shell};
use delayq::{Admin, Message, MessageId, Target, Topic};
use delayq_tests::binary::Binary;
use delayq_tests::content::texts;
use delayq_tests::deadline::{LONG, wait_for};
use delayq_tests::deployment::Deployment;
use delayq_tests::folder::Folder;
use delayq_tests::kafka_server::KafkaServer;
use delayq_tests::postgres_server::PostgresServer;
use delayq_tests::process::{Process, Signal, Stream};
use delayq_tests::redis_server::RedisServer;
use std::process::Command;

struct Place {
    deployment: Deployment<RedisServer>,
    folder: Folder,
}

// === impl Place ===

impl Place {
    async fn start() -> Self {
        let deployment = Deployment::on(RedisServer::private().await, 1).await;
        Self { deployment, folder: Folder::new("guide") }
    }

    /// A block of a guide follows the deployment.
    fn configure(&self, block: &str) {
        let own = self.deployment.sections();
        let text = format!("{own}[admin]\nlisten = \"\"\n[etcd]\nenabled = false\n{block}");
        std::fs::write(self.folder.join("delayq.toml"), text).unwrap();
    }

    async fn run_to_end(&self, script: &str) -> Process {
        let script = format!("export DELAYQ_CONFIG=delayq.toml\n{script}");
        let mut process = shell(self.folder.path(), &script);
        process.wait_end(LONG).await;
        process
    }

    async fn runs(&self, script: &str) -> String {
        let mut process = self.run_to_end(script).await;
        assert!(process.ended().unwrap().success(), "{script}:\n{}", process.tail());
        process.text(Stream::Out)
    }

    /// Waits for the message.
    async fn payload(&self, topic: &str, id: &str) -> String {
        let admin = Admin::new(self.deployment.client.clone());
        let (topic, target) = (Topic::new(topic).unwrap(), Target::from(MessageId::own(id).unwrap()));
        let found = wait_for(id, LONG, async || admin.topic(&topic).get(&target).await.ok().flatten()).await;
        String::from_utf8(found.envelope.unwrap().payload).unwrap()
    }
}

const OUTBOX: &str = "docs/guides/outbox.md";

#[tokio::test(flavor = "multi_thread")]
async fn the_outbox_of_the_guide_carries_texts_of_any_content_and_puts_them_again() {
    let (place, postgres) = (Place::start().await, PostgresServer::start().await);
    postgres.run("CREATE ROLE delayq LOGIN; CREATE ROLE app LOGIN");
    postgres.run("CREATE TABLE orders (id bigint, paid boolean); GRANT ALL ON orders TO app");
    let url = postgres.url().replace("postgres://postgres@", "postgres://delayq@");
    let section =
        block(OUTBOX, "[outbox]\nurl = \"postgres").replace("postgres://delayq@localhost/shop", &url);
    place.configure(&format!("{section}keep = \"2days\"\n"));
    let init = block(OUTBOX, "delayq outbox init");
    let mut denied = place.run_to_end(&init).await;
    assert!(!denied.ended().unwrap().success(), "only the database's owner may");
    postgres.run(block(OUTBOX, "GRANT CREATE ON SCHEMA"));
    place.runs(&init).await;
    postgres.run(block(OUTBOX, "GRANT INSERT ON delayq_outbox"));

    let as_app = |statements: String| postgres.run(format!("SET SESSION AUTHORIZATION app;\n{statements}"));
    let (put, cancel) = (block(OUTBOX, "BEGIN;\nINSERT INTO orders"), block(OUTBOX, "BEGIN;\nUPDATE orders"));
    as_app(put.clone());
    // PostgreSQL keeps no NUL in a text.
    let texts = texts().into_iter().filter(|text| !text.contains('\0')).collect::<Vec<_>>();
    for (n, text) in texts.iter().enumerate() {
        let quoted = text.replace('\'', "''");
        as_app(put.replace(r#"{"order":17}"#, &quoted).replace("order-17", &format!("m{n}")));
    }
    let mut compensator = Binary::new("delayq-compensator").arg(place.folder.join("delayq.toml")).start();
    assert_eq!(place.payload("orders", "order-17").await, r#"{"order":17}"#);
    as_app(cancel);
    for (n, text) in texts.iter().enumerate() {
        assert!(place.payload("orders", &format!("m{n}")).await == *text, "{n}");
    }
    let admin = Admin::new(place.deployment.client.clone());
    let orders = Topic::new("orders").unwrap();
    let cancelled =
        async || admin.topic(&orders).count().await.ok().filter(|numbers| numbers.cancelled == 1).map(drop);
    wait_for("the cancel", LONG, cancelled).await;
    compensator.ends_well_by(Signal::TERM, LONG).await;

    let _: String = place.deployment.server.command(&["FLUSHALL"]).await;
    let printed = place.runs(&block(OUTBOX, "delayq init\ndelayq outbox reconcile")).await;
    assert!(printed.contains("cancelled"), "{printed}");
    for (n, text) in texts.iter().enumerate() {
        assert!(place.payload("orders", &format!("m{n}")).await == *text, "{n}, put again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_forwarder_of_the_kafka_guide_sends_payloads_of_any_content() {
    const PAGE: &str = "docs/guides/kafka.md";
    const TOPIC: &str = "orders.timeout";
    let (place, kafka) = (Place::start().await, KafkaServer::start().await);
    kafka.create_topic(TOPIC, 1, &[]).await;
    let section = block(PAGE, "[sinks.events.kafka]");
    let own = section.replace("kafka-0.internal:9092\", \"kafka-1.internal:9092", &kafka.address());
    assert_ne!(section, own);
    place.configure(&own);
    let commands = block(PAGE, "delayq --config delayq.toml config check ");
    let (check, start) = commands.split_once("delayq-forwarder").unwrap();
    place.runs(check).await;
    let mut forwarder = shell(place.folder.path(), &format!("exec delayq-forwarder{start}"));
    let message = |text: String| Message::new(Topic::new(TOPIC).unwrap(), text);
    place.deployment.put(texts().map(message)).await;
    let read = format!("kcat -C -q -b {} -t {TOPIC} -o beginning -c {}", kafka.address(), texts().len());
    // Kafka keeps the order of neither, so each is looked for by its length and bytes.
    let mut consumer = Command::new("bash");
    consumer.args(["-c", &format!("exec {read} -f '%S:%s;'")]);
    let mut consumer = Process::spawn("kcat", consumer);
    assert!(consumer.wait_end(LONG).await.success(), "{}", consumer.tail());
    let printed = consumer.text(Stream::Out);
    for text in texts() {
        assert!(printed.contains(&format!("{}:{text};", text.len())), "{} bytes", text.len());
    }
    forwarder.ends_well_by(Signal::TERM, LONG).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_import_of_the_moving_guide_takes_payloads_of_any_content() {
    let place = Place::start().await;
    place.configure("");
    let import = block("docs/guides/moving.md", "cat > pending.ndjson");
    let printed = place.runs(&import).await;
    assert!(printed.contains("2 stored") && printed.contains("2 exists"), "{printed}");
    for (n, text) in texts().iter().enumerate() {
        // A payload that is a string is its text.
        let import = import.replace(r#"{"order":17}"#, &serde_json::to_string(text).unwrap());
        let import = import.replace("order-17", &format!("m{n}")).replace("order-18", &format!("n{n}"));
        std::fs::write(place.folder.join("import.sh"), import).unwrap();
        place.runs("source ./import.sh").await;
        assert!(place.payload("orders", &format!("m{n}")).await == *text, "{n}");
    }
}
