//! Endpoints that are slow, refuse, break or ask for a rest.

use super::endpoint::{Endpoint, HANG, RESET, Script};
use crate::conformance::{Mortal, Subject};
use crate::stage::{Stage, route, topic};
use delayq::admin::Policy;
use delayq::{Admin, Message};
use delayq_service::config::HumanDuration;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::invariants::Permit;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_endpoint_gets_no_message_twice() {
    // Together, these take more than ten timeouts.
    const COUNT: usize = 600;
    let script = Script { delay: Duration::from_millis(150), ..Script::default() };
    let (stage, subject) = (Stage::new().await, Endpoint::start_with(script, None).await);
    let mut sink = subject.sink();
    sink.timeout = HumanDuration::from_secs(2);
    sink.webhook.as_mut().unwrap().connections = 4;
    stage.put("t", 0, COUNT, 10).await;
    let running = stage.forward(stage.settings([("s", sink)], vec![route("t", "s", "in")])).await.unwrap();
    wait_until("all delivered", 2 * LONG, || async { stage.numbers("t").await.pending() == 0 }).await;
    running.stop().await;
    stage.check("t", subject.seen().await, &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_confirmed_does_not_wait_for_what_is_not() {
    const COUNT: u64 = 100;
    let (stage, subject) = (Stage::new().await, Endpoint::start().await);
    let mut sink = subject.sink();
    sink.timeout = HumanDuration::from_secs(120);
    subject.answer("7", HANG);
    stage.put("t", 0, COUNT as usize, 10).await;
    let running = stage.forward(stage.settings([("s", sink)], vec![route("t", "s", "in")])).await.unwrap();
    wait_until("all but one", LONG, || async { stage.numbers("t").await.delivered == COUNT - 1 }).await;
    let numbers = stage.numbers("t").await;
    assert_eq!((numbers.leased, numbers.pending()), (1, 1));
    assert!(running.metric("delayq_forwarder_in_flight{sink=\"s\"}") <= 1.0);
    // A broken connection proves as little as a silent one: the delivery is retried.
    subject.script.answers.lock().unwrap().clear();
    subject.proxy.reset_open();
    stage.drained("t").await;
    running.stop().await;
    stage.check("t", subject.seen().await, &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_breaks_its_receiver_is_dead_one_day_and_no_other_is() {
    for poison in [RESET, HANG] {
        let (stage, subject) = (Stage::new().await, Endpoint::start().await);
        let policy = Policy { backoff: None, ..Policy::default() };
        Admin::new(stage.client.clone()).topic(&topic("t")).set_policy(&policy).await.unwrap();
        let mut sink = subject.sink();
        sink.timeout = HumanDuration::from_millis(500);
        subject.answer("poison", poison);
        let message = Message::new(topic("t"), "x").id("poison").unwrap().max_attempts(3);
        assert!(stage.producer.put(message).await.unwrap().outcome.is_accepted());
        stage.put("t", 0, 20, 10).await;
        let running =
            stage.forward(stage.settings([("s", sink)], vec![route("t", "s", "in")])).await.unwrap();
        stage.drained("t").await;
        running.stop().await;
        assert_eq!(stage.dead("t").await.keys().collect::<Vec<_>>(), ["poison"]);
        assert_eq!(stage.numbers("t").await.delivered, 20);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_that_rejects_everything_does_not_empty_the_queue_into_the_dead_letters() {
    for to in ["in", "{id}"] {
        let (stage, subject) = (Stage::new().await, Endpoint::start().await);
        *subject.script.otherwise.lock().unwrap() =
            Some("422 Wrong\r\ncontent-length: 9\r\n\r\nwrong key".to_owned());
        let mut settings = stage.settings([("s", subject.sink())], vec![route("t", "s", to)]);
        settings.forwarder.max_burials = 10;
        stage.put("t", 0, 300, 10).await;
        let running = stage.forward(settings).await.unwrap();
        wait_until("a brake", LONG, || async { running.metric("delayq_forwarder_brakes_total") >= 1.0 })
            .await;
        wait_until("nothing under way", LONG, || async {
            running.metric("delayq_forwarder_in_flight{sink=\"s\"}") == 0.0
        })
        .await;
        assert!(running.metric("delayq_forwarder_braked{sink=\"s\"") >= 1.0, "{to}");
        assert_eq!(stage.dead("t").await.len(), 10, "{to}");
        let unready = running.readiness.unready();
        assert!(unready.iter().any(|one| one.reason.contains("consecutive rejections")), "{unready:?}");
        *subject.script.otherwise.lock().unwrap() = None;
        stage.drained("t").await;
        assert!(running.metric("delayq_forwarder_braked{sink=\"s\"") < 1.0, "{to}");
        running.stop().await;
        assert_eq!((stage.dead("t").await.len(), stage.numbers("t").await.delivered), (10, 290), "{to}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_is_not_asked_for_each_destination_by_message() {
    let (stage, mut subject) = (Stage::new().await, Endpoint::start().await);
    let running =
        stage.forward(stage.settings([("s", subject.sink())], vec![route("t", "s", "{id}")])).await.unwrap();
    subject.stop().await;
    stage.put("t", 0, 200, 10).await;
    wait_until("an open circuit of the server", LONG, || async {
        running.metric("delayq_forwarder_circuit{sink=\"s\",destination=\"*\"}") >= 1.0
    })
    .await;
    subject.resume().await;
    stage.drained("t").await;
    running.stop().await;
    stage.check("t", subject.seen().await, &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_is_buried_or_tried_again_and_neighbours_pass() {
    let (stage, subject) = (Stage::new().await, Endpoint::start().await);
    let running =
        stage.forward(stage.settings([("s", subject.sink())], vec![route("t", "s", "in")])).await.unwrap();
    subject.answer("3", "413 Payload Too Large\r\ncontent-length: 7\r\n\r\ntoo big");
    subject.answer("5", "500 Oops\r\ncontent-length: 0\r\n\r\n");
    subject.answer("6", "302 Found\r\nlocation: http://169.254.169.254/latest\r\ncontent-length: 0\r\n\r\n");
    subject.answer("8", "404 Not Found\r\ncontent-length: 0\r\n\r\n");
    stage.put("t", 0, 10, 10).await;
    wait_until("six of ten", LONG, || async { stage.numbers("t").await.delivered == 6 }).await;
    subject.script.answers.lock().unwrap().clear();
    stage.drained("t").await;
    running.stop().await;
    assert_eq!(stage.dead("t").await["3"], "413 Payload Too Large: too big");
    let permit = Permit { dead_reasons: vec!["413".to_owned()], ..Permit::default() };
    stage.check("t", subject.seen().await, &permit).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_asks_for_a_rest_gets_it_in_seconds_or_until_a_date() {
    for asked in [
        "retry-after: 2",
        "date: Sun, 06 Nov 1994 08:49:37 GMT\r\nretry-after: Sun, 06 Nov 1994 08:49:39 GMT",
    ] {
        let (stage, subject) = (Stage::new().await, Endpoint::start().await);
        let mut settings = stage.settings([("s", subject.sink())], vec![route("t", "s", "in")]);
        settings.forwarder.circuit_longest_rest = HumanDuration::from_secs(30);
        let running = stage.forward(settings).await.unwrap();
        subject.answer("0", &format!("503 Busy\r\n{asked}\r\ncontent-length: 0\r\n\r\n"));
        let start = Instant::now();
        stage.put("t", 0, 1, 10).await;
        wait_until("an open circuit", LONG, || async {
            running.metric("delayq_forwarder_circuit{sink=\"s\"") >= 1.0
        })
        .await;
        subject.script.answers.lock().unwrap().clear();
        stage.drained("t").await;
        assert!(start.elapsed().as_millis() >= 2000, "{asked}: it came after {:?}", start.elapsed());
        running.stop().await;
        stage.check("t", subject.seen().await, &Permit::default()).await;
    }
}
