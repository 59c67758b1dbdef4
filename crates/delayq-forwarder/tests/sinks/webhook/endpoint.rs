//! An HTTP server that records requests and answers by a script.

use crate::conformance::{Guarded, Mortal, Networked, Subject};
use crate::stage::Seen;
use delayq_forwarder::{SinkConfig, WebhookConfig};
use delayq_service::config::Secret;
use delayq_tests::certs::Certificate;
use delayq_tests::proxy::Proxy;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{WantsServerCert, WebPkiClientVerifier};
use rustls::{ConfigBuilder, RootCertStore, ServerConfig};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) path: String,
    pub(super) headers: HashMap<String, String>,
    pub(super) body: Vec<u8>,
}

/// In place of an answer: closes the connection, or stays silent.
pub(super) const RESET: &str = "reset";
pub(super) const HANG: &str = "hang";

pub(super) struct Endpoint {
    pub(super) proxy: Proxy,
    pub(super) address: String,
    pub(super) requests: Arc<Mutex<Vec<Request>>>,
    pub(super) script: Arc<Script>,
}

#[derive(Default)]
pub(super) struct Script {
    pub(super) answers: Mutex<HashMap<String, String>>,
    pub(super) otherwise: Mutex<Option<String>>,
    pub(super) delay: Duration,
    pub(super) token: Option<&'static str>,
    /// With a gate, each answer takes a permit.
    pub(super) gate: Option<Semaphore>,
    /// Current and peak number of requests waiting for an answer.
    pub(super) waiting: AtomicUsize,
    pub(super) max_waiting: AtomicUsize,
}

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
    script: Arc<Script>,
) {
    let mut buffer = Vec::new();
    while let Some((method, request)) = read(&mut stream, &mut buffer).await {
        let id = request.headers.get("delayq-id");
        let answer = id.and_then(|id| script.answers.lock().unwrap().get(id).cloned());
        let answer = answer.or_else(|| script.otherwise.lock().unwrap().clone().filter(|_| method == "POST"));
        let mut answer = answer.unwrap_or_else(|| "204 No Content\r\n\r\n".to_owned());
        match answer.as_str() {
            RESET => return,
            HANG => std::future::pending().await,
            _ => tokio::time::sleep(script.delay).await,
        }
        let bearer = script.token.map(|token| format!("Bearer {token}"));
        if bearer.is_some() && request.headers.get("authorization") != bearer.as_ref() {
            answer = "401 Unauthorized\r\ncontent-length: 0\r\n\r\n".to_owned();
        }
        if let (Some(gate), "POST") = (&script.gate, method.as_str()) {
            let waiting = script.waiting.fetch_add(1, Ordering::SeqCst) + 1;
            script.max_waiting.fetch_max(waiting, Ordering::SeqCst);
            gate.acquire().await.unwrap().forget();
            script.waiting.fetch_sub(1, Ordering::SeqCst);
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
    pub(super) async fn start_with(script: Script, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (requests, script) = (Arc::default(), Arc::new(script));
        let (noted, shared) = (Arc::clone(&requests), Arc::clone(&script));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (noted, script, tls) = (Arc::clone(&noted), Arc::clone(&shared), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, noted, script).await,
                        // A client without trust in the certificate ends here.
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, noted, script).await;
                            }
                        }
                    }
                });
            }
        });
        Self { proxy: Proxy::start(&address), address, requests, script }
    }

    pub(super) fn answer(&self, id: &str, answer: &str) {
        self.script.answers.lock().unwrap().insert(id.to_owned(), answer.to_owned());
    }

    pub(super) fn accepted(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

pub(super) fn sink(config: WebhookConfig) -> SinkConfig {
    SinkConfig { webhook: Some(config), ..SinkConfig::default() }
}

impl Subject for Endpoint {
    async fn start() -> Self {
        Self::start_with(Script::default(), None).await
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
    // The endpoint runs in this process: a refusing proxy stands for an endpoint that is down.
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
        Self::start_with(Script { token: Some(Self::PASSWORD), ..Script::default() }, None).await
    }

    fn with_password(&self, password: Secret) -> SinkConfig {
        let mut sink = self.sink();
        sink.webhook.as_mut().unwrap().bearer = Some(password);
        sink
    }
}

pub(super) async fn encrypted(certificate: &Certificate) -> Endpoint {
    with_tls(certificate, ServerConfig::builder().with_no_client_auth()).await
}

pub(super) async fn asking(certificate: &Certificate, authority: &Path) -> Endpoint {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
    with_tls(certificate, ServerConfig::builder().with_client_cert_verifier(verifier)).await
}

async fn with_tls(
    certificate: &Certificate,
    builder: ConfigBuilder<ServerConfig, WantsServerCert>,
) -> Endpoint {
    let chain =
        CertificateDer::pem_file_iter(&certificate.certificate).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(&certificate.key).unwrap();
    let config = builder.with_single_cert(chain, key).unwrap();
    Endpoint::start_with(Script::default(), Some(TlsAcceptor::from(Arc::new(config)))).await
}
