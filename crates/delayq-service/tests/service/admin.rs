//! The admin endpoint over real sockets: its answers, and clients that try to hold its connections.

use delayq_service::admin::{Admin, AdminState, Limits, router};
use delayq_service::config::{AdminConfig, HostPort, Listen};
use delayq_service::{Exit, Metrics, Process, Program, Readiness};
use prometheus_client::metrics::counter::Counter;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

const PROGRAM: Program = Program { name: "delayq-test", version: "1.2.3" };
/// Longer than any step here takes.
const BOUND: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(150);
const PATIENT: Limits = Limits { connections: 64, deadline: Duration::from_secs(300) };

struct Endpoint {
    address: SocketAddr,
    metrics: Metrics,
    readiness: Readiness,
}

fn config(port: u16) -> AdminConfig {
    AdminConfig { listen: Listen::At(HostPort::new("127.0.0.1", port)), ..AdminConfig::default() }
}

async fn endpoint(limits: Limits) -> Endpoint {
    let Process { metrics, readiness, .. } = Process::new(PROGRAM);
    let admin = Admin::bind(&config(0), limits, &metrics).await.unwrap();
    let address = admin.address().unwrap();
    let state = AdminState { program: PROGRAM, metrics: metrics.clone(), readiness: readiness.clone() };
    tokio::spawn(admin.serve(router(state)));
    Endpoint { address, metrics, readiness }
}

impl Endpoint {
    async fn send(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    async fn until_open(&self, count: usize) {
        let line = format!("delayq_admin_connections {count}\n");
        let open = async {
            while !self.metrics.encode().contains(&line) {
                tokio::task::yield_now().await;
            }
        };
        timeout(BOUND, open).await.expect("the connections stay as they are");
    }

    async fn get(&self, path: &str) -> String {
        rest(&mut self.send(&format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).await)
            .await
    }
}

/// The remaining bytes until the other side closes, which must happen in time.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = timeout(BOUND, stream.read_to_end(&mut bytes)).await.expect("the connection is held open");
    // A reset is a close too.
    let _ = read;
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn each_path_answers() {
    let endpoint = endpoint(PATIENT).await;
    endpoint.metrics.lateness("lateness", "Ready minus due.").observe(Duration::from_millis(1));
    let metrics = endpoint.get("/metrics").await;
    assert!(
        metrics.starts_with("HTTP/1.1 200") && metrics.contains("application/openmetrics-text"),
        "{metrics}"
    );
    assert!(
        metrics.contains("delayq_lateness_seconds_count 1\n") && metrics.ends_with("# EOF\n"),
        "{metrics}"
    );
    assert!(endpoint.get("/livez").await.ends_with("alive\n"));
    let stuck = endpoint.readiness.heartbeat("pump", Duration::ZERO);
    let missed = async {
        loop {
            let answer = endpoint.get("/livez").await;
            if answer.starts_with("HTTP/1.1 503") && answer.ends_with("stuck: pump\n") {
                return;
            }
        }
    };
    timeout(BOUND, missed).await.expect("the heartbeat is missed");
    drop(stuck);
    assert!(endpoint.get("/livez").await.ends_with("alive\n"), "what has ended is not missed");
    assert!(endpoint.get("/version").await.ends_with(r#"{"name":"delayq-test","version":"1.2.3"}"#));
    assert!(endpoint.get("/other").await.starts_with("HTTP/1.1 404"));
}

#[tokio::test]
async fn the_endpoint_has_nothing_that_changes_something() {
    let endpoint = endpoint(PATIENT).await;
    let paths = ["/metrics", "/livez", "/readyz", "/version"];
    for (path, method) in
        paths.iter().flat_map(|path| ["POST", "PUT", "PATCH", "DELETE"].map(|method| (path, method)))
    {
        let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let answer = rest(&mut endpoint.send(&request).await).await;
        assert!(answer.starts_with("HTTP/1.1 405"), "{method} {path}: {answer}");
    }
    // Every route is a GET. A new route must be a GET too, or ask for a token and be tried here.
    let source = include_str!("../../src/admin/routes.rs");
    let routes: Vec<&str> = source.lines().filter_map(|line| line.trim().strip_prefix(".route(")).collect();
    assert_eq!(routes.len(), paths.len(), "{routes:?}");
    for path in paths {
        assert!(
            routes.iter().any(|route| route.starts_with(&format!("\"{path}\", get("))),
            "{path}: {routes:?}"
        );
    }
}

#[tokio::test]
async fn readiness_names_what_is_missing() {
    let endpoint = endpoint(PATIENT).await;
    let redis = endpoint.readiness.condition("redis");
    redis.unready("no answer for 2s");
    let answer = endpoint.get("/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    let expected = r#"{"ready":false,"unready":[{"condition":"redis","reason":"no answer for 2s"}]}"#;
    assert!(answer.ends_with(expected), "{answer}");
    redis.ready();
    let answer = endpoint.get("/readyz").await;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with(r#"{"ready":true,"unready":[]}"#),
        "{answer}"
    );
    endpoint.readiness.fails("shop orders".to_owned(), Some("HTTP 503"));
    let answer = endpoint.get("/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "another's failure: {answer}");
    assert!(answer.contains(r#""failing":{"shop orders":"HTTP 503"}"#), "{answer}");
}

#[tokio::test]
async fn no_client_holds_a_connection_beyond_the_deadline() {
    let endpoint = endpoint(Limits { deadline: SHORT, ..PATIENT }).await;
    for beginning in ["", "GET /livez HTTP/1.1\r\nhost:"] {
        let mut stream = endpoint.send(beginning).await;
        assert_eq!(rest(&mut stream).await, "", "{beginning:?}");
    }
    endpoint.until_open(0).await;
}

#[tokio::test]
async fn a_head_by_the_drop_is_cut_off_all_the_same() {
    let endpoint = endpoint(Limits { deadline: SHORT, ..PATIENT }).await;
    let mut stream = endpoint.send("GET /livez HTTP/1.1\r\n").await;
    let begun = Instant::now();
    let mut drops = tokio::time::interval(Duration::from_millis(20));
    loop {
        drops.tick().await;
        if stream.write_all(b"a: b\r\n").await.is_err() {
            break;
        }
        assert!(begun.elapsed() < BOUND, "the connection is held open");
    }
}

#[tokio::test]
async fn a_body_is_not_waited_for() {
    let endpoint = endpoint(PATIENT).await;
    for length in ["10", "10000000000"] {
        let mut stream = endpoint
            .send(&format!("GET /livez HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\nabc"))
            .await;
        let answer = rest(&mut stream).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    endpoint.until_open(0).await;
}

#[tokio::test]
async fn a_connection_answers_one_request() {
    let endpoint = endpoint(PATIENT).await;
    let request = "GET /livez HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut stream = endpoint.send(&format!("{request}{request}")).await;
    assert!(rest(&mut stream).await.matches("alive\n").count() <= 1);
    endpoint.until_open(0).await;
}

#[tokio::test]
async fn a_client_that_stops_reading_gives_its_slot_back() {
    let endpoint = endpoint(Limits { deadline: SHORT, ..PATIENT }).await;
    // Exceeds the buffers of both sides by far.
    let help = "x".repeat(64 << 20);
    let _: Counter = endpoint.metrics.register("large", &help, Counter::default());
    let _stuck = endpoint.send("GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await;
    endpoint.until_open(1).await;
    endpoint.until_open(0).await;
}

#[tokio::test]
async fn a_client_that_takes_every_connection_does_not_blank_the_probes() {
    let endpoint = endpoint(Limits { connections: 2, ..PATIENT }).await;
    let mut oldest = endpoint.send("").await;
    endpoint.until_open(1).await;
    let _second = endpoint.send("").await;
    endpoint.until_open(2).await;
    let mut third = endpoint.send("").await;
    assert_eq!(rest(&mut oldest).await, "", "the oldest is closed");
    let metrics = endpoint.metrics.encode();
    assert!(metrics.contains("delayq_admin_connections_closed_total 1"), "{metrics}");
    assert!(metrics.contains("delayq_admin_connections 2"), "{metrics}");
    third.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert!(rest(&mut third).await.ends_with("alive\n"));
}

#[tokio::test]
async fn a_taken_address_is_a_fault_with_code() {
    let first = endpoint(PATIENT).await;
    let taken = config(first.address.port());
    let fault = Admin::bind(&taken, PATIENT, &Metrics::new()).await.unwrap_err();
    assert_eq!((fault.code().id, fault.exit()), ("DQ-P001", Exit::Unavailable));
    let off = AdminConfig { listen: Listen::Off, ..AdminConfig::default() };
    assert!(Admin::bind(&off, PATIENT, &Metrics::new()).await.unwrap().address().is_none());
}
