//! A load of 2,000 puts a second, as far as the machine allows.

use crate::redis_cluster::scene::{FAR, message};
use delayq::{Fate, Producer, PutOutcome};
use delayq_tests::deadline::{LONG, within};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::interval;

const A_TURN: Duration = Duration::from_millis(10);
const PUTS_A_TURN: u32 = 20;
/// Refused puts are repeated each time after this number of turns.
const TURNS_UNTIL_AGAIN: u32 = 50;

pub(crate) struct Steady {
    ending: Arc<AtomicBool>,
    task: JoinHandle<Accepted>,
}

pub(crate) struct Accepted {
    pub(crate) ids: BTreeSet<String>,
    refused: u64,
    /// Ids whose first put may or may not have been stored.
    unknown: BTreeSet<String>,
    took: Duration,
}

// === impl Steady ===

impl Steady {
    pub(crate) fn start(producer: Producer) -> Self {
        let ending = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(put_steadily(producer, Arc::clone(&ending)));
        Self { ending, task }
    }

    pub(crate) async fn end(self) -> Accepted {
        self.ending.store(true, Ordering::Relaxed);
        within("the load to end", LONG, self.task).await.unwrap()
    }
}

// === impl Accepted ===

impl Accepted {
    pub(crate) fn summary(&self) -> String {
        let rate = self.ids.len() as f64 / self.took.as_secs_f64();
        let Self { refused, unknown, .. } = self;
        let (puts, unknown) = (self.ids.len(), unknown.len());
        format!("{puts} puts, {rate:.0} a second; {refused} answers not applied, {unknown} unknown")
    }

    /// The repeat stores a put that was answered *not applied*.
    fn answered(&mut self, id: String, outcome: &PutOutcome) {
        let is_repeat = matches!(outcome, PutOutcome::Exists(..)) && self.unknown.contains(&id);
        assert!(*outcome == PutOutcome::Stored(FAR) || is_repeat, "{id}: {outcome:?}");
        self.ids.insert(id);
    }
}

async fn put_steadily(producer: Producer, ending: Arc<AtomicBool>) -> Accepted {
    let (began, mut turns) = (Instant::now(), interval(A_TURN));
    let (ids, unknown, took) = (BTreeSet::new(), BTreeSet::new(), Duration::ZERO);
    let mut accepted = Accepted { ids, refused: 0, unknown, took };
    let mut waiting = Vec::new();
    for turn in 0_u32.. {
        turns.tick().await;
        let is_ending = ending.load(Ordering::Relaxed);
        let mut ids = Vec::new();
        if !is_ending {
            ids.extend((0..PUTS_A_TURN).map(|n| format!("steady-{turn}-{n}")));
            accepted.took = began.elapsed();
        } else if waiting.is_empty() {
            break;
        }
        if turn.is_multiple_of(TURNS_UNTIL_AGAIN) {
            ids.append(&mut waiting);
        }
        let answers = producer.put_many(ids.iter().map(|id| message(id)).collect()).await;
        for (id, answer) in ids.into_iter().zip(answers) {
            match answer {
                Ok(put) => accepted.answered(id, &put.outcome),
                Err(failed) => {
                    assert!(failed.error.is_outage(), "{}", failed.error);
                    match failed.error.fate() {
                        Fate::NotApplied => accepted.refused += 1,
                        _ => drop(accepted.unknown.insert(id.clone())),
                    }
                    waiting.push(id);
                }
            }
        }
    }
    accepted
}
