//! What every measurement needs: a deployment of its own on an empty Redis, and the scripts' names there.

use crate::{
    address::Address,
    bare::{Answer, Bare},
    fleet::Fleet,
};
use delayq_core::{
    Client, Message, Producer, ProducerOptions, Scripts, Settings, ShardCount, Topic, UnixMillis, Verb,
};
use std::{io, time::Duration};

/// How long a measurement waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A Redis to measure on. Everything in it is deleted.
#[derive(Clone, Debug)]
pub struct Bench {
    /// Where it is.
    pub address: Address,
    /// Whether it is there for the measurement alone: then its append-only file is rewritten before each figure, and not
    /// within one.
    pub own: bool,
    /// How many messages a measurement of throughput moves. Default 200,000.
    pub messages: usize,
}

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The bare client could not go on.
    #[error("the bare client: {0}")]
    Bare(#[from] io::Error),
    /// delayq could not go on.
    #[error("delayq: {0}")]
    Delayq(#[from] delayq_core::Error),
    /// Something was not as it must be.
    #[error("{0}")]
    Wrong(String),
}

pub(crate) struct Ground {
    pub(crate) client: Client,
    pub(crate) producer: Producer,
    pub(crate) bare: Bare,
    pub(crate) topic: Topic,
    scripts: Scripts,
}

// === impl Bench ===

impl Bench {
    /// A client of its own on the deployment.
    pub(crate) fn client(&self, shards: u16) -> Result<Client, BenchError> {
        let mut settings = Settings::new(self.address.url());
        settings.link.password = self.address.password.clone();
        settings.shards = ShardCount::new(shards).map_err(|error| BenchError::Wrong(error.to_string()))?;
        settings.link.deadline = Duration::from_secs(30);
        Ok(Client::new(settings))
    }

    pub(crate) async fn ground(&self, shards: u16) -> Result<Ground, BenchError> {
        let mut bare = Bare::connect(&self.address).await?;
        bare.call(&[b"FLUSHALL"]).await?;
        if self.own {
            rewrite_now(&mut bare).await?;
        }
        let client = self.client(shards)?;
        client.init().await?;
        let scripts = Scripts::published();
        for verb in [Verb::Put, Verb::Pump, Verb::Reserve, Verb::Ack] {
            bare.call(&[b"SCRIPT", b"LOAD", scripts.get(verb).source.as_bytes()]).await?;
        }
        let producer = Producer::start(client.clone(), ProducerOptions::default());
        let topic = Topic::new("bench").map_err(|error| BenchError::Wrong(error.to_string()))?;
        Ok(Ground { client, producer, bare, topic, scripts })
    }
}

/// Rewrites the append-only file, and keeps Redis from doing that on its own: it costs a core for as long as it takes.
async fn rewrite_now(bare: &mut Bare) -> Result<(), BenchError> {
    bare.call(&[b"CONFIG", b"SET", b"auto-aof-rewrite-percentage", b"0"]).await?;
    bare.call(&[b"BGREWRITEAOF"]).await?;
    loop {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let Answer::Text(info) = bare.call(&[b"INFO", b"persistence"]).await? else {
            return Err(BenchError::Wrong("INFO answered no text".to_owned()));
        };
        let info = String::from_utf8_lossy(&info);
        if ["aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0"].iter().all(|line| info.contains(line)) {
            return Ok(());
        }
    }
}

// === impl Ground ===

impl Ground {
    pub(crate) fn sha(&self, verb: Verb) -> &[u8] {
        self.scripts.get(verb).sha.as_bytes()
    }

    /// Redis's clock.
    pub(crate) async fn redis_ms(&mut self) -> Result<UnixMillis, BenchError> {
        let Answer::List(items) = self.bare.call(&[b"TIME"]).await? else {
            return Err(BenchError::Wrong("TIME answered no list".to_owned()));
        };
        let number = |item: &Answer| match item {
            Answer::Text(text) => String::from_utf8_lossy(text).parse::<u64>().unwrap_or(0),
            _ => 0,
        };
        Ok(UnixMillis::new(number(&items[0]) * 1000 + number(&items[1]) / 1000))
    }

    /// Waits until the timers of this run own every shard.
    pub(crate) async fn owned_by(&self, fleet: &impl Fleet) -> Result<(), BenchError> {
        let shards = u64::from(self.client.shards().get());
        let owned = async {
            while !fleet.share(shards) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let none = |_| BenchError::Wrong("the timers did not share the shards within a minute".to_owned());
        tokio::time::timeout(PATIENCE, owned).await.map_err(none)
    }

    /// A message of 200 bytes, due at this time.
    pub(crate) fn message(&self, due: UnixMillis) -> Message {
        Message::new(self.topic.clone(), body()).at(due)
    }

    /// Puts so many messages, in batches, due between these times at random.
    pub(crate) async fn fill(&self, count: usize, from: UnixMillis, span_ms: u64) -> Result<(), BenchError> {
        let mut left = count;
        while left > 0 {
            let some = left.min(500);
            let messages = (0..some)
                .map(|_| self.message(from + Duration::from_millis(fastrand::u64(0..span_ms.max(1)))))
                .collect();
            for put in self.producer.put_many(messages).await {
                let put = put.map_err(|error| error.error)?;
                if !put.outcome.is_accepted() {
                    return Err(BenchError::Wrong(format!("a put answered {:?}", put.outcome)));
                }
            }
            left -= some;
        }
        Ok(())
    }
}

/// An order as JSON, 200 bytes.
pub(crate) fn body() -> Vec<u8> {
    let n = fastrand::u32(10_000_000..99_999_999);
    let mut text = format!(
        "{{\"order\":\"{n}\",\"customer\":\"{}\",\"amount\":\"{}.90\",\"currency\":\"EUR\",\"event\":\"payment-timeout\",\"items\":[{{\"sku\":\"A-{}\",\"count\":2}}],\"note\":\"",
        n / 3,
        n % 1000,
        n % 7919,
    );
    while text.len() < 198 {
        text.push(char::from(b'a' + (text.len() as u8 % 26)));
    }
    text.push_str("\"}");
    text.into_bytes()
}
