//! A timer dies before or right after the request of each step: another continues, on time, once.

use crate::bounds::KILLED;
use crate::drill::Drill;
use crate::fleet::{Fleet, Route};
use crate::stand::Running;
use delayq::protocol::{Scripts, Verb};
use delayq_tests::timing::{Timing, conclusive};
use delayq_tests::tripwire::{End, Step, Tripwire, begins_to_lead, has, revokes_its_lease};
use std::pin::pin;

const SHARDS: u16 = 8;
const BOTH: [End; 2] = [End::Before, End::After];

struct Scene {
    drill: Drill,
    wire: Tripwire,
    way: Route,
}

// === impl Scene ===

impl Scene {
    async fn new() -> Self {
        let drill = Drill::new(Fleet::with(SHARDS).await).await;
        let mut wire = Tripwire::default();
        let etcd = wire.way_to(drill.fleet.etcd.members()[0].address()).await;
        let redis = wire.way_to(drill.stand().server.address()).await;
        let way = Route { etcd: vec![format!("http://{etcd}")], client: drill.fleet.client_at(&redis) };
        Self { drill, wire, way }
    }

    async fn goes_on(self, well: &Running) -> Timing {
        well.owns(SHARDS).await;
        let load = self.drill.load().await;
        load.stop().await;
        self.drill.judge(&KILLED).await.timing
    }
}

async fn dies_joining(step: Step) {
    for end in BOTH {
        conclusive(async || {
            let scene = Scene::new().await;
            let well = scene.drill.timer("well").await;
            well.owns(SHARDS).await;
            let load = scene.drill.load().await;
            scene.wire.arm(step, end);
            let Scene { drill, wire, way } = scene;
            {
                let way = Route { etcd: way.etcd.clone(), client: way.client.clone() };
                let mut joining = pin!(drill.timer_by("doomed", way));
                tokio::select! {
                    () = wire.tripped() => {}
                    doomed = &mut joining => {
                        wire.tripped().await;
                        doomed.kill().await;
                    }
                }
            }
            load.stop().await;
            Scene { drill, wire, way }.goes_on(&well).await
        })
        .await;
    }
}

async fn dies_alone(step: Step) {
    for end in BOTH {
        conclusive(async || {
            let scene = Scene::new().await;
            scene.wire.arm(step, end);
            let way = Route { etcd: scene.way.etcd.clone(), client: scene.way.client.clone() };
            let doomed = scene.drill.timer_by("doomed", way).await;
            scene.wire.tripped().await;
            doomed.kill().await;
            let well = scene.drill.timer("well").await;
            scene.goes_on(&well).await
        })
        .await;
    }
}

async fn dies_stopping(step: Step) {
    for end in BOTH {
        conclusive(async || {
            let scene = Scene::new().await;
            let way = Route { etcd: scene.way.etcd.clone(), client: scene.way.client.clone() };
            let (doomed, well) = (scene.drill.timer_by("doomed", way).await, scene.drill.timer("well").await);
            scene.drill.fleet.share(&[&doomed, &well]).await;
            let load = scene.drill.load().await;
            scene.wire.arm(step, end);
            doomed.ask_to_stop();
            scene.wire.tripped().await;
            doomed.kill().await;
            load.stop().await;
            scene.goes_on(&well).await
        })
        .await;
    }
}

fn calls(sent: &[u8], verb: Verb) -> bool {
    has(sent, &Scripts::published().get(verb).sha)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_that_dies_as_it_registers_takes_nothing_along() {
    dies_joining(|sent| has(sent, r#""name":"doomed","version""#)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_that_dies_as_it_takes_its_epochs_is_replaced() {
    dies_joining(|sent| calls(sent, Verb::Claim)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_that_dies_at_its_first_pump_is_replaced_and_repeats_nothing() {
    dies_joining(|sent| calls(sent, Verb::Pump)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_that_dies_as_it_begins_to_lead_leaves_the_lead_to_the_next() {
    dies_alone(begins_to_lead).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_that_dies_as_it_writes_the_plan_leaves_the_lead_to_the_next() {
    dies_alone(|sent| has(sent, r#""owners":["#)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_that_dies_as_it_begins_to_hand_over_is_replaced() {
    dies_stopping(|sent| has(sent, r#""draining":true"#)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_that_dies_as_it_leaves_keeps_nobody_from_its_shards() {
    dies_stopping(revokes_its_lease).await;
}
