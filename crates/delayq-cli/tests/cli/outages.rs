//! No silent death: a fleet of real programs survives many outages of its Redis, and no program restarts.
//!
//! After each outage, messages put during and after the outage arrive within [`BOUND`], or a lease later if
//! the outage lost the answer that delivered them. At the end nothing is lost, every program still runs, and
//! no program has grown. `make test-outages` runs the long form.

use crate::flow::{Flow, LEASE, Load};
use delayq::Producer;
use delayq_tests::deployment::settings;
use delayq_tests::outages::{BOUND, ClusterScene, OneRedisScene, Plan, Scene, SentinelScene, Window, now_ms};
use delayq_tests::process::assert_none_grew;
use delayq_tests::stall::Stall;
use delayq_tests::timing::{Timing, conclusive};
use futures_util::future::join_all;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

const FEW: usize = 10;
/// Wait for a message that a failover may have lost, before a new put.
const AGAIN: Duration = Duration::from_millis(1500);

struct Run<S> {
    scene: S,
    flow: Flow,
    producer: Producer,
    load: Load,
    plan: Plan,
    windows: RefCell<Vec<Window>>,
    done: Cell<usize>,
    slowest: Cell<Duration>,
}

// === impl Run ===

impl<S: Scene> Run<S> {
    async fn start() -> Self {
        let scene = S::start().await;
        let redis = format!("[redis]\nurl = '{}'", scene.url());
        let flow = Flow::start_fleet(&redis, settings(scene.url(), S::SHARDS)).await;
        let producer = flow.producer();
        flow.flows(&producer, "begin").await;
        let plan = Plan::of(FEW);
        // Longer runs put less often: deliveries stay in memory until the final check.
        let pause_ms = if plan.is_long { 200 } else { 10 };
        let load = Load::start_every(Duration::from_millis(pause_ms), producer.clone());
        let (windows, done, slowest) = (RefCell::default(), Cell::new(0), Cell::default());
        Self { scene, flow, producer, load, plan, windows, done, slowest }
    }

    async fn through_all(mut self) {
        let mut sizes = Vec::new();
        let count = self.plan.count;
        for n in 0..count {
            let kind = S::KINDS[n % S::KINDS.len()];
            conclusive(async || self.outage(kind).await).await;
            sizes.push(self.flow.sizes_kib());
        }
        let Self { flow, load, windows, slowest, .. } = self;
        let windows = windows.into_inner();
        assert_none_grew(S::NAME, &sizes[count / 2], &sizes[count - 1]);
        eprintln!("{}: {count} outages, the slowest over after {:?}", S::NAME, slowest.get());
        flow.check_losses(load, if S::LOSES { &windows } else { &[] }, &windows).await;
    }

    async fn outage(&self, kind: S::Kind) -> Timing {
        let n = self.done.replace(self.done.get() + 1);
        let (lasts, broken) = (self.plan.length(), now_ms());
        let (ended, over) = oneshot::channel();
        let ((back, stall), ()) = tokio::join!(
            async {
                let back = self.scene.outage(kind, lasts).await;
                let _ = ended.send(());
                (back, Stall::watch())
            },
            // In the middle of the outage, or at its end if the outage is shorter, such as a reset.
            async {
                let _ = timeout(lasts / 2, over).await;
                self.flow.put(&self.producer, &format!("during-{n}")).await;
            }
        );
        self.flow.put(&self.producer, &format!("after-{n}")).await;
        let both = ["during", "after"].map(|when| format!("{when}-{n}"));
        let arrive = async || {
            let mut is_first = true;
            for what in &both {
                is_first &= self.flow.both_arrive(what).await;
            }
            is_first
        };
        if S::LOSES && timeout(AGAIN, arrive()).await.is_err() {
            // The former master's last writes may be lost. If not, the answer is `exists`.
            for what in &both {
                self.flow.put(&self.producer, what).await;
            }
        }
        // A message whose delivery was lost comes again when its lease ends.
        let bound = if arrive().await { BOUND } else { BOUND + LEASE };
        let took = back.elapsed();
        self.slowest.set(self.slowest.get().max(took));
        eprintln!("{}: {n}: {kind:?} for {lasts:?}: over after {took:?}", S::NAME);
        let timing = Timing::of(format!("{kind:?} for {lasts:?}"), took, bound, stall.allow(bound));
        self.scene.mend().await;
        self.windows.borrow_mut().push(Window::since(broken));
        timing
    }
}

async fn through_all<S: Scene>() {
    join_all((0..Plan::runs()).map(async |_| Run::<S>::start().await.through_all().await)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_goes_on_within_three_seconds_after_each_outage_of_its_one_redis() {
    through_all::<OneRedisScene>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_goes_on_within_three_seconds_after_each_outage_behind_sentinels() {
    through_all::<SentinelScene>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_goes_on_within_three_seconds_after_each_outage_of_a_cluster() {
    through_all::<ClusterScene>().await;
}
