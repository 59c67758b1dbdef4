//! The environment of every measurement: a deployment on an empty Redis, and its scripts' hashes.

use crate::bare::{Answer, Bare};
use crate::error::BenchError;
use crate::messages::Messages;
use crate::shape::Shape;
use crate::timers::Timers;
use crate::waits::Waits;
use delayq::protocol::{Holder, Keys, Layout, Reservation, ReserveRequest, Scripts, ShardId, Verb};
use delayq::{Admin, Client, Message, Producer, ProducerOptions, Settings, ShardCount, Topic, UnixMillis};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct Bench {
    pub(crate) address: String,
    /// True for a private Redis, whose append-only file is rewritten before each figure, and not within one.
    pub(crate) own: bool,
    pub(crate) messages: usize,
    pub(crate) shards: ShardCount,
    /// Default: a minute.
    pub(crate) lives_last: Duration,
    /// Receives every wait of a lateness, in addition to the percentiles.
    pub(crate) waits: Option<Arc<Waits>>,
}

pub(crate) struct Prepared {
    pub(crate) client: Client,
    pub(crate) producer: Producer,
    pub(crate) bare: Bare,
    pub(crate) messages: Arc<Messages>,
    scripts: Scripts,
}

// === impl Bench ===

impl Bench {
    pub(crate) fn client(&self, shards: ShardCount) -> Client {
        client(&self.url(), shards)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    pub(crate) async fn prepared(&self, shape: Shape) -> Result<Prepared, BenchError> {
        let mut bare = Bare::connect(&self.address).await?;
        bare.call(&["FLUSHALL"]).await?;
        if self.own {
            rewrite_now(&mut bare).await?;
        }
        let client = self.client(shape.shards);
        Admin::new(client.clone()).init().await?;
        let scripts = Scripts::published();
        for verb in [Verb::Put, Verb::Pump, Verb::Reserve, Verb::Ack] {
            bare.call(&["SCRIPT", "LOAD", &scripts.get(verb).source]).await?;
        }
        let producer = Producer::start(client.clone(), ProducerOptions::default());
        let messages = Arc::new(Messages::new(Topic::new("bench")?, shape));
        Ok(Prepared { client, producer, bare, messages, scripts })
    }
}

pub(crate) fn client(url: &str, shards: ShardCount) -> Client {
    let mut settings = Settings::new(url);
    settings.shards = shards;
    settings.link.deadline = Duration::from_secs(30);
    Client::new(settings)
}

/// Rewrites the append-only file now, and disables automatic rewrites: a rewrite costs a core while it lasts.
pub(crate) async fn rewrite_now(bare: &mut Bare) -> Result<(), BenchError> {
    bare.call(&["CONFIG", "SET", "auto-aof-rewrite-percentage", "0"]).await?;
    bare.call(&["BGREWRITEAOF"]).await?;
    loop {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let Answer::Text(info) = bare.call(&["INFO", "persistence"]).await? else {
            return Err(BenchError::Wrong("INFO answered no text".to_owned()));
        };
        let info = String::from_utf8_lossy(&info);
        if ["aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0"].iter().all(|line| info.contains(line)) {
            return Ok(());
        }
    }
}

// === impl Prepared ===

impl Prepared {
    pub(crate) async fn ready(&self) -> Result<Vec<Reservation>, BenchError> {
        let holder = Holder::new(self.client.clone());
        let topics = vec![self.messages.topic.clone()];
        let request = ReserveRequest { topics, most: 500, max_bytes: 0, lease: None };
        let mut ready = Vec::new();
        for shard in self.client.shards().shards() {
            loop {
                let report = holder.reserve(&[(shard, request.clone())]).await.remove(0)?;
                if report.messages.is_empty() {
                    break;
                }
                ready.extend(report.messages);
            }
        }
        Ok(ready)
    }

    pub(crate) fn sha(&self, verb: Verb) -> &str {
        &self.scripts.get(verb).sha
    }

    pub(crate) fn call(&self, verb: Verb, shard: ShardId) -> Vec<Vec<u8>> {
        let keys = Keys::new(self.client.namespace().clone());
        let (meta, never) = (keys.meta(shard), keys.never(shard));
        let words: [&[u8]; 6] =
            [b"EVALSHA", self.sha(verb).as_bytes(), b"2", meta.as_bytes(), never.as_bytes(), b"1"];
        words.map(<[u8]>::to_vec).into()
    }

    pub(crate) fn shard_of(&self, message: &Message) -> ShardId {
        let id = message.id.as_ref().expect("a message has its id before its shard is asked for");
        Layout::new(self.client.shards()).placement_of(id, message.group.as_ref()).home
    }

    pub(crate) async fn redis_ms(&mut self) -> Result<UnixMillis, BenchError> {
        let Answer::List(items) = self.bare.call(&["TIME"]).await? else {
            return Err(BenchError::Wrong("TIME answered no list".to_owned()));
        };
        let number = |item: &Answer| match item {
            Answer::Text(text) => String::from_utf8_lossy(text).parse::<u64>().unwrap_or(0),
            _ => 0,
        };
        Ok(UnixMillis::new(number(&items[0]) * 1000 + number(&items[1]) / 1000))
    }

    pub(crate) async fn owned_by(&self, timers: &Timers) -> Result<(), BenchError> {
        timers.own_all(self.client.shards()).await
    }

    pub(crate) async fn stat(&mut self, counter: &str) -> Result<u64, BenchError> {
        let mut sum = 0;
        for shard in self.client.shards().shards() {
            let stats = Keys::new(self.client.namespace().clone()).base(shard) + "stats";
            if let Answer::Text(count) = self.bare.call(&["HGET", &stats, counter]).await? {
                sum += String::from_utf8_lossy(&count).parse::<u64>().unwrap_or(0);
            }
        }
        Ok(sum)
    }

    /// In full batches, with random due times in this span.
    pub(crate) async fn fill(&self, count: usize, from: UnixMillis, span_ms: u64) -> Result<(), BenchError> {
        let due = || from + Duration::from_millis(fastrand::u64(0..span_ms.max(1)));
        let mut left = count;
        while left > 0 {
            let some = left.min(4000);
            self.messages.put_many(&self.producer, some, due).await?;
            left -= some;
        }
        Ok(())
    }
}
