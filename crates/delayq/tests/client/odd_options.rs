//! Options outside their ranges are refused by name, with the value and the range, before anything is sent.

use delayq::admin::ReplayOptions;
use delayq::worker::{Failure, Job};
use delayq::{
    Admin, Client, Consumer, ConsumerOptions, Error, LinkSettings, Message, Producer, ProducerOptions,
    Settings, Topic, Worker,
};
use std::future::pending;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// No listener: every refusal comes before a connection.
const NOWHERE: &str = "redis://127.0.0.1:1";

fn topic(n: usize) -> Topic {
    Topic::new(format!("orders-{n}")).unwrap()
}

fn client() -> Client {
    Client::new(Settings::new(NOWHERE))
}

/// The refused option with its value and its range; `None` if no option is refused.
fn refused(result: Result<(), Error>) -> Option<String> {
    match result {
        Err(error @ Error::Option(_)) => Some(error.to_string()),
        Err(_) | Ok(()) => None,
    }
}

async fn connected(settings: Settings) -> Option<String> {
    refused(Client::connect(settings).await.map(drop))
}

fn consumed(topics: usize, change: impl FnOnce(ConsumerOptions) -> ConsumerOptions) -> Option<String> {
    let topics: Vec<Topic> = (0..topics).map(topic).collect();
    refused(Consumer::start(client(), change(ConsumerOptions::new(topics))).map(drop))
}

async fn worked(change: impl FnOnce(Worker) -> Worker) -> Option<String> {
    async fn ack(_: Job) -> Result<(), Failure> {
        Ok(())
    }
    let worker = change(Worker::new(client()).handle(topic(0), ack)).handle_apart(topic(1), 1, ack);
    refused(worker.run(std::future::ready(())).await)
}

fn odd(option: &str, value: &str, range: &str) -> Option<String> {
    Some(format!("{option} is {value}: it must be from {range}"))
}

#[tokio::test]
async fn an_option_of_a_consumer_outside_its_range_is_refused_by_name() {
    for (concurrency, is_right) in
        [(0, false), (1, true), (10_000, true), (10_001, false), (usize::MAX, false)]
    {
        let wanted = odd("concurrency", &concurrency.to_string(), "1 to 10000").filter(|_| !is_right);
        assert_eq!(consumed(1, |options| options.concurrency(concurrency)), wanted);
        assert_eq!(worked(|worker| worker.concurrency(concurrency)).await, wanted);
    }
    for (lease, value) in [
        (Duration::ZERO, Some("0ns")),
        (Duration::from_micros(999), Some("999µs")),
        (MS, None),
        (DAY, None),
        (DAY + MS, Some("86400.001s")),
        (Duration::MAX, Some("18446744073709551615.999999999s")),
    ] {
        let wanted = value.and_then(|value| odd("lease", value, "1ms to 86400s"));
        assert_eq!(consumed(1, |options| options.lease(lease)), wanted);
        assert_eq!(worked(|worker| worker.lease(lease)).await, wanted);
    }
    assert_eq!(consumed(0, |options| options), odd("topics", "0", "1 to 500"));
    assert_eq!(consumed(500, |options| options), None);
    assert_eq!(consumed(501, |options| options), odd("topics", "501", "1 to 500"));
}

#[tokio::test]
async fn an_option_of_a_worker_for_one_topic_outside_its_range_is_refused_by_name() {
    let worker = Worker::new(client()).handle_apart(topic(0), 0, |_| async { Ok(()) });
    assert_eq!(refused(worker.run(pending()).await), odd("concurrency", "0", "1 to 10000"));
}

#[tokio::test]
async fn a_setting_of_a_client_outside_its_range_is_refused_by_name() {
    for (bytes, is_right) in [(0, false), (1, true), (1 << 20, true), ((1 << 20) + 1, false)] {
        let wanted = odd("max_payload_bytes", &bytes.to_string(), "1 to 1048576").filter(|_| !is_right);
        assert_eq!(connected(Settings::new(NOWHERE).max_payload_bytes(bytes)).await, wanted);
    }
    type Change = fn(LinkSettings, Duration) -> LinkSettings;
    let cases: [(&str, Change, Duration, Duration); 4] = [
        ("connect_timeout", LinkSettings::connect_timeout, MS, DAY),
        ("deadline", LinkSettings::deadline, MS, DAY),
        ("keepalive", LinkSettings::keepalive, Duration::from_secs(1), Duration::from_secs(32_767)),
        ("confirm_timeout", LinkSettings::confirm_timeout, MS, Duration::from_secs(1)),
    ];
    for (option, change, least, most) in cases {
        let range = format!("{least:?} to {most:?}");
        for (value, is_right) in [(least - MS, false), (least, true), (most, true), (most + MS, false)] {
            let wanted = odd(option, &format!("{value:?}"), &range).filter(|_| !is_right);
            let link = change(LinkSettings::new(NOWHERE), value);
            assert_eq!(refused(link.check()), wanted);
            assert_eq!(connected(Settings::new(link.clone())).await, wanted);
            let layout = Admin::new(Client::new(Settings::new(link))).layout().await;
            assert_eq!(refused(layout.map(drop)), wanted);
        }
    }
}

#[tokio::test]
async fn a_put_over_a_client_whose_largest_payload_is_outside_its_range_is_refused_by_name() {
    let client = Client::new(Settings::new(NOWHERE).max_payload_bytes(5 << 20));
    let producer = Producer::start(client, ProducerOptions::default());
    let error = producer.put(Message::new(topic(0), "{}")).await.unwrap_err().error;
    assert_eq!(refused(Err(error)), odd("max_payload_bytes", "5242880", "1 to 1048576"));
}

#[tokio::test]
async fn an_option_of_an_admin_outside_its_range_is_refused_by_name() {
    let admin = Admin::new(client());
    let replayed = admin.topic(&topic(0)).replay(&ReplayOptions::default().rate(0)).await;
    assert_eq!(refused(replayed.map(drop)), odd("rate", "0", "1 to 4294967295"));
    for (share, value) in
        [(0.0, "0.0"), (-1.0, "-1.0"), (1.5, "1.5"), (f64::NAN, "NaN"), (f64::INFINITY, "inf")]
    {
        let step = admin.audit().sweep(share, false).next().await;
        assert_eq!(refused(step.map(drop)), odd("share", value, "1e-6 to 1.0"));
    }
}
