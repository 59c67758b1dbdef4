//! The suite that every sink passes: the same claims, each against the sink's own real server.

use std::time::{Duration, Instant};

use delayq_forwarder::{ForwarderConfig, SinkConfig};
use delayq_service::config::HumanDuration;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::invariants::Permit;
use delayq_tests::proxy::{Direction, Flow, Proxy};

use crate::stage::{Seen, Stage, route};

/// A sink's real server behind a proxy, with a consumer that knows nothing of delayq.
///
/// # Contract
/// `seen` reads the destination from its start, around the proxy. `sink` delivers through the proxy.
pub(crate) trait Subject: Sized {
    async fn start() -> Self;
    fn sink(&self) -> SinkConfig;
    fn proxy(&self) -> &Proxy;
    /// A destination that exists.
    fn destination(&self) -> String;
    async fn seen(&self) -> Vec<Seen>;
    /// Stops the server or freezes it, and lets it go on with its data.
    async fn stop(&mut self);
    async fn resume(&mut self);
}

const TOPIC: &str = "t";

async fn stage<S: Subject>() -> (Stage, S) {
    (Stage::new().await, S::start().await)
}

fn settings<S: Subject>(stage: &Stage, subject: &S) -> delayq_forwarder::Settings {
    let sink = SinkConfig { timeout: HumanDuration::from_secs(2), ..subject.sink() };
    stage.settings([("s", sink)], vec![route(TOPIC, "s", &subject.destination())])
}

pub(crate) async fn everything_arrives_once<S: Subject>() {
    let (stage, subject) = stage::<S>().await;
    let running = stage.forward(settings(&stage, &subject)).await.unwrap();
    stage.put(TOPIC, 0, 2000, 100).await;
    stage.put_bodies(TOPIC, vec![("empty".into(), Vec::new()), ("bytes".into(), (0..=255).collect())]).await;
    stage.drained(TOPIC).await;
    running.stop().await;
    let seen = subject.seen().await;
    assert_eq!(seen.len(), 2002);
    stage.check(TOPIC, seen, &Permit::default()).await;
}

pub(crate) async fn a_server_that_is_down_at_start_is_named_or_waited_for<S: Subject>() {
    let (stage, mut subject) = stage::<S>().await;
    subject.stop().await;
    subject.proxy().refuse().await;
    let mut settings = settings(&stage, &subject);
    let Err(fault) = stage.forward(settings.clone()).await else { panic!("it started without its server") };
    assert!(fault.to_string().starts_with("DQ-F002: sinks.s"), "{fault}");
    settings.sinks.get_mut("s").unwrap().required = false;
    let running = stage.forward(settings).await.unwrap();
    stage.put(TOPIC, 0, 300, 100).await;
    wait_until("a failed probe", LONG, || async {
        running.metric("delayq_forwarder_outcomes_total{sink=\"s\",outcome=\"unavailable\"}") >= 1.0
    })
    .await;
    subject.resume().await;
    subject.proxy().accept().await;
    stage.drained(TOPIC).await;
    running.stop().await;
    stage.check(TOPIC, subject.seen().await, &Permit::default()).await;
}

pub(crate) async fn a_server_that_goes_down_midway_costs_no_message<S: Subject>() {
    let (stage, mut subject) = stage::<S>().await;
    let running = stage.forward(settings(&stage, &subject)).await.unwrap();
    stage.put(TOPIC, 0, 500, 100).await;
    stage.drained(TOPIC).await;
    subject.proxy().refuse().await;
    subject.stop().await;
    stage.put(TOPIC, 500, 500, 100).await;
    wait_until("an open circuit", LONG, || async {
        running.metric("delayq_forwarder_circuit{sink=\"s\"") >= 1.0
    })
    .await;
    subject.resume().await;
    subject.proxy().accept().await;
    stage.drained(TOPIC).await;
    running.stop().await;
    // Refused connections took nothing: so nothing may come twice.
    stage.check(TOPIC, subject.seen().await, &Permit::default()).await;
}

pub(crate) async fn a_lost_confirm_repeats_at_most_what_was_under_way<S: Subject>() {
    let (stage, subject) = stage::<S>().await;
    let mut settings = settings(&stage, &subject);
    let sink = settings.sinks.get_mut("s").unwrap();
    (sink.in_flight, sink.batch) = (64, 16);
    let running = stage.forward(settings).await.unwrap();
    stage.put(TOPIC, 0, 100, 100).await;
    stage.drained(TOPIC).await;
    subject.proxy().cut_after(Direction::Replies, 200);
    stage.put(TOPIC, 100, 900, 100).await;
    subject.proxy().wait_losses(1).await;
    stage.drained(TOPIC).await;
    running.stop().await;
    let permit = Permit { duplicates: 64, ..Permit::default() };
    stage.check(TOPIC, subject.seen().await, &permit).await;
}

pub(crate) async fn a_black_hole_is_left_behind_by_deadline<S: Subject>() {
    let (stage, subject) = stage::<S>().await;
    let mut settings = settings(&stage, &subject);
    let sink = settings.sinks.get_mut("s").unwrap();
    (sink.in_flight, sink.batch, sink.timeout) = (64, 64, HumanDuration::from_millis(500));
    let running = stage.forward(settings).await.unwrap();
    stage.put(TOPIC, 0, 100, 100).await;
    stage.drained(TOPIC).await;
    // What is open stays silent for ever: only a new connection gets through.
    subject.proxy().strand_open();
    stage.put(TOPIC, 100, 300, 100).await;
    stage.drained(TOPIC).await;
    running.stop().await;
    let permit = Permit { duplicates: 128, ..Permit::default() };
    stage.check(TOPIC, subject.seen().await, &permit).await;
}

pub(crate) async fn a_slow_server_keeps_its_leases<S: Subject>() {
    let (stage, subject) = stage::<S>().await;
    let mut settings = settings(&stage, &subject);
    // A delivery takes longer than a lease.
    settings.forwarder = ForwarderConfig { lease: HumanDuration::from_secs(1), ..settings.forwarder };
    let sink = settings.sinks.get_mut("s").unwrap();
    sink.timeout = HumanDuration::from_secs(30);
    let running = stage.forward(settings).await.unwrap();
    stage.put(TOPIC, 0, 10, 100).await;
    stage.drained(TOPIC).await;
    subject.proxy().set_both(Flow::Delay(Duration::from_millis(800)));
    let start = Instant::now();
    stage.put(TOPIC, 10, 40, 100).await;
    stage.drained(TOPIC).await;
    assert!(start.elapsed() >= Duration::from_millis(1500), "the proxy delayed nothing");
    subject.proxy().mend().await;
    running.stop().await;
    stage.check(TOPIC, subject.seen().await, &Permit::default()).await;
}

pub(crate) async fn a_clean_stop_under_load_loses_and_repeats_nothing<S: Subject>() {
    let (stage, subject) = stage::<S>().await;
    stage.put(TOPIC, 0, 3000, 100).await;
    for _ in 0..3 {
        let running = stage.forward(settings(&stage, &subject)).await.unwrap();
        let before = stage.numbers(TOPIC).await.delivered;
        wait_until("some deliveries", LONG, || async {
            let numbers = stage.numbers(TOPIC).await;
            numbers.delivered > before || numbers.pending() == 0
        })
        .await;
        running.stop().await;
        assert_eq!(stage.numbers(TOPIC).await.leased, 0, "a lease was left to run out");
    }
    let running = stage.forward(settings(&stage, &subject)).await.unwrap();
    stage.drained(TOPIC).await;
    running.stop().await;
    stage.check(TOPIC, subject.seen().await, &Permit::default()).await;
}

/// The suite of one sink.
macro_rules! conforms {
    ($subject:ty) => {
        crate::conformance::conforms!($subject: everything_arrives_once,
            a_server_that_is_down_at_start_is_named_or_waited_for,
            a_server_that_goes_down_midway_costs_no_message,
            a_lost_confirm_repeats_at_most_what_was_under_way,
            a_black_hole_is_left_behind_by_deadline,
            a_slow_server_keeps_its_leases,
            a_clean_stop_under_load_loses_and_repeats_nothing);
    };
    ($subject:ty: $($claim:ident),+) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $claim() {
            crate::conformance::$claim::<$subject>().await;
        }
    )+};
}
pub(crate) use conforms;
