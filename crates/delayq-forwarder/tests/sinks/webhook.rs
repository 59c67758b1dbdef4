//! The sink `webhook` against an HTTP server that notes what it was sent and answers as it is told.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use delayq_core::{Admin, Message, Policy};
use delayq_forwarder::{SinkConfig, WebhookConfig};
use delayq_service::config::{HumanDuration, Secret};
use delayq_tests::certs::{Authority, Certificate};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::invariants::Permit;
use delayq_tests::proxy::Proxy;
use hmac::{Hmac, KeyInit, Mac};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::conformance::{
    Guarded, Mortal, Networked, Subject, conforms, tls_takes_the_private_authority_and_no_other_name,
};
use crate::stage::{Seen, Stage, route, topic};

#[derive(Clone, Debug)]
struct Request {
    path: String,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

/// Answers that are none: the connection is closed, or stays silent.
const RESET: &str = "reset";
const HANG: &str = "hang";

struct Endpoint {
    proxy: Proxy,
    address: String,
    requests: Arc<Mutex<Vec<Request>>>,
    told: Arc<Told>,
}

/// What the endpoint was told.
#[derive(Default)]
struct Told {
    answers: Mutex<HashMap<String, String>>,
    /// The answer to every other message; `None`: 204.
    otherwise: Mutex<Option<String>>,
    /// How long each answer takes.
    delay: Duration,
    /// The only token that it takes.
    token: Option<&'static str>,
    /// Answers are given one for each permit, where there is a gate.
    gate: Option<Semaphore>,
    /// Requests that wait for their answer, and the most that did at a time.
    waiting: AtomicUsize,
    most_waiting: AtomicUsize,
}

/// Reads one request; nothing when the connection ends before it.
async fn read(stream: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> Option<(String, Request)> {
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

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    requests: Arc<Mutex<Vec<Request>>>,
    told: Arc<Told>,
) {
    let mut buffer = Vec::new();
    while let Some((method, request)) = read(&mut stream, &mut buffer).await {
        let id = request.headers.get("delayq-id");
        let answer = id.and_then(|id| told.answers.lock().unwrap().get(id).cloned());
        let answer = answer.or_else(|| told.otherwise.lock().unwrap().clone().filter(|_| method == "POST"));
        let mut answer = answer.unwrap_or_else(|| "204 No Content\r\n\r\n".to_owned());
        match answer.as_str() {
            RESET => return,
            HANG => std::future::pending().await,
            _ => tokio::time::sleep(told.delay).await,
        }
        let bearer = told.token.map(|token| format!("Bearer {token}"));
        if bearer.is_some() && request.headers.get("authorization") != bearer.as_ref() {
            answer = "401 Unauthorized\r\ncontent-length: 0\r\n\r\n".to_owned();
        }
        if let (Some(gate), "POST") = (&told.gate, method.as_str()) {
            let waiting = told.waiting.fetch_add(1, Ordering::SeqCst) + 1;
            told.most_waiting.fetch_max(waiting, Ordering::SeqCst);
            gate.acquire().await.unwrap().forget();
            told.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        if method == "POST" && answer.starts_with('2') {
            requests.lock().unwrap().push(request);
        }
        if stream.write_all(format!("HTTP/1.1 {answer}").as_bytes()).await.is_err() {
            return;
        }
    }
}

// === impl Endpoint ===

impl Endpoint {
    async fn start_with(told: Told, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (requests, told) = (Arc::default(), Arc::new(told));
        let (noted, shared) = (Arc::clone(&requests), Arc::clone(&told));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (noted, told, tls) = (Arc::clone(&noted), Arc::clone(&shared), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, noted, told).await,
                        // A client that does not trust it ends here.
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, noted, told).await;
                            }
                        }
                    }
                });
            }
        });
        Self { proxy: Proxy::start(&address), address, requests, told }
    }

    fn answer(&self, id: &str, answer: &str) {
        self.told.answers.lock().unwrap().insert(id.to_owned(), answer.to_owned());
    }

    /// How often it took a message.
    fn taken(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

fn sink(config: WebhookConfig) -> SinkConfig {
    SinkConfig { webhook: Some(config), ..SinkConfig::default() }
}

impl Subject for Endpoint {
    async fn start() -> Self {
        Self::start_with(Told::default(), None).await
    }

    fn sink(&self) -> SinkConfig {
        sink(WebhookConfig {
            url: format!("http://{}/hook", self.proxy.address()),
            secret: Some(Secret::plain("hunter2")),
            ..WebhookConfig::default()
        })
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
            ready_ms: request.headers["delayq-ready"].parse().unwrap(),
            body: request.body,
        };
        requests.into_iter().map(seen).collect()
    }
}

impl Mortal for Endpoint {
    // The endpoint lives in this process: it is down when its proxy refuses.
    async fn stop(&mut self) {
        self.proxy.refuse().await;
    }

    async fn resume(&mut self) {
        self.proxy.accept().await;
    }
}

impl Networked for Endpoint {
    fn proxy(&self) -> &Proxy {
        &self.proxy
    }
}

impl Guarded for Endpoint {
    const PASSWORD: &str = "open-sesame";
    const REFUSAL: &str = "401 Unauthorized";

    async fn start_guarded() -> Self {
        Self::start_with(Told { token: Some(Self::PASSWORD), ..Told::default() }, None).await
    }

    fn with_password(&self, password: Secret) -> SinkConfig {
        let mut sink = self.sink();
        sink.webhook.as_mut().unwrap().bearer = Some(password);
        sink
    }
}

conforms!(Endpoint:
    everything_arrives_once,
    delayed_messages_come_at_their_time_and_cancelled_ones_never,
    a_server_that_is_down_at_start_is_named_or_waited_for,
    a_server_that_goes_down_midway_costs_no_message,
    a_lost_confirm_repeats_at_most_what_was_under_way,
    a_black_hole_is_left_behind_by_deadline,
    a_slow_server_keeps_its_leases,
    a_clean_stop_under_load_loses_and_repeats_nothing,
    a_refused_login_is_named_and_mended_without_a_loss,
);

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
async fn a_producer_neither_leaves_the_base_nor_sets_the_connections_headers() {
    let (stage, subject) = (Stage::new().await, Endpoint::start().await);
    let running = stage
        .forward(stage.settings([("s", subject.sink())], vec![route("t", "s", "{header.to}")]))
        .await
        .unwrap();
    let ways_out = ["../hook-admin/x", "a?admin=1", "..%2fx", "..;/x"];
    for (id, to) in ways_out.iter().chain(&["a/b"]).enumerate() {
        let mut message = Message::new(topic("t"), "x").id(id.to_string()).unwrap().header("to", *to);
        for name in ["expect", "Cookie", "proxy-authorization", "te", "content-encoding", "x-kept"] {
            message = message.header(name, "100-continue");
        }
        assert!(stage.producer.put(message).await.unwrap().outcome.is_accepted());
    }
    stage.drained("t").await;
    running.stop().await;
    let (dead, requests) = (stage.dead("t").await, subject.requests.lock().unwrap().clone());
    assert_eq!(dead.len(), ways_out.len(), "{dead:?}");
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!(request.path, "/hook/a/b");
    for name in ["expect", "cookie", "proxy-authorization", "te", "content-encoding"] {
        assert!(!request.headers.contains_key(name), "{name}");
    }
    assert_eq!(request.headers["x-kept"], "100-continue");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_endpoint_gets_no_message_twice() {
    // All of them take more than ten times the timeout of one.
    const COUNT: usize = 600;
    let told = Told { delay: Duration::from_millis(150), ..Told::default() };
    let (stage, subject) = (Stage::new().await, Endpoint::start_with(told, None).await);
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
    // A connection that breaks says as little as one that is silent: it is tried again.
    subject.told.answers.lock().unwrap().clear();
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
        Admin::new(stage.client.clone()).set_policy(&topic("t"), &policy).await.unwrap();
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
    // A fixed destination, and one for each message.
    for to in ["in", "{id}"] {
        let (stage, subject) = (Stage::new().await, Endpoint::start().await);
        *subject.told.otherwise.lock().unwrap() =
            Some("422 Wrong\r\ncontent-length: 9\r\n\r\nwrong key".to_owned());
        let mut settings = stage.settings([("s", subject.sink())], vec![route("t", "s", to)]);
        settings.forwarder.most_burials = 10;
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
        assert!(
            unready.iter().any(|one| one.reason.contains("rejecting message after message")),
            "{unready:?}"
        );
        *subject.told.otherwise.lock().unwrap() = None;
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
    subject.told.answers.lock().unwrap().clear();
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
        subject.told.answers.lock().unwrap().clear();
        stage.drained("t").await;
        assert!(start.elapsed().as_millis() >= 2000, "{asked}: it came after {:?}", start.elapsed());
        running.stop().await;
        stage.check("t", subject.seen().await, &Permit::default()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_followed_to_a_private_address_only_where_that_is_allowed() {
    let other = Endpoint::start().await;
    let port = other.address.rsplit(':').next().unwrap().to_owned();
    let to = |host: &str| format!("http://{host}:{port}/moved");
    for (follow, private, status, to, refusal) in [
        (false, false, "307 Moved", to("127.0.0.1"), Some("307 Temporary Redirect")),
        (true, false, "307 Moved", to("127.0.0.1"), Some("the private address 127.0.0.1")),
        (true, false, "308 Moved", to("127.0.0.2"), Some("the private address 127.0.0.2")),
        (true, false, "307 Moved", to("localhost"), Some("localhost has private addresses only")),
        (true, true, "302 Moved", to("127.0.0.1"), Some("does not keep the request")),
        (true, true, "307 Moved", to("127.0.0.1"), None),
        (true, true, "308 Moved", to("localhost"), None),
    ] {
        let (stage, subject) = (Stage::new().await, Endpoint::start().await);
        let mut sink = subject.sink();
        let config = sink.webhook.as_mut().unwrap();
        (config.follow_redirects, config.allow_private_redirects) = (follow, private);
        let settings = stage.settings([("s", sink)], vec![route("t", "s", "in")]);
        let running = stage.forward(settings).await.unwrap();
        subject.answer("m", &format!("{status}\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"));
        let before = other.taken();
        let message = Message::new(topic("t"), "body").id("m").unwrap().max_attempts(1);
        assert!(stage.producer.put(message).await.unwrap().outcome.is_accepted());
        stage.drained("t").await;
        running.stop().await;
        match refusal {
            None => {
                assert_eq!((other.taken() - before, stage.dead("t").await.len()), (1, 0), "{to}");
                let request = other.requests.lock().unwrap().last().unwrap().clone();
                assert_eq!((request.path.as_str(), &request.body[..]), ("/moved", &b"body"[..]));
            }
            Some(part) => {
                let reason = &stage.dead("t").await["m"];
                assert!(reason.contains(part), "{to} {status}: {reason}");
                assert_eq!(other.taken(), before, "{to} {status} was followed");
            }
        }
        assert_eq!(subject.taken(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sinks_of_one_host_keep_its_limit_together() {
    const LIMIT: usize = 3;
    let stage = Stage::new().await;
    let subject = Endpoint::start_with(Told { gate: Some(Semaphore::new(0)), ..Told::default() }, None).await;
    let sink = |connections: usize| {
        let mut sink = subject.sink();
        sink.webhook.as_mut().unwrap().connections = u16::try_from(connections).unwrap();
        sink.timeout = HumanDuration::from_secs(60);
        sink
    };
    let routes = vec![route("a", "one", "a"), route("b", "two", "b")];
    let running =
        stage.forward(stage.settings([("one", sink(LIMIT)), ("two", sink(64))], routes)).await.unwrap();
    stage.put("a", 0, 20, 10).await;
    stage.put("b", 20, 20, 10).await;
    let told = &subject.told;
    for left in (1..=40).rev() {
        let expected = LIMIT.min(left);
        wait_until("as many requests as may", LONG, || async {
            told.waiting.load(Ordering::SeqCst) == expected
        })
        .await;
        told.gate.as_ref().unwrap().add_permits(1);
        wait_until("an answer", LONG, || async { subject.taken() == 41 - left }).await;
    }
    stage.drained("a").await;
    stage.drained("b").await;
    running.stop().await;
    assert_eq!(told.most_waiting.load(Ordering::SeqCst), LIMIT);
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_takes_the_private_authority_and_refuses_another_name() {
    let (stage, authority, stranger) = (Stage::new().await, Authority::new(), Authority::new());
    let (server, misnamed) = (encrypted(&authority.server()).await, encrypted(&authority.wrong_name()).await);
    let with = |endpoint: &Endpoint, authority: &Authority| {
        let url = format!("https://{}/hook", endpoint.address);
        sink(WebhookConfig { url, ca: Some(authority.authority()), ..WebhookConfig::default() })
    };
    let sinks = [with(&server, &authority), with(&server, &stranger), with(&misnamed, &authority)];
    tls_takes_the_private_authority_and_no_other_name(&stage, "in", sinks).await;
    stage.check("t", server.seen().await, &Permit::default()).await;
    assert_eq!(misnamed.taken(), 0);
}

/// An endpoint with this certificate.
async fn encrypted(certificate: &Certificate) -> Endpoint {
    let chain =
        CertificateDer::pem_file_iter(&certificate.certificate).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(&certificate.key).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    Endpoint::start_with(Told::default(), Some(TlsAcceptor::from(Arc::new(config)))).await
}
