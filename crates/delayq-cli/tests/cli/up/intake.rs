//! Intakes of `delayq up`, by a configuration.

use super::delayq;
use async_nats::HeaderMap;
use async_nats::jetstream::stream::Config;
use async_nats::jetstream::{self, Context};
use delayq_tests::binary::Binary;
use delayq_tests::deadline::{LONG, SHORT, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::nats_server::NatsServer;
use delayq_tests::process::Signal;

async fn create(context: &Context, name: &str) {
    let config = Config { name: name.to_owned(), subjects: vec![name.to_owned()], ..Config::default() };
    context.create_stream(config).await.unwrap();
}

#[tokio::test]
async fn up_takes_in_what_a_broker_has_for_it() {
    let nats = NatsServer::start(&[]).await;
    let context = jetstream::new(async_nats::connect(nats.url()).await.unwrap());
    create(&context, "in").await;
    create(&context, "dead").await;
    let mut headers = HeaderMap::new();
    headers.insert("delayq-id", "order-17");
    context.publish_with_headers("in", headers, "body".into()).await.unwrap().await.unwrap();

    let folder = Folder::new("up");
    let (data, given) = (folder.join("data"), folder.join("given.toml"));
    let text = format!(
        "[intake.orders]\ndead = \"dead\"\ntopic = \"orders\"\n[intake.orders.nats]\nservers = [\"{}\"]\nstream = \"in\"\n",
        nats.url()
    );
    std::fs::write(&given, text).unwrap();
    let up = Binary::new("delayq").args(["up", "--no-etcd", "--data"]).arg(&data).arg("--config").arg(&given);
    let mut up = up.start();
    up.wait_for_line("delayq is up", LONG).await;
    wait_until("the message of the record", LONG, async || {
        let counted = delayq(&data, &["count", "orders", "--json"]).run(b"", SHORT).await;
        counted.stdout.contains("\"ready\": 1")
    })
    .await;
    up.ends_well_by(Signal::INT, LONG).await;
}
