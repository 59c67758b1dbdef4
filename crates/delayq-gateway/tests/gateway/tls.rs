//! TLS: certificates of both sides, their renewal, and clients that go.

use super::stage::{Stage, read_to_end, topic};
use super::streams::StreamClient;
use delayq::Message;
use delayq_tests::certs::{Authority, Certificate};
use delayq_tests::deadline::{LONG, SHORT, wait_until, within};
use delayq_tests::process::Signal;
use reqwest::{Client, ClientBuilder, Identity};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The settings of this certificate.
fn settings(certificate: &Certificate) -> String {
    let Certificate { certificate, key } = certificate;
    format!("cert = \"{}\"\nkey = \"{}\"\n", certificate.display(), key.display())
}

/// A client that trusts this authority, with its own certificate if given.
fn client(authority: &Authority, own: Option<&Certificate>) -> Client {
    let ca = reqwest::Certificate::from_pem(&std::fs::read(authority.authority()).unwrap()).unwrap();
    let builder = Client::builder().tls_certs_only([ca]).pool_max_idle_per_host(0);
    let read = |path: &Path| std::fs::read(path).unwrap();
    let identity = own.map(|own| [read(&own.certificate), read(&own.key)].concat());
    let identity = identity.map(|pem| Identity::from_pem(&pem).unwrap());
    identity.into_iter().fold(builder, ClientBuilder::identity).build().unwrap()
}

/// The topics, or `None` if there is no answer.
async fn topics(stage: &Stage, client: &Client) -> Option<Value> {
    let asked = client.get(format!("https://{}/v1/topics", stage.gateway.address)).send().await.ok()?;
    assert_eq!(asked.status().as_u16(), 200);
    asked.json().await.ok()
}

async fn failed_handshakes(stage: &Stage) -> u64 {
    let (_, metrics) = stage.gateway.endpoint.get("/metrics").await;
    let name = "delayq_gateway_handshake_errors_total ";
    metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
}

async fn has_logged(stage: &Stage, text: &str) {
    let logged = async || stage.gateway.process.tail().contains(text);
    wait_until("the line in the log", SHORT, logged).await;
}

#[tokio::test]
async fn requests_travel_by_tls_alone_and_a_failed_handshake_is_counted() {
    let (authority, other) = (Authority::new(), Authority::new());
    let stage = Stage::start(&settings(&authority.server())).await;
    assert!(topics(&stage, &client(&authority, None)).await.is_some());
    assert_eq!(failed_handshakes(&stage).await, 0);
    assert_eq!(topics(&stage, &client(&other, None)).await, None);
    let plain = stage.gateway.raw(b"GET /v1/topics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").await;
    assert!(!plain.contains("HTTP/1.1"), "{plain}");
    wait_until("the count", SHORT, async || failed_handshakes(&stage).await == 2).await;
}

#[tokio::test]
async fn a_client_needs_a_certificate_of_the_authority_where_one_is_set() {
    let (servers, clients, others) = (Authority::new(), Authority::new(), Authority::new());
    let ca = format!("ca = \"{}\"\n", clients.authority().display());
    let stage = Stage::start(&(settings(&servers.server()) + &ca)).await;
    let ours = clients.sign("shop", &["shop.test"]);
    assert!(topics(&stage, &client(&servers, Some(&ours))).await.is_some());
    assert_eq!(topics(&stage, &client(&servers, None)).await, None);
    let theirs = others.sign("shop", &["shop.test"]);
    assert_eq!(topics(&stage, &client(&servers, Some(&theirs))).await, None);
}

#[tokio::test]
async fn a_renewed_certificate_serves_new_connections_without_a_restart_and_a_broken_one_changes_nothing() {
    let (before, after) = (Authority::new(), Authority::new());
    let shown = before.server();
    let stage = Stage::start(&settings(&shown)).await;
    let (old, new) = (client(&before, None), client(&after, None));
    assert!(topics(&stage, &old).await.is_some() && topics(&stage, &new).await.is_none());
    let renewed = after.server();
    // The key still belongs to the certificate before.
    std::fs::copy(&renewed.certificate, &shown.certificate).unwrap();
    has_logged(&stage, "the certificate is unchanged").await;
    assert!(topics(&stage, &old).await.is_some());
    std::fs::copy(&renewed.key, &shown.key).unwrap();
    let serves = async || topics(&stage, &new).await.is_some();
    wait_until("the renewed certificate", SHORT, serves).await;
    assert_eq!(topics(&stage, &old).await, None);
}

#[tokio::test]
async fn a_silent_handshake_and_one_that_drips_are_closed() {
    let stage = Stage::start(&(settings(&Authority::new().server()) + "header_timeout = \"500ms\"\n")).await;
    assert_eq!(stage.gateway.raw(b"").await, "");
    // The type and the version of a record, and no more.
    assert_eq!(stage.gateway.raw(&[22, 3, 1]).await, "");
    let mut stream = stage.gateway.connect().await;
    // The beginning of a record of 512 bytes with a ClientHello.
    let hello = [22, 3, 1, 2, 0, 1].into_iter().chain(std::iter::repeat(0));
    let drip = async {
        for byte in hello {
            if stream.write_all(&[byte]).await.is_err() {
                return;
            }
            let _ = tokio::time::timeout(Duration::from_millis(20), stream.readable()).await;
            if matches!(stream.try_read(&mut [0; 512]), Ok(0)) {
                return;
            }
        }
    };
    within("the end of a handshake that drips", SHORT, drip).await;
    wait_until("the count", SHORT, async || failed_handshakes(&stage).await == 3).await;
}

/// A connection that reads nothing by itself.
async fn connected(stage: &Stage, authority: &Authority) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.authority()).unwrap()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let stream = socket.connect(stage.gateway.address.parse().unwrap()).await.unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect("127.0.0.1".try_into().unwrap(), stream).await.unwrap()
}

#[tokio::test]
async fn messages_that_reached_no_client_go_back_and_those_that_did_are_leased() {
    // More than the buffers of both sockets hold.
    const MANY: u64 = 40;
    let authority = Authority::new();
    let stage = Stage::start(&(settings(&authority.server()) + "write_timeout = \"2s\"\n")).await;
    let message = |n| Message::new(topic("mails"), "x".repeat(250_000)).id(format!("m{n}")).unwrap();
    stage.deployment.put((0..MANY).map(message)).await;
    let counted = async || stage.deployment.admin.topic(&topic("mails")).count().await.unwrap();
    let body =
        json!({ "topics": ["mails"], "max": MANY, "max_bytes": 16_000_000, "lease": "10m" }).to_string();
    let request = stage.gateway.bytes("POST /v1/reserve", &body);
    for is_reset in [true, false] {
        let mut stream = connected(&stage, &authority).await;
        stream.write_all(&request).await.unwrap();
        wait_until("the lease", SHORT, async || counted().await.leased > 0).await;
        // Otherwise the gateway closes a connection whose client does not read.
        let unread = (!is_reset).then_some(stream);
        wait_until("the messages", SHORT, async || counted().await.ready == MANY).await;
        drop(unread);
    }
    let mut stream = connected(&stage, &authority).await;
    stream.write_all(&request).await.unwrap();
    let mut answer = Vec::new();
    let read = async {
        while !answer.ends_with(b"]}") {
            let mut part = vec![0; 65_536];
            let read = stream.read(&mut part).await.unwrap();
            answer.extend_from_slice(&part[..read]);
        }
    };
    within("the answer", LONG, read).await;
    drop(stream);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(counted().await.leased > 0, "an answer that was read is not given back");
}

#[tokio::test]
async fn open_connections_and_handshakes_end_when_the_gateway_stops() {
    let authority = Authority::new();
    let mut stage = Stage::start(&settings(&authority.server())).await;
    let (mut idle, mut handshake) = (connected(&stage, &authority).await, stage.gateway.connect().await);
    stage.gateway.process.signal(Signal::TERM);
    assert!(stage.gateway.process.wait_end(SHORT).await.success(), "{}", stage.gateway.process.tail());
    assert_eq!(read_to_end(&mut handshake).await, "");
    assert_eq!(within("the end", SHORT, idle.read(&mut [0])).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn a_stream_over_tls_hands_out_settles_and_gives_back() {
    const MANY: u64 = 40;
    let authority = Authority::new();
    let stage = Stage::start(&(settings(&authority.server()) + "write_timeout = \"2s\"\n")).await;
    let counted = async || stage.deployment.admin.topic(&topic("mails")).count().await.unwrap();
    let reserve = |credits: u64| json!({ "reserve": { "topics": ["mails"], "credits": credits, "max_bytes": 16_000_000, "lease": "10m" } });
    let open = async || {
        let connection = connected(&stage, &authority).await;
        StreamClient::over(connection, &stage.gateway.address, &[]).await.unwrap()
    };
    let mut stream = open().await;
    stage.deployment.put([Message::new(topic("mails"), "first")]).await;
    stream.ask(reserve(1)).await;
    stream.told().await;
    let message = stream.message().await;
    assert_eq!(message["payload"], "first");
    stream.ask(json!({ "ack": { "receipt": message["receipt"] } })).await;
    assert_eq!(stream.told().await["settled"]["outcome"], "delivered");
    stream.close().await;
    // A client that reads nothing.
    let message = |n| Message::new(topic("mails"), "x".repeat(250_000)).id(format!("m{n}")).unwrap();
    stage.deployment.put((0..MANY).map(message)).await;
    let mut unread = open().await;
    unread.ask(reserve(MANY)).await;
    wait_until("the lease", SHORT, async || counted().await.leased > 0).await;
    wait_until("the messages", LONG, async || counted().await.leased == 0).await;
    let counted = counted().await;
    assert!(counted.ready > MANY / 2 && counted.ready + counted.delayed == MANY, "{counted:?}");
}
