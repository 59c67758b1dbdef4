//! The intake `nats`.

use crate::conformance::conforms;
use crate::stage::{Broker, Sent};
use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::stream::Config;
use async_nats::jetstream::{self, Context};
use async_nats::{HeaderMap, HeaderName};
use delayq_tests::deadline::{LONG, wait_for};
use delayq_tests::nats_server::NatsServer;
use futures_util::future::try_join_all;

struct Nats {
    server: NatsServer,
}

impl Nats {
    async fn context(&self) -> Context {
        jetstream::new(async_nats::connect(self.server.url()).await.unwrap())
    }
}

impl Broker for Nats {
    const EVENT_PREFIX: &'static str = "ce-";
    const ORIGIN: &'static str = "nats in sequence ";

    async fn start() -> Self {
        let nats = Self { server: NatsServer::start(&[]).await };
        let context = nats.context().await;
        for (name, subject) in [("in", "in.>"), ("dead", "dead")] {
            let (name, subjects) = (name.to_owned(), vec![subject.to_owned()]);
            context.create_stream(Config { name, subjects, ..Config::default() }).await.unwrap();
        }
        nats
    }

    fn section(&self) -> String {
        format!(
            "dead = \"dead\"\n[intake.orders.nats]\nservers = [\"{}\"]\nstream = \"in\"\n",
            self.server.url()
        )
    }

    async fn publish(&self, records: Vec<Sent>) {
        let context = self.context().await;
        for some in records.chunks(1000) {
            let mut acks = Vec::new();
            for record in some {
                let mut headers = HeaderMap::new();
                for (name, value) in &record.headers {
                    headers.append(name.parse::<HeaderName>().unwrap(), value.as_str());
                }
                let body = record.body.clone().into();
                acks.push(context.publish_with_headers("in.orders", headers, body).await.unwrap());
            }
            try_join_all(acks.into_iter().map(IntoFuture::into_future)).await.unwrap();
        }
    }

    async fn dead(&self, count: usize) -> Vec<Sent> {
        let context = self.context().await;
        wait_for("dead records", LONG, async || {
            let mut stream = context.get_stream("dead").await.unwrap();
            let last = stream.info().await.unwrap().state.last_sequence;
            let mut found = Vec::new();
            for sequence in 1..=last {
                let message = stream.get_raw_message(sequence).await.unwrap();
                let headers = message.headers.iter().flat_map(|(name, values)| {
                    values.iter().map(|value| (name.to_string(), value.as_str().to_owned()))
                });
                let headers = headers.collect();
                found.push(Sent { headers, body: message.payload.to_vec(), ..Sent::default() });
            }
            (found.len() >= count).then_some(found)
        })
        .await
    }

    async fn unsettled(&self) -> u64 {
        let mut stream = self.context().await.get_stream("in").await.unwrap();
        match stream.get_consumer::<pull::Config>("delayq").await {
            Ok(consumer) => {
                let info = consumer.cached_info();
                info.num_pending + info.num_ack_pending as u64
            }
            Err(_) => stream.info().await.unwrap().state.messages,
        }
    }

    async fn kill(&mut self) {
        self.server.kill().await;
    }

    async fn resume(&mut self) {
        self.server.resume().await;
    }
}

conforms!(Nats);
