//! The suite that every sink passes: each claim runs against the real server of each sink.
//!
//! `✓`: the claim of this file, against that sink. A name: a test of the sink's own file, here or in `src/sinks`. A number:
//! not applicable, because …
//!
//! | | file | stdout | redis | webhook | rabbitmq | nats | kafka | sqs |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | every message once, in its form | ✓ | `each_message_is_one_line…` | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ |
//! | delayed, cancelled and rescheduled ones, by every invariant | ✓ | 16 | 16 | 16 | 16 | 16 | 16 | 16 |
//! | an outcome for each, at its place; neighbours of a failed one pass | `a_path_that_leaves…` | 1 | `one_of_the_wrong_type…` | `a_status_is_buried…` | `unroutable_messages…` | `what_the_server_can_never_take…` | `what_the_broker_can_never_take…` | `what_the_queue_can_never…` |
//! | down at start | ✓ | 2 | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ |
//! | down midway | `a_file_that_another_holds…` | `a_reader_that_ends…` | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ |
//! | restarted or killed midway | 3 | 3 | 4 | 5 | `a_broker_that_restarts…` | 4 | `a_broker_that_freezes…` | 4 |
//! | slow | 3 | 3 | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ |
//! | confirm lost | 3 | 3 | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ |
//! | the order of a group across failures | 3 | 3 | ✓ | 19 | ✓ | ✓ | ✓ | 20 |
//! | black-holed | 3 | 3 | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ |
//! | unroutable | 6 | 6 | 6 | `a_status_is_buried…` | `unroutable_messages…` | deleted | deleted | deleted |
//! | too large | 7 | 7 | 7 | `a_status_is_buried…` | `what_the_broker_can_never_take…` | `what_the_server_can_never_take…` | `what_the_broker_can_never_take…` | `what_the_queue_can_never…` |
//! | full | 8 | 8 | 8 | `an_endpoint_that_asks…` | `a_full_queue…` | `a_full_stream…` | 9 | 18 |
//! | missing at start | down at start | 2 | `a_stream_that_must_not_be_made…` | 11 | ✓ | ✓ | ✓ | ✓ |
//! | deleted and made again | `a_file_that_is_taken_away…` | 2 | `a_stream_that_must_not_be_made…` | 11 | ✓ | ✓ | ✓ | ✓ |
//! | login refused and mended | 12 | 12 | ✓ | ✓ | ✓ | ✓ | ✓ | 17 |
//! | TLS: private authority, another one, another name | 3 | 3 | ✓ | ✓ | ✓ | ✓ | ✓ | 17 |
//! | a clean stop loses and repeats nothing | ✓ | `each_message_is_one_line…` | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ |
//! | settings that lose what was confirmed | 13 | always warned of | `settings_that_lose…` | 14 | `a_queue_that_confirms_and_drops…` | `a_stream_that_acks_and_drops…` | `settings_that_lose…` | `settings_that_lose…` |
//! | too few replicas in sync | 15 | 15 | 15 | 15 | 15 | 15 | `too_few_replicas…` | 15 |
//!
//! 1. A batch is a single write, accepted as a whole or not at all.
//! 2. Standard output exists from the start of a process.
//! 3. There is no network and no server.
//! 4. Down midway *is* a kill and a restart of the server here.
//! 5. The endpoint is the user's program; for a client its restart is refused and reset connections: down midway.
//! 6. No routing: a missing path, stream or list is created.
//! 7. Redis takes 512 MiB in one value and files more; a payload has 1 MiB at most.
//! 8. A full disk is a failed write, and a full Redis answers OOM: both are down midway.
//! 9. A topic is never full: Kafka drops by age or size, possibly on purpose, so `check` cannot refuse.
//! 10. A push creates the list.
//! 11. A missing path is a status: `a_status_is_buried…`.
//! 12. There is no login.
//! 13. A file keeps fsynced data.
//! 14. After a 2xx answer the endpoint is responsible.
//! 15. There are no replicas that a confirm waits for, or (rabbitmq's quorum queues, nats's replicated streams) the server
//!     itself withholds the confirm until they have it, which is a lost confirm or a slow one.
//! 16. The timer makes messages ready before any sink sees them: one sink shows it.
//! 17. ElasticMQ checks no signatures and speaks no TLS; the client is the webhook's.
//! 18. A queue is never full.
//! 19. The endpoint sees requests side by side, and has no order of its own.
//! 20. A queue that is not FIFO has no order.

use crate::stage::{Running, Seen, Stage, route};
use delayq_forwarder::{ForwarderConfig, Settings, SinkConfig};
use delayq_service::config::{HumanDuration, Secret};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::invariants::Permit;
use delayq_tests::proxy::{Direction, Flow, Proxy};
use std::path::Path;
use std::time::{Duration, Instant};

/// A sink's real server, with a consumer that is independent of delayq.
///
/// # Contract
/// `seen` reads the destination from its start. Two simultaneous subjects never share a destination.
pub(crate) trait Subject: Sized {
    async fn start() -> Self;
    fn sink(&self) -> SinkConfig;
    fn destination(&self) -> String;
    async fn seen(&self) -> Vec<Seen>;
}

pub(crate) trait Mortal: Subject {
    /// Makes the server refuse everything.
    async fn stop(&mut self);
    /// Restores the server and the data.
    async fn resume(&mut self);
}

pub(crate) trait Networked: Mortal {
    /// Minimum time until a call of the sink detects a silent server.
    const PATIENCE: Duration = Duration::from_millis(500);
    fn proxy(&self) -> &Proxy;
}

pub(crate) trait Deletable: Subject {
    async fn delete(&self);
    async fn create(&self);
}

pub(crate) trait Guarded: Subject {
    const PASSWORD: &str;
    const REFUSAL: &str;
    async fn start_guarded() -> Self;
    fn with_password(&self, password: Secret) -> SinkConfig;
}

const TOPIC: &str = "t";

async fn stage<S: Subject>() -> (Stage, S) {
    (Stage::new().await, S::start().await)
}

fn settings<S: Subject>(stage: &Stage, subject: &S) -> Settings {
    let sink = SinkConfig { timeout: HumanDuration::from_secs(2), ..subject.sink() };
    stage.settings([("s", sink)], vec![route(TOPIC, "s", &subject.destination())])
}

async fn a_failure(running: &Running) {
    wait_until("a failed delivery", LONG, || async {
        running.metric("delayq_forwarder_outcomes_total{sink=\"s\",outcome=\"unavailable\"}") >= 1.0
    })
    .await;
}

async fn an_open_circuit(running: &Running) {
    wait_until("an open circuit", LONG, || async {
        running.metric("delayq_forwarder_circuit{sink=\"s\"") >= 1.0
    })
    .await;
}

pub(crate) async fn everything_arrives_once<S: Subject>() {
    let (stage, subject) = stage::<S>().await;
    // With the usual timeout: a late confirm would cause a duplicate.
    let settings = stage.settings([("s", subject.sink())], vec![route(TOPIC, "s", &subject.destination())]);
    let running = stage.forward(settings).await.unwrap();
    stage.put(TOPIC, 0, 2000, 100).await;
    stage.put_bodies(TOPIC, vec![("empty".into(), Vec::new()), ("bytes".into(), (0..=255).collect())]).await;
    stage.drained(TOPIC).await;
    running.stop().await;
    let seen = subject.seen().await;
    assert_eq!(seen.len(), 2002);
    stage.check(TOPIC, seen, &Permit::default()).await;
}

pub(crate) async fn delayed_messages_come_at_their_time_and_cancelled_ones_never<S: Subject>() {
    let (stage, subject) = stage::<S>().await;
    let running = stage.forward(settings(&stage, &subject)).await.unwrap();
    let ms = Duration::from_millis;
    stage.put_delayed(TOPIC, 0, 200, ms(2000)).await;
    let mut cancelled = stage.cancel(TOPIC, 0..40).await;
    stage.reschedule(TOPIC, 40..80, ms(3500)).await;
    stage.reschedule(TOPIC, 80..120, ms(500)).await;
    cancelled += stage.cancel(TOPIC, 60..70).await;
    stage.drained(TOPIC).await;
    assert!(cancelled > 0);
    assert_eq!(stage.cancel(TOPIC, 150..160).await, 0, "they were delivered");
    running.stop().await;
    let seen = subject.seen().await;
    assert_eq!(seen.len(), 200 - cancelled);
    stage.check(TOPIC, seen, &Permit { late: Some(LONG), ..Permit::default() }).await;
}

pub(crate) async fn a_server_that_is_down_at_start_is_named_or_waited_for<S: Mortal>() {
    let (stage, mut subject) = stage::<S>().await;
    subject.stop().await;
    let mut settings = settings(&stage, &subject);
    let Err(fault) = stage.forward(settings.clone()).await else { panic!("it started without its server") };
    assert!(fault.to_string().starts_with("DQ-F002: sinks.s"), "{fault}");
    settings.sinks.get_mut("s").unwrap().required = false;
    let running = stage.forward(settings).await.unwrap();
    stage.put(TOPIC, 0, 300, 100).await;
    a_failure(&running).await;
    subject.resume().await;
    stage.drained(TOPIC).await;
    running.stop().await;
    stage.check(TOPIC, subject.seen().await, &Permit::default()).await;
}

pub(crate) async fn a_server_that_goes_down_midway_costs_no_message<S: Mortal>() {
    let (stage, mut subject) = stage::<S>().await;
    let running = stage.forward(settings(&stage, &subject)).await.unwrap();
    stage.put(TOPIC, 0, 500, 100).await;
    stage.drained(TOPIC).await;
    subject.stop().await;
    stage.put(TOPIC, 500, 500, 100).await;
    an_open_circuit(&running).await;
    subject.resume().await;
    stage.drained(TOPIC).await;
    running.stop().await;
    // Refused connections accepted nothing: so nothing may arrive twice.
    stage.check(TOPIC, subject.seen().await, &Permit::default()).await;
}

pub(crate) async fn a_lost_confirm_repeats_at_most_what_was_under_way<S: Networked>() {
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

/// A repeat stands right behind the message itself: a reader that passes over repeats reads the group in order.
pub(crate) async fn a_group_keeps_its_order_across_failures<S: Networked>() {
    const GROUPS: usize = 5;
    const EACH: usize = 50;
    const FAILURES: usize = 4;
    let (stage, mut subject) = stage::<S>().await;
    stage.order_groups_strictly(TOPIC).await;
    let mut settings = settings(&stage, &subject);
    let sink = settings.sinks.get_mut("s").unwrap();
    (sink.in_flight, sink.batch) = (64, 16);
    let running = stage.forward(settings).await.unwrap();
    // Each failure meets messages under way, and more come while it lasts: however fast the server is, some remain.
    let a_part = EACH / (2 * FAILURES + 1);
    let mut parts = (0..EACH).step_by(a_part).map(|first| first..EACH.min(first + a_part));
    for failure in 1..=FAILURES {
        stage.put_groups(TOPIC, GROUPS, parts.next().unwrap()).await;
        if failure % 2 == 1 {
            let losses = subject.proxy().losses();
            subject.proxy().cut_after(Direction::Replies, 100);
            stage.put_groups(TOPIC, GROUPS, parts.next().unwrap()).await;
            subject.proxy().wait_losses(losses + 1).await;
        } else {
            subject.stop().await;
            stage.put_groups(TOPIC, GROUPS, parts.next().unwrap()).await;
            an_open_circuit(&running).await;
            subject.resume().await;
        }
    }
    for rest in parts {
        stage.put_groups(TOPIC, GROUPS, rest).await;
    }
    stage.drained(TOPIC).await;
    running.stop().await;
    let mut groups = vec![Vec::new(); GROUPS];
    for one in subject.seen().await {
        let (group, n) = one.id.split_once('-').unwrap();
        groups[group.parse::<usize>().unwrap()].push(n.parse::<usize>().unwrap());
    }
    for (group, seen) in groups.iter_mut().enumerate() {
        assert!(seen.is_sorted(), "group {group} came out of order: {seen:?}");
        seen.dedup();
        assert_eq!(*seen, (0..EACH).collect::<Vec<_>>(), "group {group}");
    }
}

pub(crate) async fn a_black_hole_is_left_behind_by_deadline<S: Networked>() {
    let (stage, subject) = stage::<S>().await;
    let mut settings = settings(&stage, &subject);
    let sink = settings.sinks.get_mut("s").unwrap();
    (sink.in_flight, sink.batch, sink.timeout) = (64, 64, HumanDuration::from(S::PATIENCE));
    let running = stage.forward(settings).await.unwrap();
    stage.put(TOPIC, 0, 100, 100).await;
    stage.drained(TOPIC).await;
    // Open connections stay silent for ever: only a new connection works.
    subject.proxy().strand_open();
    stage.put(TOPIC, 100, 300, 100).await;
    stage.drained(TOPIC).await;
    running.stop().await;
    let permit = Permit { duplicates: 128, ..Permit::default() };
    stage.check(TOPIC, subject.seen().await, &permit).await;
}

pub(crate) async fn a_slow_server_keeps_its_leases<S: Networked>() {
    let (stage, subject) = stage::<S>().await;
    let mut settings = settings(&stage, &subject);
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

pub(crate) async fn a_missing_destination_is_named_or_waited_for<S: Deletable>() {
    let (stage, subject) = stage::<S>().await;
    subject.delete().await;
    let mut settings = settings(&stage, &subject);
    let Err(fault) = stage.forward(settings.clone()).await else {
        panic!("it started without its destination")
    };
    let text = fault.to_string();
    assert!(text.starts_with("DQ-F002: sinks.s, destination"), "{text}");
    settings.sinks.get_mut("s").unwrap().required = false;
    let running = stage.forward(settings).await.unwrap();
    stage.put(TOPIC, 0, 50, 100).await;
    a_failure(&running).await;
    subject.create().await;
    stage.drained(TOPIC).await;
    running.stop().await;
    stage.check(TOPIC, subject.seen().await, &Permit::default()).await;
}

pub(crate) async fn a_destination_that_is_deleted_and_made_again_gets_what_waited<S: Deletable>() {
    let (stage, subject) = stage::<S>().await;
    let running = stage.forward(settings(&stage, &subject)).await.unwrap();
    stage.put(TOPIC, 0, 10, 100).await;
    stage.drained(TOPIC).await;
    let mut seen = subject.seen().await;
    subject.delete().await;
    stage.put(TOPIC, 10, 50, 100).await;
    an_open_circuit(&running).await;
    subject.create().await;
    stage.drained(TOPIC).await;
    running.stop().await;
    seen.extend(subject.seen().await);
    stage.check(TOPIC, seen, &Permit::default()).await;
}

pub(crate) async fn a_refused_login_is_named_and_mended_without_a_loss<S: Guarded>() {
    let (stage, subject) = (Stage::new().await, S::start_guarded().await);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "hunter2").unwrap();
    let timeout = HumanDuration::from_secs(3);
    let sink = SinkConfig { timeout, ..subject.with_password(Secret::file(&file)) };
    let mut settings = stage.settings([("s", sink)], vec![route(TOPIC, "s", &subject.destination())]);
    let Err(fault) = stage.forward(settings.clone()).await else {
        panic!("it logged in with a wrong password")
    };
    let text = fault.to_string();
    assert!(text.starts_with("DQ-F002: sinks.s") && text.contains(S::REFUSAL), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    settings.sinks.get_mut("s").unwrap().required = false;
    let running = stage.forward(settings).await.unwrap();
    stage.put(TOPIC, 0, 50, 100).await;
    a_failure(&running).await;
    std::fs::write(&file, S::PASSWORD).unwrap();
    stage.drained(TOPIC).await;
    running.stop().await;
    stage.check(TOPIC, subject.seen().await, &Permit::default()).await;
}

/// Three sinks of one TLS server: the first trusts its authority, the second another, and the third connects by a name
/// missing from the certificate.
pub(crate) async fn tls_takes_the_private_authority_and_no_other_name(
    stage: &Stage,
    to: &str,
    [right, untrusting, misnamed]: [SinkConfig; 3],
) {
    for (sink, words) in [
        (untrusting, ["UnknownIssuer", "certificate verify failed"]),
        (misnamed, ["not valid for", "certificate verify failed"]),
    ] {
        let Err(fault) = stage.forward(stage.settings([("s", sink)], vec![route(TOPIC, "s", to)])).await
        else {
            panic!("it trusts a certificate that it should not: {words:?}")
        };
        let text = fault.to_string();
        assert!(text.starts_with("DQ-F002: sinks.s"), "{text}");
        assert!(words.iter().any(|word| text.contains(word)), "it does not say why: {text}");
    }
    let running = stage.forward(stage.settings([("s", right)], vec![route(TOPIC, "s", to)])).await.unwrap();
    stage.put(TOPIC, 0, 10, 100).await;
    stage.drained(TOPIC).await;
    running.stop().await;
}

pub(crate) async fn tls_shows_the_certificate_that_is_asked_for(
    stage: &Stage,
    to: &str,
    [with, without]: [SinkConfig; 2],
) {
    let Err(fault) = stage.forward(stage.settings([("s", without)], vec![route(TOPIC, "s", to)])).await
    else {
        panic!("it needs no certificate")
    };
    let text = fault.to_string();
    let hint = "the server may ask for a client certificate: set `cert` and `key`";
    assert!(text.starts_with("DQ-F002: sinks.s") && text.contains(hint), "{text}");
    let running = stage.forward(stage.settings([("s", with)], vec![route(TOPIC, "s", to)])).await.unwrap();
    stage.put(TOPIC, 0, 10, 100).await;
    stage.drained(TOPIC).await;
    running.stop().await;
}

pub(crate) async fn tls_refuses_an_expired_certificate(stage: &Stage, to: &str, sink: SinkConfig) {
    let Err(fault) = stage.forward(stage.settings([("s", sink)], vec![route(TOPIC, "s", to)])).await else {
        panic!("it trusts a certificate that has expired")
    };
    let text = fault.to_string().to_lowercase();
    // librdkafka reports only that the certificate is invalid.
    let named = text.contains("expired") || text.contains("certificate verify failed");
    assert!(text.starts_with("dq-f002: sinks.s") && named, "{text}");
}

pub(crate) fn text(path: &Path) -> String {
    path.display().to_string()
}

macro_rules! conforms {
    ($subject:ty: $($claim:ident),+ $(,)?) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $claim() {
            crate::conformance::$claim::<$subject>().await;
        }
    )+};
}
pub(crate) use conforms;
