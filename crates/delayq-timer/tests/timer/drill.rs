//! One fault under load: a deployment and its etcd, timers, a stream of messages, and the final judgement.

use crate::bounds::Bound;
use crate::fleet::{Fleet, Route};
use crate::pulse::Pulse;
use crate::stand::{Running, Stand};
use crate::witness::{Witness, deliveries};
use delayq::protocol::ShardId;
use delayq::{Admin, Client, Fate, Message, Producer, Topic, UnixMillis};
use delayq_service::Metrics;
use delayq_tests::deadline::{LONG, SHORT, wait_for, wait_until};
use delayq_tests::history::{Answer, Event, History};
use delayq_tests::invariants::{Permit, check};
use delayq_tests::stall::Stall;
use delayq_tests::timing::Timing;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Interval of the load's puts, messages a put, and the start and spread of their due times.
const LOAD_EVERY: Duration = Duration::from_millis(25);
const LOAD_BATCH: u64 = 10;
const LOAD_AHEAD_MS: u64 = 150;
const LOAD_SPREAD_MS: u64 = 300;

pub(crate) struct Drill {
    pub(crate) fleet: Fleet,
    history: Arc<History>,
    witness: Witness,
    pulse: Pulse,
    stall: Stall,
    timers: Mutex<Vec<Metrics>>,
    numbers: Arc<AtomicUsize>,
}

pub(crate) struct Load {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

pub(crate) struct Verdict {
    /// Pumps with an old epoch that Redis ran; none of them moved anything.
    pub(crate) fenced: usize,
    pub(crate) timing: Timing,
}

// === impl Drill ===

impl Drill {
    pub(crate) async fn new(fleet: Fleet) -> Self {
        let witness = Witness::start(&fleet.stand).await;
        let pulse = Pulse::start(&fleet.stand.server);
        let (timers, numbers) = (Mutex::default(), Arc::default());
        Self { fleet, history: Arc::default(), witness, pulse, stall: Stall::watch(), timers, numbers }
    }

    pub(crate) fn stand(&self) -> &Stand {
        &self.fleet.stand
    }

    pub(crate) async fn timer(&self, name: &str) -> Running {
        self.timer_by(name, self.fleet.direct()).await
    }

    pub(crate) async fn timer_by(&self, name: &str, route: Route) -> Running {
        let timer = self.fleet.timer_by(name, route).await;
        self.timers.lock().unwrap().push(timer.metrics.clone());
        timer
    }

    pub(crate) async fn pair(&self) -> (Running, Running) {
        let (one, other) = (self.timer("one").await, self.timer("other").await);
        self.fleet.share(&[&one, &other]).await;
        (one, other)
    }

    /// Waits until every shard has one owner and each timer has some shards: under a load the plan balances
    /// the load of the shards, not their number.
    pub(crate) async fn settled(&self, timers: &[&Running]) {
        wait_until("the shards to be settled", LONG, || async {
            let owned: Vec<f64> = timers.iter().map(|timer| timer.metric("delayq_timer_shards")).collect();
            owned.iter().all(|&n| n >= 1.0)
                && (owned.iter().sum::<f64>() - f64::from(self.stand().shards)).abs() < 0.5
        })
        .await;
    }

    pub(crate) async fn load(&self) -> Load {
        let (stop, stopped) = watch::channel(false);
        let (producer, client) = (self.stand().producer.clone(), self.stand().client.clone());
        let (history, numbers) = (Arc::clone(&self.history), Arc::clone(&self.numbers));
        let task = tokio::spawn(async move {
            let mut tick = tokio::time::interval(LOAD_EVERY);
            while !*stopped.borrow() {
                tick.tick().await;
                let now = now_ms(&client).await;
                let due = (0..LOAD_BATCH).map(|_| now + LOAD_AHEAD_MS + fastrand::u64(..LOAD_SPREAD_MS));
                put(&producer, &history, &numbers, due).await;
            }
        });
        self.flows().await;
        Load { stop, task }
    }

    pub(crate) async fn flows(&self) {
        let ready = self.stand().ready().await;
        wait_until("the load to flow", SHORT, || async { self.stand().ready().await > ready + 100 }).await;
    }

    pub(crate) async fn put(&self, due: impl IntoIterator<Item = u64>) {
        put(&self.stand().producer, &self.history, &self.numbers, due).await;
    }

    pub(crate) fn accepted(&self) -> usize {
        let accepted = |event: &Event| matches!(event, Event::Put { answer: Answer::Ok, .. });
        self.history.events().iter().filter(|event| accepted(event)).count()
    }

    /// Waits until everything is ready, and lets the invariants decide: nothing lost (I1), unexpected (I2) or
    /// early (I4), nothing twice (I6), nothing later than the bound and the machine explain (I7), and one
    /// effective owner a shard (I8).
    pub(crate) async fn judge(&self, bound: &Bound) -> Verdict {
        self.judge_within(bound.fault, bound.late(self.fleet.times)).await
    }

    pub(crate) async fn judge_within(&self, what: &str, late: Duration) -> Verdict {
        let count = self.accepted();
        wait_until("everything to be ready", late + LONG, || async { self.stand().ready().await >= count })
            .await;
        let deliveries = deliveries(self.stand()).await;
        let pumps = self.witness.pumps(self.stand()).await;
        let fenced = pumps.iter().filter(|pump| matches!(pump, Event::Pump { fenced: true, .. })).count();
        let whole = History::from([self.history.events(), deliveries.clone(), pumps].concat());
        let permitted = self.allow(late);
        let timing = self.tell(what, &deliveries, late, permitted);
        let broken = check(&whole, &Permit { late: Some(permitted), ..Permit::default() });
        assert!(
            broken.is_empty(),
            "{what}: {} violations, {:?}",
            broken.len(),
            &broken[..broken.len().min(5)]
        );
        self.judge_histogram(count, permitted);
        Verdict { fenced, timing }
    }

    /// The bound plus the possible delays of the machine; a time between the two is inconclusive. Two threads
    /// measure the machine: one sleeps and asks Redis, the other waits for the disk. A moved shard passes
    /// through four hands, each of which may meet the longest pause: the old owner, etcd, the new owner, and
    /// Redis. etcd waits twice for the disk.
    fn allow(&self, bound: Duration) -> Duration {
        self.stall.allow(bound) + 4 * self.pulse.pause() + 2 * self.pulse.sync()
    }

    pub(crate) fn within(&self, what: &str, took: Duration, bound: Duration) -> Timing {
        Timing::of(what, took, bound, self.allow(bound))
    }

    fn tell(&self, what: &str, deliveries: &[Event], bound: Duration, permitted: Duration) -> Timing {
        let mut late: Vec<u64> = deliveries.iter().map(late_ms).collect();
        late.sort_unstable();
        let at = |permille: usize| late[(late.len() - 1) * permille / 1000];
        let (pause, sync) = (self.pulse.pause(), self.pulse.sync());
        println!(
            "{what}: {} messages, late p50 {} p99 {} max {} ms; {permitted:?} permitted (machine {pause:?}, disk {sync:?})",
            late.len(),
            at(500),
            at(990),
            at(1000),
        );
        Timing::of(what, Duration::from_millis(at(1000)), bound, permitted)
    }

    /// The timers' own histogram must count no more than the reader, and nothing beyond the bound. A smaller
    /// count is possible: a timer that died, or a lost answer, took its count along.
    fn judge_histogram(&self, count: usize, permitted: Duration) {
        let (mut within, mut all) = (0.0, 0.0);
        for metrics in self.timers.lock().unwrap().iter() {
            let text = metrics.encode();
            let buckets = || {
                let lines =
                    text.lines().filter_map(|l| l.strip_prefix("delayq_lateness_seconds_bucket{le=\""));
                lines.filter_map(|line| {
                    let (bound, value) = line.split_once("\"} ")?;
                    let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse::<f64>().ok()? };
                    Some((bound, value.parse::<f64>().ok()?))
                })
            };
            all += buckets().next_back().map_or(0.0, |(_, value)| value);
            within += buckets()
                .find(|(bound, _)| *bound >= permitted.as_secs_f64())
                .map_or(0.0, |(_, value)| value);
        }
        assert!(all <= count as f64, "the timers counted {all} of {count} messages");
        assert!(within >= all, "the timers counted {} beyond {permitted:?}", all - within);
    }
}

// === impl Load ===

impl Load {
    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        self.task.await.unwrap();
    }
}

async fn put(
    producer: &Producer,
    history: &History,
    numbers: &AtomicUsize,
    due: impl IntoIterator<Item = u64>,
) {
    let planned: Vec<(String, u64)> = due
        .into_iter()
        .map(|due| (format!("{due}-{}", numbers.fetch_add(1, Ordering::Relaxed)), due))
        .collect();
    let message = |(id, due): &(String, u64)| {
        let message = Message::new(Topic::new("notices").unwrap(), id.clone()).at(UnixMillis::new(*due));
        message.id(id).unwrap()
    };
    let answers = producer.put_many(planned.iter().map(message).collect()).await;
    for ((id, due), answer) in planned.iter().zip(answers) {
        let answer = match answer {
            Ok(put) if put.outcome.is_accepted() => Answer::Ok,
            Err(error) if error.error.fate() == Fate::Unknown => Answer::Unknown,
            _ => Answer::Refused,
        };
        history.put(id, *due, id.as_bytes(), answer);
    }
}

/// Redis's clock, as soon as Redis answers: two hundred timers may delay the answer.
async fn now_ms(client: &Client) -> u64 {
    let admin = Admin::new(client.clone());
    let look = async || {
        Some(admin.shards().overview_of(&[ShardId::new(0)]).await.remove(0).ok()?.now.millis().get())
    };
    wait_for("Redis's clock", LONG, look).await
}

fn late_ms(delivery: &Event) -> u64 {
    let Event::Delivery { id, ready_ms, .. } = delivery else { panic!("only deliveries are late") };
    let due: u64 = id.split('-').next().unwrap().parse().unwrap();
    ready_ms.saturating_sub(due)
}
