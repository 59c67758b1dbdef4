//! Receiving: a few tasks wait for records, one keeps the records hidden that are not settled, and a settled record is deleted.

use super::config::SqsIntakeConfig;
use super::held::HiddenRecords;
use crate::intake::broker::{Arrived, Broker, Buried, Dead, NOT_CONNECTED, buried};
use crate::intake::look::{IntakeFault, IntakeLook};
use crate::intake::record::BrokerRecord;
use async_trait::async_trait;
use delayq::UnixMillis;
use delayq_service::brokers::{Answers, Blame, Outcome, SqsFault, SqsLetter, SqsQueue, SqsRecord};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Number of receives under way. Each brings ten records at most.
const RECEIVERS: usize = 4;
/// How often hidden records are looked over, and every how many times the queue is counted.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const COUNT_EVERY: u32 = 5;
/// Time that an answer may have taken.
const SLACK: Duration = Duration::from_secs(2);
/// Maximum time for giving records back.
const CLOSING: Duration = Duration::from_secs(3);
/// Time for the answers on their way when the connection closes. The server hides what a dropped receive would have brought.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// A queue, and the queue of dead records.
pub(crate) struct SqsSource {
    config: SqsIntakeConfig,
    dead: String,
    open: Option<SqsConnection>,
}

struct SqsConnection {
    shared: Arc<SharedQueue>,
    arrivals: Receiver<Result<Vec<SqsRecord>, String>>,
    name: Arc<str>,
    receivers: JoinSet<()>,
    keeper: JoinSet<()>,
}

/// Shared by the tasks of a connection.
struct SharedQueue {
    queue: SqsQueue,
    visibility: Duration,
    held: Mutex<HiddenRecords>,
    lag: AtomicU64,
}

/// A record that was handed out.
#[derive(Debug)]
pub(crate) struct SqsTicket {
    queue: Arc<str>,
    id: String,
    receipt: String,
    group: String,
}

// === impl SqsTicket ===

impl fmt::Display for SqsTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sqs {} message {}", self.queue, self.id)
    }
}

// === impl SharedQueue ===

impl SharedQueue {
    fn held(&self) -> MutexGuard<'_, HiddenRecords> {
        // Each change is one insert, remove or assignment.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives whenever there is room for the records.
    async fn receive(self: Arc<Self>, arrivals: Sender<Result<Vec<SqsRecord>, String>>) {
        while let Ok(room) = arrivals.reserve().await {
            let received = self.queue.receive(self.visibility).await;
            let until = Instant::now() + self.visibility - SLACK;
            for record in received.iter().flatten() {
                self.held().add(record.receipt_handle.clone(), until);
            }
            match received {
                Ok(records) if records.is_empty() => {}
                Ok(records) => room.send(Ok(records)),
                Err(why) => return room.send(Err(why)),
            }
        }
    }

    /// Keeps records hidden, and counts the queue.
    async fn keep(self: Arc<Self>) {
        for round in 0_u32.. {
            let due = self.held().shorter_than(self.visibility * 2 / 3, Instant::now());
            self.extend(&due).await;
            if round.is_multiple_of(COUNT_EVERY)
                && let Ok((waiting, held)) = self.queue.counts().await
            {
                self.lag.store(waiting + held, Ordering::Relaxed);
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// An answer that fails leaves a record with its time, after which the record is lost.
    async fn extend(&self, receipts: &[String]) {
        let until = Instant::now() + self.visibility;
        match self.queue.hide(receipts, self.visibility).await {
            Ok(failures) => {
                let mut held = self.held();
                for (receipt, why) in failures {
                    tracing::warn!(why, "a record is lost to another compensator");
                    held.settle(&receipt);
                }
                receipts.iter().for_each(|receipt| held.extend(receipt, until));
            }
            Err(why) => tracing::warn!(why, "records cannot be kept hidden"),
        }
    }

    /// Gives all records back, in order.
    async fn give_back(&self) {
        let all = self.held().shorter_than(self.visibility * 2, Instant::now());
        let _ = self.queue.hide(&all, Duration::ZERO).await;
    }
}

// === impl SqsSource ===

impl SqsSource {
    /// Connects nothing yet.
    pub(crate) fn new(config: SqsIntakeConfig, dead: &str) -> Self {
        Self { config, dead: dead.to_owned(), open: None }
    }

    /// Looks at the queue and the queue of the dead records, without receiving. SQS does not tell who receives, but how many
    /// records are held.
    pub(crate) async fn look(config: &SqsIntakeConfig, dead: &str) -> Result<IntakeLook, IntakeFault> {
        let queue = open(config, "delayq-look", dead).await.map_err(obstacle)?;
        let (waiting, held) = queue.counts().await.map_err(obstacle)?;
        let reader = match (waiting, held) {
            (0, 0) => Some("an unknown number of compensators".to_owned()),
            (_, 0) => None,
            (_, held) => Some(format!("the holders of {held} records")),
        };
        Ok(IntakeLook { lag: waiting + held, lost: 0, reader })
    }

    fn opened(&mut self) -> Result<&mut SqsConnection, String> {
        self.open.as_mut().ok_or_else(|| NOT_CONNECTED.to_owned())
    }
}

// === impl SqsConnection ===

impl SqsConnection {
    fn start(queue: SqsQueue, visibility: Duration) -> Self {
        let (sender, arrivals) = channel(RECEIVERS);
        let name = queue.name().into();
        let shared =
            Arc::new(SharedQueue { queue, visibility, held: Mutex::default(), lag: AtomicU64::new(0) });
        let (mut receivers, mut keeper) = (JoinSet::new(), JoinSet::new());
        for _ in 0..RECEIVERS {
            receivers.spawn(shared.clone().receive(sender.clone()));
        }
        keeper.spawn(shared.clone().keep());
        Self { shared, arrivals, name, receivers, keeper }
    }

    /// Gives all records back, also those on their way.
    async fn end(mut self) {
        self.arrivals.close();
        let _ = timeout(LAST_ANSWERS, async { while self.receivers.join_next().await.is_some() {} }).await;
        self.keeper.abort_all();
        self.shared.give_back().await;
    }

    fn arrived(&self, record: SqsRecord) -> Arrived<SqsTicket> {
        let (id, receipt) = (record.message_id.clone(), record.receipt_handle.clone());
        let group = record.attributes.get("MessageGroupId").cloned().unwrap_or_default();
        let at = record.attributes.get("SentTimestamp").and_then(|text| text.parse().ok());
        let (headers, body, damage) = record.content();
        let record =
            BrokerRecord { headers, body, at: at.map(UnixMillis::new), damage, ..BrokerRecord::default() };
        Arrived { record, ticket: SqsTicket { queue: self.name.clone(), id, receipt, group } }
    }
}

#[async_trait]
impl Broker for SqsSource {
    type Ticket = SqsTicket;

    async fn open(&mut self) -> Result<(), String> {
        self.close().await;
        let queue = open(&self.config, "delayq-compensator", &self.dead).await;
        let queue = queue.map_err(|fault| fault.to_string())?;
        self.open = Some(SqsConnection::start(queue, *self.config.visibility));
        Ok(())
    }

    /// While paused, receives end when there is no room for more records.
    async fn receive(&mut self, is_paused: bool) -> Result<Vec<Arrived<SqsTicket>>, String> {
        let open = self.opened()?;
        if is_paused {
            while !open.shared.held().is_any_lost(Instant::now()) {
                sleep(LOOK_EVERY / 2).await;
            }
            return Err("records could not be kept hidden".to_owned());
        }
        let records = open.arrivals.recv().await.ok_or(NOT_CONNECTED)??;
        Ok(records.into_iter().map(|record| open.arrived(record)).collect())
    }

    fn place(&self, ticket: &SqsTicket) -> Option<String> {
        Some(ticket.to_string())
    }

    fn is_lost(&self, ticket: &SqsTicket) -> bool {
        let lost = |open: &SqsConnection| open.shared.held().is_lost(&ticket.receipt, Instant::now());
        self.open.as_ref().is_none_or(lost)
    }

    async fn settle(&mut self, tickets: &[&SqsTicket]) -> Result<(), String> {
        let open = self.opened()?;
        let receipts: Vec<String> = tickets.iter().map(|ticket| ticket.receipt.clone()).collect();
        let failures = open.shared.queue.delete(&receipts).await?;
        let mut held = open.shared.held();
        receipts.iter().for_each(|receipt| held.settle(receipt));
        drop(held);
        match failures.into_iter().next() {
            None => Ok(()),
            Some((_, why)) => Err(format!("a record could not be deleted: {why}")),
        }
    }

    async fn bury(&mut self, dead: &[Dead<'_, SqsTicket>]) -> Result<Vec<Buried>, String> {
        let place = self.dead.clone();
        let letters: Vec<_> = dead.iter().map(|dead| letter(dead, &place)).collect();
        let outcomes = Answers::new(letters.len());
        self.opened()?.shared.queue.publish(&letters, &outcomes).await;
        Ok(buried(&outcomes, &format!("the dead queue `{place}`")))
    }

    fn lag(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.shared.lag.load(Ordering::Relaxed))
    }

    async fn close(&mut self) {
        if let Some(open) = self.open.take() {
            let _ = timeout(CLOSING, open.end()).await;
        }
    }
}

async fn open(config: &SqsIntakeConfig, by: &str, dead: &str) -> Result<SqsQueue, SqsFault> {
    SqsQueue::open(config.access.clone(), by, [&config.queue, dead]).await
}

#[allow(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn obstacle(fault: SqsFault) -> IntakeFault {
    match &fault.outcome {
        Outcome::Unavailable { blame: Blame::Unclear, .. } | Outcome::Rejected { .. } => {
            IntakeFault::Unusable(fault.to_string())
        }
        _ => IntakeFault::Unreachable(fault.to_string()),
    }
}

fn letter<'d>(dead: &'d Dead<'_, SqsTicket>, queue: &'d str) -> SqsLetter<'d> {
    let owned = |(name, value): (&str, Vec<u8>)| (name.to_owned().into(), value.into());
    SqsLetter {
        queue,
        headers: dead.headers().map(owned).collect(),
        body: &dead.record.body,
        group: &dead.ticket.group,
        identity: dead.ticket.to_string(),
    }
}
