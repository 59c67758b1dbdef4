//! Callers that put and cancel all the time, and the answers of each.

use delayq::admin::Durability;
use delayq::{
    Admin, CancelOutcome, Error, Fate, Message, MessageId, Producer, PutOutcome, State, Target, Topic,
    UnixMillis,
};
use delayq_tests::deadline::within;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;

const FAR: UnixMillis = UnixMillis::new(4_102_444_800_000);
const CALLERS: usize = 6;
/// Puts of a caller at a time; once all are answered, the caller cancels the first.
const A_BATCH: usize = 10;
/// Puts, and refusals during an outage, leave the servers a share of the machine.
const BETWEEN_CALLS: Duration = Duration::from_millis(50);
/// A call ends by its own deadline.
const PATIENCE: Duration = Duration::from_secs(300);

#[derive(Debug, Default)]
pub(crate) struct Answers {
    pub(crate) put: BTreeSet<String>,
    pub(crate) cancelled: BTreeSet<String>,
    cancelling: BTreeSet<String>,
    wrong: Vec<String>,
    pub(crate) not_applied: usize,
    pub(crate) unknown: usize,
}

pub(crate) struct Load {
    answers: Arc<Mutex<Answers>>,
    stop: Arc<AtomicBool>,
    callers: Vec<JoinHandle<()>>,
}

struct Caller {
    number: usize,
    producer: Producer,
    answers: Arc<Mutex<Answers>>,
    stop: Arc<AtomicBool>,
}

pub(crate) fn topic() -> Topic {
    Topic::new("orders").unwrap()
}

pub(crate) fn message(id: &str) -> Message {
    Message::new(topic(), "x").at(FAR).id(id).unwrap()
}

pub(crate) async fn ask_for(admin: &Admin, durability: Durability) {
    let policy = delayq::admin::Policy { durability: Some(durability), ..Default::default() };
    admin.topic(&topic()).change_policy(&policy, &[]).await.unwrap();
}

// === impl Load ===

impl Load {
    pub(crate) fn start(producer: &Producer) -> Self {
        let (answers, stop) = (Arc::default(), Arc::default());
        let caller = |number| {
            let (answers, stop) = (Arc::clone(&answers), Arc::clone(&stop));
            tokio::spawn(Caller { number, producer: producer.clone(), answers, stop }.run())
        };
        let callers = (0..CALLERS).map(caller).collect();
        Self { answers, stop, callers }
    }

    pub(crate) fn answered(&self) -> usize {
        self.answers.lock().unwrap().put.len()
    }

    pub(crate) async fn stop(self) -> Answers {
        self.stop.store(true, Ordering::Relaxed);
        for caller in self.callers {
            within("a caller to end", PATIENCE, caller).await.unwrap();
        }
        std::mem::take(&mut self.answers.lock().unwrap())
    }
}

// === impl Caller ===

impl Caller {
    async fn run(self) {
        for round in 0.. {
            let ids: Vec<String> = (0..A_BATCH).map(|n| format!("{}-{round}-{n}", self.number)).collect();
            self.put(&ids).await;
            self.cancel(&ids[0]).await;
            if self.stopped() {
                return;
            }
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    async fn put(&self, ids: &[String]) {
        let mut left = ids.to_vec();
        while !left.is_empty() && !self.stopped() {
            let answers = self.producer.put_many(left.iter().map(|id| message(id)).collect()).await;
            let mut again = Vec::new();
            for (id, answer) in left.into_iter().zip(answers) {
                match answer {
                    Ok(put) => self.note_put(id, &put.outcome),
                    Err(refused) => {
                        self.note_error(&id, &refused.error);
                        again.push(id);
                    }
                }
            }
            left = again;
            tokio::time::sleep(BETWEEN_CALLS).await;
        }
    }

    async fn cancel(&self, id: &str) {
        if !self.answers.lock().unwrap().put.contains(id) {
            return;
        }
        self.answers.lock().unwrap().cancelling.insert(id.to_owned());
        let target = Target::from(MessageId::own(id).unwrap());
        while !self.stopped() {
            match self.producer.cancel(&topic(), &target).await {
                Ok(CancelOutcome::Cancelled) => {
                    let mut answers = self.answers.lock().unwrap();
                    answers.cancelling.remove(id);
                    answers.cancelled.insert(id.to_owned());
                    return;
                }
                Ok(other) => {
                    self.answers.lock().unwrap().wrong.push(format!("cancel of {id}: {other:?}"));
                    return;
                }
                Err(error) => self.note_error(id, &error),
            }
            tokio::time::sleep(BETWEEN_CALLS).await;
        }
    }

    fn note_put(&self, id: String, outcome: &PutOutcome) {
        let mut answers = self.answers.lock().unwrap();
        match outcome {
            PutOutcome::Stored(_) | PutOutcome::Exists(State::Delayed, _) => _ = answers.put.insert(id),
            other => answers.wrong.push(format!("put of {id}: {other:?}")),
        }
    }

    fn note_error(&self, id: &str, error: &Error) {
        let mut answers = self.answers.lock().unwrap();
        if !error.is_outage() {
            answers.wrong.push(format!("{id}: {error}"));
        }
        match error.fate() {
            Fate::NotApplied => answers.not_applied += 1,
            Fate::Unknown => answers.unknown += 1,
        }
    }
}

// === impl Answers ===

impl Answers {
    pub(crate) async fn hold(&self, admin: &Admin) {
        assert_eq!(self.wrong, Vec::<String>::new());
        let pending = pending(admin).await;
        let over = |id: &String| self.cancelled.contains(id) || self.cancelling.contains(id);
        let lost: Vec<_> = self.put.iter().filter(|id| !over(id) && !pending.contains(*id)).collect();
        let back: Vec<_> = self.cancelled.iter().filter(|id| pending.contains(*id)).collect();
        let of = self.put.len();
        assert!(lost.is_empty(), "{} of {of} answered puts are lost: {:?}", lost.len(), first(&lost));
        assert!(back.is_empty(), "{} cancelled messages are back: {:?}", back.len(), first(&back));
        let books = admin.topic(&topic()).count().await.unwrap();
        assert!(books.balances() && books.accepted >= of as u64, "{of} answered, {books:?}");
        assert!(books.cancelled >= self.cancelled.len() as u64, "{books:?}");
    }
}

fn first<'a>(ids: &'a [&'a String]) -> &'a [&'a String] {
    &ids[..ids.len().min(10)]
}

pub(crate) async fn pending(admin: &Admin) -> BTreeSet<String> {
    let (mut walk, mut ids) = (admin.walk(None).await.unwrap(), BTreeSet::new());
    while let Some(step) = walk.step().await.unwrap() {
        ids.extend(step.into_iter().map(|listed| listed.id.to_string()));
    }
    ids
}
