//! One of the deployments that take turns, and what a step of its messages cost.

use crate::bare::Bare;
use crate::bench::{client, rewrite_now};
use crate::clock::own_cpu;
use crate::error::BenchError;
use crate::messages::Messages;
use crate::put;
use crate::server::{Usage, usage};
use crate::shape::Shape;
use delayq::protocol::{Claimed, Holder, Owner, Receipt, ReserveRequest, ShardId};
use delayq::{Admin, Producer, ProducerOptions, Settled, Topic, UnixMillis};
use std::sync::Arc;
use std::time::Duration;

const BATCH: u16 = 100;
const FULL_BATCH: u16 = 500;
/// The first put comes so long before the messages are due, and longer by this for each of a kind: all are put before.
const AHEAD: Duration = Duration::from_secs(5);
const AHEAD_EACH: Duration = Duration::from_micros(300);
/// Longer than a round.
const LEASE: Duration = Duration::from_secs(3600);

/// What happens to the messages of a round, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    PutInBatches,
    PutOneByOne,
    Pump,
    Reserve,
    Ack,
}

/// A deployment: on one Redis, or on several masters.
pub(super) struct Side {
    url: String,
    shape: Shape,
    /// A connection to each server.
    servers: Vec<Bare>,
}

/// A deployment with the messages of a round.
pub(super) struct Course<'s> {
    servers: &'s mut [Bare],
    owner: Owner,
    producer: Producer,
    messages: Arc<Messages>,
    /// Each shard with the epoch of its claim.
    shards: Vec<(ShardId, Option<u64>)>,
    /// About so many messages are put in each way.
    count: usize,
    /// Messages that were put.
    put: usize,
    due: UnixMillis,
    receipts: Vec<Receipt>,
}

/// What a step cost.
pub(super) struct Spent {
    /// What each server used.
    servers: Vec<Usage>,
    /// The processor time of the client, in seconds.
    client: f64,
    messages: f64,
    /// How often a server read from its connections in a round of calls to all shards.
    pub(super) reads: f64,
}

// === impl Step ===

impl Step {
    pub(super) const ALL: [Self; 5] =
        [Self::PutInBatches, Self::PutOneByOne, Self::Pump, Self::Reserve, Self::Ack];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::PutInBatches => "put, batches of 100 by 8 callers",
            Self::PutOneByOne => "put, one by one by 64 callers",
            Self::Pump => "pump",
            Self::Reserve => "reserve",
            Self::Ack => "ack",
        }
    }
}

// === impl Side ===

impl Side {
    /// The deployment at `url`, whose servers have these addresses.
    pub(super) async fn connect(url: String, addresses: &[String], shape: Shape) -> Result<Self, BenchError> {
        let mut servers = Vec::new();
        for address in addresses {
            servers.push(Bare::connect(address).await?);
        }
        Ok(Self { url, shape, servers })
    }

    /// Empties the servers, for so many messages of each kind of put.
    pub(super) async fn begin(&mut self, count: usize) -> Result<Course<'_>, BenchError> {
        for server in &mut self.servers {
            server.call(&["FLUSHALL"]).await?;
            rewrite_now(server).await?;
        }
        let client = client(&self.url, self.shape.shards);
        Admin::new(client.clone()).init().await?;
        let owner = Owner::new(client.clone());
        let ids: Vec<ShardId> = client.shards().shards().collect();
        let mut shards = Vec::new();
        for (&shard, claimed) in ids.iter().zip(owner.claim(&ids, "bench", Duration::ZERO).await) {
            let Claimed::Mine { epoch, .. } = claimed? else {
                return Err(BenchError::Wrong("a new deployment has an owner".to_owned()));
            };
            shards.push((shard, Some(epoch)));
        }
        let producer = Producer::start(client, ProducerOptions::default());
        let messages = Arc::new(Messages::new(Topic::new("bench")?, self.shape));
        let (put, due, receipts) = (0, UnixMillis::MAX, Vec::new());
        Ok(Course {
            servers: &mut self.servers,
            owner,
            producer,
            messages,
            shards,
            count,
            put,
            due,
            receipts,
        })
    }
}

// === impl Course ===

impl Course<'_> {
    /// Takes all messages a step further: what each cost.
    pub(super) async fn spend(&mut self, step: Step) -> Result<Spent, BenchError> {
        if step == Step::PutInBatches {
            let count = u32::try_from(self.count).unwrap_or(u32::MAX);
            self.due = self.now().await? + AHEAD + AHEAD_EACH * count;
        }
        let making = self.making(step)?;
        let (before, client) = (self.usage().await?, own_cpu());
        let (messages, rounds) = self.take(step).await?;
        let client = own_cpu() - client - making;
        let mut servers = self.usage().await?;
        servers.iter_mut().zip(&before).for_each(|(server, before)| *server -= *before);
        // A server reads once to answer what it used.
        let reads = servers.iter().map(|server| server.reads - 1.0).sum::<f64>();
        let reads = reads / (servers.len() * rounds) as f64;
        Ok(Spent { servers, client, messages: messages as f64, reads })
    }

    /// The processor time of making what a step puts, which is no part of putting it.
    fn making(&self, step: Step) -> Result<f64, BenchError> {
        if !matches!(step, Step::PutInBatches | Step::PutOneByOne) {
            return Ok(0.0);
        }
        let (others, before) = (self.messages.others(), own_cpu());
        for _ in 0..self.count {
            drop(std::hint::black_box(others.next(self.due)?));
        }
        Ok(own_cpu() - before)
    }

    /// Takes a step: with how many messages, and in how many rounds of calls to all shards.
    async fn take(&mut self, step: Step) -> Result<(usize, usize), BenchError> {
        match step {
            Step::PutInBatches => {
                let put = put::in_batches(&self.producer, &self.messages, self.count, self.due).await?;
                Ok((self.has_put(put), 1))
            }
            Step::PutOneByOne => {
                let put = put::one_by_one(&self.producer, &self.messages, self.count, self.due).await?;
                Ok((self.has_put(put), 1))
            }
            Step::Pump => self.pump().await,
            Step::Reserve => self.reserve().await,
            Step::Ack => self.ack().await,
        }
    }

    async fn pump(&self) -> Result<(usize, usize), BenchError> {
        let (mut moved, mut rounds) = (0, 0);
        loop {
            rounds += 1;
            let mut here = 0;
            for report in self.owner.pump(&self.shards, FULL_BATCH, None).await {
                here += usize::try_from(report?.moved).unwrap_or(usize::MAX);
            }
            moved += here;
            if here == 0 {
                return self.all(moved, "became ready by a pump").map(|all| (all, rounds));
            }
        }
    }

    async fn reserve(&mut self) -> Result<(usize, usize), BenchError> {
        let holder = Holder::new(self.owner.client().clone());
        let topics = vec![self.messages.topic.clone()];
        let request = ReserveRequest { topics, most: BATCH, max_bytes: 0, lease: Some(LEASE) };
        let requests: Vec<_> = self.shards.iter().map(|&(shard, _)| (shard, request.clone())).collect();
        let mut rounds = 0;
        loop {
            rounds += 1;
            let before = self.receipts.len();
            for report in holder.reserve(&requests).await {
                self.receipts.extend(report?.messages.into_iter().map(|message| message.receipt));
            }
            if self.receipts.len() == before {
                return self.all(self.receipts.len(), "were reserved").map(|all| (all, rounds));
            }
        }
    }

    async fn ack(&mut self) -> Result<(usize, usize), BenchError> {
        let holder = Holder::new(self.owner.client().clone());
        let receipts = std::mem::take(&mut self.receipts);
        let calls = receipts.chunks(self.shards.len() * usize::from(BATCH));
        let rounds = calls.len();
        let mut acked = 0;
        for call in calls {
            for answer in holder.ack(call).await {
                acked += usize::from(answer? == Settled::Delivered);
            }
        }
        self.all(acked, "were acked").map(|all| (all, rounds))
    }

    /// Waits until the messages of both kinds of put are due, of which none may be before.
    pub(super) async fn due(&self) -> Result<(), BenchError> {
        let left = self.due.since(self.now().await?);
        if left.is_zero() {
            return Err(BenchError::Wrong("this machine puts too slowly: take fewer messages".to_owned()));
        }
        tokio::time::sleep(left).await;
        Ok(())
    }

    fn has_put(&mut self, count: usize) -> usize {
        self.put += count;
        count
    }

    fn all(&self, counted: usize, what: &str) -> Result<usize, BenchError> {
        if counted == self.put {
            return Ok(counted);
        }
        Err(BenchError::Wrong(format!("{counted} of {} messages {what}", self.put)))
    }

    async fn now(&self) -> Result<UnixMillis, BenchError> {
        Ok(self.owner.redis_time(self.shards[0].0).await?.millis())
    }

    async fn usage(&mut self) -> Result<Vec<Usage>, BenchError> {
        let mut all = Vec::new();
        for server in &mut *self.servers {
            all.push(usage(server).await?);
        }
        Ok(all)
    }
}

// === impl Spent ===

impl Spent {
    /// Calls of scripts a message.
    pub(super) fn calls(&self) -> f64 {
        self.servers.iter().map(|server| server.calls).sum::<f64>() / self.messages
    }

    /// In scripts, by all servers, in µs a message.
    pub(super) fn scripts_us(&self) -> f64 {
        self.each_us(self.servers.iter().map(|server| server.scripts).sum())
    }

    /// Processor time of all servers, in µs a message.
    pub(super) fn servers_us(&self) -> f64 {
        self.each_us(self.servers.iter().map(|server| server.cpu).sum())
    }

    /// Processor time of the server that used the most, in µs a message of all.
    pub(super) fn busiest_us(&self) -> f64 {
        self.each_us(self.servers.iter().map(|server| server.cpu).fold(0.0, f64::max))
    }

    /// Processor time of the client, in µs a message.
    pub(super) fn client_us(&self) -> f64 {
        self.each_us(self.client)
    }

    fn each_us(&self, seconds: f64) -> f64 {
        1e6 * seconds / self.messages
    }
}
