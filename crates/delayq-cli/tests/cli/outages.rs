//! No silent death: a fleet of real programs goes through outages of its Redis, one after another, and none is restarted.
//!
//! After each outage, what was put while it lasted and what is put now arrives within [`BOUND`]; at the end nothing is lost,
//! every program still runs, and none has grown. `make test-outages` runs the long form.

mod cluster;
mod one_redis;
mod sentinels;

use crate::flow::{BOUND, Flow, Load, Window, moment};
use delayq::{Producer, Settings};
use delayq_tests::environment::outages;
use delayq_tests::stall::Stall;
use delayq_tests::timing::{Timing, conclusive};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long outages last in the short form; seconds in the long one.
const SHORT_MS: Range<u64> = 1_000..2_500;
const LONG_MS: Range<u64> = 1_000..60_000;
/// How many outages each shape has in the short form.
const FEW: usize = 10;
/// How much larger than in the middle of the run a program may be at its end: by a fifth, or by this much.
const MORE_KIB: u64 = 8 * 1024;

/// A run of outages of one deployment.
pub(crate) struct Run {
    flow: Flow,
    producer: Producer,
    load: Load,
    shape: &'static str,
    /// How long each lasts.
    lengths_ms: Range<u64>,
    count: usize,
    windows: RefCell<Vec<Window>>,
    done: Cell<usize>,
    slowest: Cell<Duration>,
}

/// What an outage is to be.
pub(crate) struct Outage<K> {
    pub(crate) kind: K,
    pub(crate) lasts: Duration,
}

// === impl Run ===

impl Run {
    async fn start(shape: &'static str, redis: &str, settings: Settings) -> Self {
        let flow = Flow::start_fleet(redis, settings).await;
        let producer = flow.producer();
        flow.flows(&producer, "begin").await;
        // Longer runs put less often: what was delivered stays in memory until it is checked.
        let (lengths_ms, count, pause_ms) = match outages() {
            None => (SHORT_MS, FEW, 10),
            Some(count) => (LONG_MS, count.div_ceil(3), 50),
        };
        let load = Load::start_every(Duration::from_millis(pause_ms), producer.clone());
        let (windows, done, slowest) = (RefCell::default(), Cell::new(0), Cell::default());
        Self { flow, producer, load, shape, lengths_ms, count, windows, done, slowest }
    }

    /// Goes through outages of these kinds in turn, each for a random time. `break_it` breaks Redis for that long, and returns
    /// when it is back, or when its new master is known.
    async fn through<K: Copy + std::fmt::Debug>(
        mut self,
        kinds: &[K],
        lossy: bool,
        break_it: impl AsyncFn(Outage<K>) -> Instant,
        mend_it: impl AsyncFn(),
    ) {
        let mut sizes = Vec::new();
        for n in 0..self.count {
            let kind = kinds[n % kinds.len()];
            conclusive(async || self.outage(kind, &break_it, &mend_it).await).await;
            sizes.push(self.flow.sizes_kib());
        }
        let Self { flow, load, shape, count, windows, slowest, .. } = self;
        let (windows, middle, last) = (windows.into_inner(), &sizes[count / 2], &sizes[count - 1]);
        for ((name, before), (_, after)) in middle.iter().zip(last) {
            eprintln!("{shape}: {name}: {before} KiB in the middle, {after} KiB at the end");
            let most = before + (before / 5).max(MORE_KIB);
            assert!(*after <= most, "{name} grew from {before} KiB to {after} KiB");
        }
        eprintln!("{shape}: {count} outages, the slowest over after {:?}", slowest.get());
        flow.check_losses(load, if lossy { &windows } else { &[] }, &windows).await;
    }

    async fn outage<K: Copy + std::fmt::Debug>(
        &self,
        kind: K,
        break_it: &impl AsyncFn(Outage<K>) -> Instant,
        mend_it: &impl AsyncFn(),
    ) -> Timing {
        let n = self.done.replace(self.done.get() + 1);
        let lasts = Duration::from_millis(fastrand::u64(self.lengths_ms.clone()));
        let broken = moment();
        let (ended, over) = oneshot::channel();
        let ((back, stall), ()) = tokio::join!(
            async {
                let back = break_it(Outage { kind, lasts }).await;
                let _ = ended.send(());
                (back, Stall::watch())
            },
            // Of an outage that is over before, as a reset is, at its end.
            async {
                let _ = timeout(lasts / 2, over).await;
                self.flow.put(&self.producer, &format!("during-{n}")).await;
            }
        );
        self.flow.put(&self.producer, &format!("after-{n}")).await;
        for when in ["during", "after"] {
            self.flow.both_arrive(&format!("{when}-{n}")).await;
        }
        let took = back.elapsed();
        self.slowest.set(self.slowest.get().max(took));
        eprintln!("{}: {n}: {kind:?} for {lasts:?}: over after {took:?}", self.shape);
        let timing = Timing::of(format!("{kind:?} for {lasts:?}"), took, BOUND, stall.allow(BOUND));
        mend_it().await;
        self.windows.borrow_mut().push(Window::since(broken));
        timing
    }
}
