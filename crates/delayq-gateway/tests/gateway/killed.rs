//! Clients of two gateways continue at the second with the same ids after the first was killed under load.

use super::stage::{Stage, topic};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::process::Signal;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::task::JoinSet;

const PUTTERS: usize = 4;
/// Deliveries before the kill.
const BEFORE: usize = 200;
/// Puts of each putter after the kill.
const AFTER: usize = 50;
const WORKERS: usize = 4;
/// The gateway that is killed, by its place in [`Clients::addresses`].
const KILLED: usize = 0;

#[derive(Debug)]
struct Clients {
    addresses: [String; 2],
    http: Client,
    /// The gateways that handed out a message, by its id.
    handed: Mutex<BTreeMap<String, Vec<usize>>>,
    is_killed: AtomicBool,
    is_over: AtomicBool,
}

// === impl Clients ===

impl Clients {
    /// Sends a request to a gateway, and without an answer to the second gateway. Returns the answering gateway.
    async fn ask(&self, first: usize, method: Method, path: &str, body: &Value) -> (usize, Value) {
        for at in [first, 1 - first, first, 1 - first] {
            let url = format!("http://{}{path}", self.addresses[at]);
            let Ok(answer) = self.http.request(method.clone(), url).json(body).send().await else { continue };
            let status = answer.status();
            // A cut answer counts as none.
            let Ok(said) = answer.json().await else { continue };
            assert!(status.is_success(), "{method} {path}: {status} {said}");
            return (at, said);
        }
        panic!("no gateway answers {method} {path}");
    }

    /// Puts until the kill, and somewhat longer. Returns the number of puts.
    async fn put(&self, putter: usize) -> usize {
        let (mut puts, mut after) = (0, 0);
        while after < AFTER {
            after += usize::from(self.is_killed.load(Ordering::Relaxed));
            let path = format!("/v1/topics/mails/messages/{putter}-{puts}");
            let (_, said) = self.ask(puts % 2, Method::PUT, &path, &json!({ "payload": "x" })).await;
            assert!(["stored", "ready", "exists"].contains(&said["outcome"].as_str().unwrap()), "{said}");
            puts += 1;
        }
        puts
    }

    async fn work(&self, worker: usize) {
        let poll = json!({ "topics": ["mails"], "max": 10, "wait": "500ms", "lease": "10s" });
        while !self.is_over.load(Ordering::Relaxed) {
            let (by, taken) = self.ask(worker % 2, Method::POST, "/v1/reserve", &poll).await;
            let messages = taken["messages"].as_array().unwrap();
            for message in messages {
                let id = message["id"].as_str().unwrap().to_owned();
                self.handed.lock().unwrap().entry(id).or_default().push(by);
            }
            if !messages.is_empty() {
                let ack = |message: &Value| json!({ "receipt": message["receipt"], "do": "ack" });
                let acks: Vec<_> = messages.iter().map(ack).collect();
                self.ask(by, Method::POST, "/v1/settle", &json!(acks)).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_gateways_one_is_killed_under_load_and_only_what_it_handed_out_comes_twice() {
    let mut stage = Stage::start("").await;
    let other = stage.another().await;
    let _timer = stage.timer();
    let clients = std::sync::Arc::new(Clients {
        addresses: [stage.gateway.address.clone(), other.address.clone()],
        http: Client::new(),
        handed: Mutex::default(),
        is_killed: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
    });
    let (mut putters, mut workers) = (JoinSet::new(), JoinSet::new());
    for putter in 0..PUTTERS {
        let clients = clients.clone();
        putters.spawn(async move { clients.put(putter).await });
    }
    for worker in 0..WORKERS {
        let clients = clients.clone();
        workers.spawn(async move { clients.work(worker).await });
    }
    let delivered = async || {
        let numbers = stage.deployment.admin.topic(&topic("mails")).count().await.unwrap();
        usize::try_from(numbers.delivered).unwrap()
    };
    wait_until("the first messages", LONG, async || delivered().await > BEFORE).await;
    stage.gateway.process.end_by(Signal::KILL, LONG).await;
    clients.is_killed.store(true, Ordering::Relaxed);
    let total: usize = putters.join_all().await.into_iter().sum();
    wait_until("the rest of the messages", LONG, async || delivered().await == total).await;
    clients.is_over.store(true, Ordering::Relaxed);
    workers.join_all().await;

    let handed = std::mem::take(&mut *clients.handed.lock().unwrap());
    assert_eq!(handed.len(), total, "nothing is lost");
    for (id, by) in &handed {
        let before = &by[..by.len() - 1];
        assert!(before.iter().all(|&gateway| gateway == KILLED), "{id} came again from {by:?}");
    }
    let left = stage.deployment.admin.topic(&topic("mails")).count().await.unwrap();
    assert_eq!((left.ready, left.leased, left.accepted), (0, 0, total as u64));
}
