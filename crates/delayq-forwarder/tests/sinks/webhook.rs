//! The sink `webhook` against an HTTP server that notes what it was sent and answers as it is told.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use delayq_forwarder::{SinkConfig, WebhookConfig};
use delayq_service::config::Secret;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::invariants::Permit;
use delayq_tests::proxy::Proxy;
use hmac::{Hmac, KeyInit, Mac};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::conformance::{Subject, conforms};
use crate::stage::{Seen, Stage, route};

#[derive(Clone, Debug)]
struct Request {
    path: String,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

/// What to answer to a message; by its id.
type Answers = Arc<Mutex<HashMap<String, String>>>;

struct Endpoint {
    proxy: Proxy,
    requests: Arc<Mutex<Vec<Request>>>,
    answers: Answers,
}

/// Reads one request; nothing when the connection ends before it.
async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(String, Request)> {
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(buffer[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers.get("content-length").map_or(0, |text| text.parse().unwrap());
    while buffer.len() < end + length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body = buffer[end..end + length].to_vec();
    buffer.drain(..end + length);
    Some((method, Request { path, headers, body }))
}

async fn serve(mut stream: TcpStream, requests: Arc<Mutex<Vec<Request>>>, answers: Answers) {
    let mut buffer = Vec::new();
    while let Some((method, request)) = read(&mut stream, &mut buffer).await {
        let told = request.headers.get("delayq-id").and_then(|id| answers.lock().unwrap().get(id).cloned());
        let answer = told.unwrap_or_else(|| "204 No Content\r\n\r\n".to_owned());
        if method == "POST" && answer.starts_with('2') {
            requests.lock().unwrap().push(request);
        }
        if stream.write_all(format!("HTTP/1.1 {answer}").as_bytes()).await.is_err() {
            return;
        }
    }
}

impl Endpoint {
    fn answer(&self, id: usize, answer: &str) {
        self.answers.lock().unwrap().insert(id.to_string(), answer.to_owned());
    }
}

impl Subject for Endpoint {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy::start(&listener.local_addr().unwrap().to_string());
        let (requests, answers) = (Arc::default(), Answers::default());
        let (noted, told) = (Arc::clone(&requests), answers.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&noted), told.clone()));
            }
        });
        Self { proxy, requests, answers }
    }

    fn sink(&self) -> SinkConfig {
        let config = WebhookConfig {
            url: format!("http://{}/hook", self.proxy.address()),
            secret: Some(Secret::plain("hunter2")),
            ..WebhookConfig::default()
        };
        SinkConfig { webhook: Some(config), ..SinkConfig::default() }
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn destination(&self) -> String {
        "in".to_owned()
    }

    async fn seen(&self) -> Vec<Seen> {
        let requests = self.requests.lock().unwrap().clone();
        let seen = |request: Request| Seen {
            destination: request.path.clone(),
            id: request.headers["delayq-id"].clone(),
            delivery: request.headers["delayq-delivery"].parse().unwrap(),
            body: request.body,
        };
        requests.into_iter().map(seen).collect()
    }

    // The endpoint lives in this process: it is down when its proxy refuses.
    async fn stop(&mut self) {}

    async fn resume(&mut self) {}
}

conforms!(Endpoint);

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_signed_and_carries_its_idempotency_key() {
    let (stage, subject) = (Stage::new().await, Endpoint::start().await);
    let running = stage
        .forward(stage.settings([("s", subject.sink())], vec![route("t", "s", "{topic}")]))
        .await
        .unwrap();
    stage.put("t", 7, 1, 10).await;
    stage.drained("t").await;
    running.stop().await;
    let request = subject.requests.lock().unwrap()[0].clone();
    assert_eq!(request.path, "/hook/t");
    assert!(request.headers["idempotency-key"].starts_with("t/7/"));
    let (time, signature) = request.headers["delayq-signature"].split_once(",v1=").unwrap();
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(b"hunter2").unwrap();
    mac.update(format!("{}.", time.strip_prefix("t=").unwrap()).as_bytes());
    mac.update(&request.body);
    assert_eq!(hex::encode(mac.finalize().into_bytes()), signature);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_is_buried_or_tried_again_and_neighbours_pass() {
    let (stage, subject) = (Stage::new().await, Endpoint::start().await);
    let running =
        stage.forward(stage.settings([("s", subject.sink())], vec![route("t", "s", "in")])).await.unwrap();
    subject.answer(3, "413 Payload Too Large\r\ncontent-length: 7\r\n\r\ntoo big");
    subject.answer(5, "500 Oops\r\ncontent-length: 0\r\n\r\n");
    subject.answer(6, "302 Found\r\nlocation: http://169.254.169.254/latest\r\ncontent-length: 0\r\n\r\n");
    stage.put("t", 0, 10, 10).await;
    wait_until("eight of ten", LONG, || async { stage.numbers("t").await.delivered == 7 }).await;
    subject.answers.lock().unwrap().clear();
    stage.drained("t").await;
    running.stop().await;
    assert_eq!(stage.dead("t").await["3"], "413 Payload Too Large: too big");
    let permit = Permit { dead_reasons: vec!["413".to_owned()], ..Permit::default() };
    stage.check("t", subject.seen().await, &permit).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_asks_for_a_rest_gets_it() {
    let (stage, subject) = (Stage::new().await, Endpoint::start().await);
    let mut settings = stage.settings([("s", subject.sink())], vec![route("t", "s", "in")]);
    settings.forwarder.circuit_longest_rest = delayq_service::config::HumanDuration::from_secs(30);
    let running = stage.forward(settings).await.unwrap();
    subject.answer(0, "503 Busy\r\nretry-after: 2\r\ncontent-length: 0\r\n\r\n");
    let start = std::time::Instant::now();
    stage.put("t", 0, 1, 10).await;
    wait_until("an open circuit", LONG, || async {
        running.metric("delayq_forwarder_circuit{sink=\"s\"") >= 1.0
    })
    .await;
    subject.answers.lock().unwrap().clear();
    stage.drained("t").await;
    assert!(start.elapsed().as_millis() >= 2000, "it came after {:?}", start.elapsed());
    running.stop().await;
    stage.check("t", subject.seen().await, &Permit::default()).await;
}
