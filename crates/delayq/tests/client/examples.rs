//! Runs the examples, each against its own Redis, with a pump in place of a timer.

#[path = "../../examples/order_timeout.rs"]
mod order_timeout;
#[path = "../../examples/reminder.rs"]
mod reminder;
#[path = "../../examples/webhook_retry.rs"]
mod webhook_retry;

use axum::body::Body;
use axum::http::Request;
use delayq::protocol::{Owner, ShardId};
use delayq::{Consumer, ConsumerOptions, Group, PutOutcome, RescheduleOutcome, Topic, UnixMillis};
use delayq_tests::deployment::Deployment;
use std::time::Duration;
use tokio::sync::mpsc;
use tower::ServiceExt;
use webhook_retry::Answer;

const PATIENCE: Duration = Duration::from_secs(90);

struct Stand {
    deployment: Deployment,
    topic: Topic,
}

impl Stand {
    async fn new() -> Self {
        Self { deployment: Deployment::new(1).await, topic: Topic::new("topic").unwrap() }
    }

    fn consumer(&self) -> Consumer {
        Consumer::start(self.deployment.client.clone(), ConsumerOptions::new([self.topic.clone()])).unwrap()
    }

    async fn pump_until<T>(&self, done: impl Future<Output = T>) -> T {
        let pump = async {
            loop {
                Owner::new(self.deployment.client.clone())
                    .pump(&[(ShardId::new(0), Some(1))], 500, None)
                    .await
                    .remove(0)
                    .unwrap();
            }
        };
        let either = async {
            tokio::select! {
                done = done => done,
                () = pump => unreachable!("a pump has no end"),
            }
        };
        tokio::time::timeout(PATIENCE, either).await.expect("it comes to an end")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unpaid_order_is_cancelled_and_a_paid_one_is_not() {
    let stand = Stand::new().await;
    let shop = order_timeout::Shop {
        producer: stand.deployment.producer.clone(),
        timeouts: stand.topic.clone(),
        patience: Duration::from_millis(1500),
    };
    let routes = order_timeout::routes(shop);
    let post = |path: &'static str| {
        let routes = routes.clone();
        async move {
            let request = Request::post(path).body(Body::empty()).unwrap();
            routes.oneshot(request).await.unwrap().status().as_u16()
        }
    };
    assert_eq!((post("/orders/17").await, post("/orders/17").await), (201, 201));
    assert_eq!(post("/orders/18").await, 201);
    assert_eq!((post("/orders/17/pay").await, post("/orders/99/pay").await), (200, 404));
    assert_eq!(post("/orders/17").await, 409, "a paid order gets no second timeout");

    let (cancelled, mut orders) = mpsc::unbounded_channel();
    let worker = order_timeout::cancel_unpaid(stand.consumer(), move |order| {
        cancelled.send(order.to_owned()).unwrap();
    });
    let worker = tokio::spawn(worker);
    assert_eq!(stand.pump_until(orders.recv()).await.unwrap(), "18");
    assert_eq!(post("/orders/18/pay").await, 410);
    let admin = stand.deployment.admin.clone();
    let settled = stand.pump_until(async {
        loop {
            let numbers = admin.topic(&stand.topic).count().await.unwrap();
            if numbers.pending() == 0 {
                break numbers;
            }
        }
    });
    let numbers = settled.await;
    assert_eq!((numbers.accepted, numbers.cancelled, numbers.delivered), (2, 1, 1), "{numbers:?}");
    worker.abort();
}

#[tokio::test]
async fn a_reminder_moves_with_its_appointment_and_goes_with_its_patient() {
    let stand = Stand::new().await;
    let reminders =
        reminder::Reminders { producer: stand.deployment.producer.clone(), topic: stand.topic.clone() };
    let (noon, hour) = (UnixMillis::new(4_102_488_000_000), Duration::from_secs(3600));
    let two_before = |at: UnixMillis| UnixMillis::new(at.get() - reminder::BEFORE.as_millis() as u64);
    let put = reminders.remind("check-up", "patient-5", noon + hour).await.unwrap();
    assert_eq!(put.outcome, PutOutcome::Stored(two_before(noon + hour)));
    reminders.remind("x-ray", "patient-5", noon + hour * 2).await.unwrap();
    reminders.remind("check-up-2", "patient-6", noon).await.unwrap();

    let moved = reminders.appointment_moved("check-up", "patient-5", noon).await.unwrap();
    let (old, due) = (two_before(noon + hour), two_before(noon));
    assert_eq!(moved, RescheduleOutcome::Moved { old, due, ready: false });
    for expected in [2, 0] {
        // The second call is a repeat under the same token.
        let tally = reminders.remind_earlier("patient-5", hour, "token").await.unwrap();
        assert_eq!(tally.changed, expected);
    }
    let admin = stand.deployment.admin.clone();
    let (listed, _) = admin.list_group(&Group::new("patient-5").unwrap(), 10).await.unwrap();
    let dues: Vec<u64> = listed.into_iter().map(|one| one.envelope.unwrap().due.get()).collect();
    let earlier = |at: UnixMillis| two_before(at).get() - 3_600_000;
    assert_eq!(dues, [earlier(noon), earlier(noon + hour * 2)]);

    assert_eq!(reminders.patient_left("patient-5").await.unwrap().changed, 2);
    let numbers = admin.topic(&stand.topic).count().await.unwrap();
    assert_eq!((numbers.delayed, numbers.cancelled), (1, 2), "{numbers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_is_called_again_until_it_answers_or_its_attempts_are_used_up() {
    let stand = Stand::new().await;
    let rest = Duration::from_millis(20);
    for body in ["flaky", "down", "unknown"] {
        let put =
            stand.deployment.producer.put(webhook_retry::call(&stand.topic, body, 3, rest)).await.unwrap();
        assert!(put.outcome.is_accepted());
    }
    let (made, mut calls) = mpsc::unbounded_channel();
    let worker = tokio::spawn(webhook_retry::make_calls(stand.consumer(), move |body, attempt| {
        made.send((String::from_utf8_lossy(body).into_owned(), attempt)).unwrap();
        match (body, attempt) {
            (b"flaky", 1) | (b"down", _) => Answer::Failed("503".to_owned()),
            (b"unknown", _) => Answer::Refused("404".to_owned()),
            _ => Answer::Delivered,
        }
    }));
    let admin = stand.deployment.admin.clone();
    let settled = stand.pump_until(async {
        loop {
            let numbers = admin.topic(&stand.topic).count().await.unwrap();
            if numbers.delivered + numbers.dead == 3 {
                break;
            }
        }
    });
    settled.await;
    worker.abort();
    let mut seen: Vec<(String, u16)> = std::iter::from_fn(|| calls.try_recv().ok()).collect();
    seen.sort();
    let wanted = [("down", 1), ("down", 2), ("down", 3), ("flaky", 1), ("flaky", 2), ("unknown", 1)];
    assert_eq!(seen, wanted.map(|(body, attempt)| (body.to_owned(), attempt)));
    let mut dead = webhook_retry::given_up(&admin, &stand.topic).await.unwrap();
    dead.sort();
    assert_eq!(dead, [("down", "503"), ("unknown", "404")].map(|(a, b)| (a.to_owned(), b.to_owned())));
}
