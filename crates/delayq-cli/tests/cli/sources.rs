//! Findings of `delayq doctor` and `delayq check` about an outbox and intakes.

use async_nats::HeaderMap;
use async_nats::jetstream::stream::Config;
use async_nats::jetstream::{self, Context};
use delayq_tests::binary::Binary;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::nats_server::NatsServer;
use delayq_tests::process::Signal;
use serde_json::Value;
use std::path::Path;

const START: &str = "start a delayq-compensator with this configuration";

async fn found(command: &str, file: &Path, what: &str) -> Option<[String; 3]> {
    let command = Binary::new("delayq").arg("--config").arg(file).args([command, "--json"]);
    let finished = command.run(b"", LONG).await;
    let found: Value = serde_json::from_str(&finished.stdout).unwrap();
    let checks = found.as_array().or_else(|| found["checks"].as_array()).unwrap();
    let check = checks.iter().find(|check| check["what"] == what)?;
    let text = |name: &str| check[name].as_str().unwrap_or_default().to_owned();
    let verdict = text("verdict") + &text("status");
    Some([verdict, text("found"), text("advice")])
}

async fn create(context: &Context, name: &str) {
    let config = Config { name: name.to_owned(), subjects: vec![name.to_owned()], ..Config::default() };
    context.create_stream(config).await.unwrap();
}

#[tokio::test]
async fn an_intake_is_judged_by_its_broker_its_reader_and_what_waits() {
    let (redis, folder) = (super::deployment().await, Folder::new("sources"));
    let mut nats = NatsServer::start(&[]).await;
    let context = jetstream::new(async_nats::connect(nats.url()).await.unwrap());
    let file = folder.join("delayq.toml");
    let text = format!(
        "[deployment]\nshards = 4\n[redis]\nurl = \"{}\"\n[etcd]\nenabled = false\n[admin]\nlisten = \"\"\n\
         [intake.orders]\ndead = \"dead\"\ntopic = \"orders\"\n[intake.orders.nats]\nservers = [\"{}\"]\nstream = \"in\"\n",
        redis.url(),
        nats.url()
    );
    std::fs::write(&file, text).unwrap();
    let seen = async || found("doctor", &file, "intake").await.unwrap();
    let checked = async || found("check", &file, "intake").await.unwrap();

    let [verdict, missing, advice] = seen().await;
    assert_eq!(verdict, "bad");
    assert!(missing.starts_with("orders: the stream `in`"), "{missing}");
    assert!(advice.starts_with("create it, or grant this user access"), "{advice}");
    create(&context, "in").await;
    create(&context, "dead").await;
    assert_eq!(seen().await, ["warning", "orders: no compensator is reading it; nothing waits", START]);
    assert_eq!(checked().await[0], "WARNING");
    let mut headers = HeaderMap::new();
    headers.insert("delayq-id", "order-17");
    context.publish_with_headers("in", headers, "body".into()).await.unwrap().await.unwrap();
    let unread = "orders: no compensator is reading it, and 1 record waits";
    assert_eq!(seen().await, ["bad", unread, START]);
    assert_eq!(checked().await, ["CRITICAL", unread, START]);

    let mut compensator = Binary::new("delayq-compensator").arg(&file).start();
    let read = "orders: read by a compensator, through the consumer delayq; nothing waits";
    wait_until("a reader", LONG, async || seen().await == ["good", read, ""]).await;
    assert_eq!(checked().await[0], "OK");
    compensator.ends_well_by(Signal::TERM, LONG).await;
    nats.kill().await;
    let [verdict, away, advice] = seen().await;
    assert!(verdict == "bad" && away.contains(&nats.address()), "{away}");
    assert_eq!(advice, "start the broker, or correct [intake.orders]");
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn an_outbox_without_tables_is_critical_and_one_that_is_empty_is_well() {
    use delayq_tests::postgres_server::PostgresServer;

    let (redis, folder) = (super::deployment().await, Folder::new("sources"));
    let postgres = PostgresServer::start().await;
    let file = folder.join("delayq.toml");
    let text = format!(
        "[deployment]\nshards = 4\n[redis]\nurl = \"{}\"\n[etcd]\nenabled = false\n[outbox]\nurl = \"{}\"\n",
        redis.url(),
        postgres.url()
    );
    std::fs::write(&file, text).unwrap();
    let seen = async |command| found(command, &file, "outbox").await.unwrap();
    let [verdict, _, advice] = seen("doctor").await;
    assert_eq!((verdict.as_str(), advice.contains("delayq outbox init")), ("bad", true), "{advice}");
    assert_eq!(seen("check").await[0], "CRITICAL");
    let init = Binary::new("delayq").arg("--config").arg(&file).args(["outbox", "init"]);
    assert_eq!(init.run(b"", LONG).await.code, Some(0));
    assert_eq!(seen("doctor").await[0], "good");
    let [status, found, _] = seen("check").await;
    assert!(status == "OK" && found.starts_with("nothing waits; 0 rejected"), "{found}");
}
