//! Mutated requests of both APIs and of lmstfy's admin port, and mutated frames of streams, over sockets: each is answered, or its connection is closed, in bounded time; nothing of another
//! tenant is in an answer, and the gateway goes on.

mod frames;
mod requests;

use super::lmstfy::scene::Ports;
use super::stage::{Answer, Running, Stage};
use delayq_gateway::token_line;
use delayq_tests::deadline::{LONG, within};
use delayq_tests::folder::Folder;
use delayq_tests::mutation;
use delayq_tests::process::Stream;
use fastrand::Rng;
use futures_util::{StreamExt as _, stream};
use requests::{Asked, LMSTFY, LMSTFY_ADMIN, NATIVE, OPERATOR};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

delayq_tests::try_with_mutations! {
    #[test]
    fn a_mutated_request_is_answered_or_its_connection_is_closed() { requests_answer(4_000, 1_000_000) }
}

const AT_ONCE: usize = 16;
/// A gateway that has not answered by then waits for the rest of a request.
const PATIENCE: Duration = Duration::from_millis(100);
/// In the message of another tenant, and in no request.
const SECRET: &str = "canary-of-globex";

/// Misplaced pieces of HTTP, JSON and the names of another tenant.
const PIECES: [&str; 24] = [
    "\r\n",
    "\r\n\r\n",
    "%2F",
    "%00",
    "%",
    "?",
    "&",
    "..",
    "\"",
    "{",
    "]",
    "\\u0000",
    "\u{1f4a5}",
    "-1",
    "1e999",
    "18446744073709551616",
    "globex/vault",
    "Content-Length: 5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Expect: 100-continue\r\n",
    "Delayq-Nonsense: 1\r\n",
    "null",
    ": ",
    " HTTP/1.1\r\n",
];

struct Target {
    address: String,
    token: String,
    /// None: frames of a stream.
    requests: &'static [Asked],
    /// How many of the requests go here, in relation to the others.
    weight: u32,
    /// True if the caller may see what belongs to every tenant.
    sees_all: bool,
}

// === impl Target ===

impl Target {
    /// Mutated in its text, in its bytes, or in its body alone, of which the length is then told truly.
    fn request(&self, rng: &mut Rng) -> Vec<u8> {
        if self.requests.is_empty() {
            return frames::asked(rng, &self.address, &self.token);
        }
        let (method, path, kind, body) = self.requests[rng.usize(..self.requests.len())];
        let is_of_body = !body.is_empty() && rng.bool();
        let body = if is_of_body { mutation::text(rng, body, &PIECES) } else { body.to_owned() };
        let kind = if kind.is_empty() { String::new() } else { format!("Content-Type: {kind}\r\n") };
        let length =
            if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let (address, token) = (&self.address, &self.token);
        let whole = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\n{token}{kind}{length}\r\n{body}");
        match rng.bool() {
            _ if is_of_body => whole.into_bytes(),
            true => mutation::text(rng, &whole, &PIECES).into_bytes(),
            false => mutation::bytes(rng, whole.as_bytes()),
        }
    }

    /// Everything that the gateway sends until it is silent, or closes the connection.
    async fn answer(&self, request: &[u8]) -> Vec<u8> {
        let socket = TcpSocket::new_v4().unwrap();
        // No connection waits in the kernel behind its end: a million would use up the ports.
        socket.set_zero_linger().unwrap();
        let mut stream = socket.connect(self.address.parse().unwrap()).await.unwrap();
        let mut answer = Vec::new();
        if stream.write_all(request).await.is_ok() && !has_come(&mut stream, &mut answer).await {
            let _ = stream.shutdown().await;
            let rest = within("the end of a connection", LONG, stream.read_to_end(&mut answer)).await;
            // A reset ends it as well.
            drop(rest);
        }
        answer
    }
}

/// False if the answer is not whole after some patience.
async fn has_come(stream: &mut TcpStream, answer: &mut Vec<u8>) -> bool {
    loop {
        match tokio::time::timeout(PATIENCE, stream.read_buf(answer)).await {
            Ok(Ok(0) | Err(_)) => return true,
            Ok(Ok(_)) if is_whole(answer) => return true,
            Ok(Ok(_)) => {}
            Err(_) => return false,
        }
    }
}

fn split(answer: &[u8]) -> Option<(String, &[u8])> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some((String::from_utf8_lossy(&answer[..end]).to_lowercase(), &answer[end + 4..]))
}

fn is_whole(answer: &[u8]) -> bool {
    let Some((head, body)) = split(answer) else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    length.is_some_and(|length| body.len() >= length)
}

/// What is wrong with an answer, if anything.
fn wrong(target: &Target, answer: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(answer);
    if text.contains(SECRET) && !target.sees_all {
        return Some("something of another tenant".to_owned());
    }
    let (head, body) = split(answer)?;
    let status: u16 = head.split(' ').nth(1)?.parse().ok()?;
    // 503 and 504 name an outage, or a deadline that the request names; lmstfy answers 500 to a second limit of a token.
    if status >= 500 && ![503, 504].contains(&status) && !text.contains("has already exists") {
        return Some(format!("status {status}"));
    }
    let is_problem = head.contains("content-type: application/problem+json") && is_whole(answer);
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    let problem = is_problem.then(|| serde_json::from_slice::<Value>(&body[..length.unwrap_or(0)]));
    match problem {
        Some(Ok(problem)) if problem["code"].as_str().is_some_and(|code| code.starts_with("DQ-G")) => None,
        Some(odd) => Some(format!("a problem that cannot be read: {odd:?}")),
        None => frames::wrong(answer),
    }
}

async fn lives(gateway: &Running) {
    let me = Answer::of(gateway.request(Method::GET, "/v1/me").bearer_auth("acme")).await;
    assert!([200, 429].contains(&me.status), "{me:?}");
    assert_eq!(gateway.endpoint.get("/livez").await.0, 200);
    let said = gateway.process.text(Stream::Err);
    assert!(!said.contains("panicked"), "{said}");
}

async fn stage() -> (Stage, Folder) {
    let folder = Folder::new("tokens");
    let file = folder.join("tokens");
    let of = |tenant: &str| token_line(tenant, tenant).replace('\n', &format!(" tenant={tenant}\n"));
    std::fs::write(&file, of("acme") + &of("globex") + &token_line("boss", "boss")).unwrap();
    let lmstfy = "[lmstfy]\nenabled = true\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\n";
    (Stage::start(&format!("tokens = \"{}\"\n{lmstfy}", file.display())).await, folder)
}

#[tokio::main]
async fn requests_answer(cases: u64) {
    let (mut stage, _folder) = stage().await;
    let mut ports = Ports::of(&mut stage.gateway).await;
    ports.token = ports.new_token("ns").await;
    let vault = stage.gateway.request(Method::PUT, "/v1/topics/vault/messages/one").bearer_auth("globex");
    let message = json!({ "payload": SECRET, "due": "2099-01-01T00:00:00Z" });
    Answer::of(vault.json(&message)).await.with(201);
    let native = |token: &str, requests, weight| Target {
        address: stage.gateway.address.clone(),
        token: format!("Authorization: Bearer {token}\r\n"),
        requests,
        weight,
        sees_all: token == "boss",
    };
    let lmstfy = |address: &str, requests, weight| Target {
        address: address.strip_prefix("http://").unwrap().to_owned(),
        token: format!("X-Token: {}\r\n", ports.token),
        requests,
        weight,
        sees_all: false,
    };
    let targets = [
        native("acme", NATIVE, 32),
        native("boss", OPERATOR, 8),
        native("acme", &[], 4),
        lmstfy(&ports.api, LMSTFY, 15),
        lmstfy(&ports.admin, LMSTFY_ADMIN, 5),
    ];
    let all: u32 = targets.iter().map(|target| target.weight).sum();
    let mut rng = Rng::with_seed(17);
    let requests = (0..cases).map(|n| {
        let mut left = i64::from(rng.u32(..all));
        let of_draw = |target: &&Target| {
            left -= i64::from(target.weight);
            left < 0
        };
        let target = targets.iter().find(of_draw).expect("the weights are drawn from");
        (n, target, target.request(&mut rng))
    });
    let mut answers = stream::iter(requests)
        .map(|(n, target, request)| async move {
            let answer = target.answer(&request).await;
            (n, target, request, answer)
        })
        .buffer_unordered(AT_ONCE);
    let mut answered = 0;
    while let Some((n, target, request, answer)) = answers.next().await {
        if let Some(wrong) = wrong(target, &answer) {
            let (request, answer) = (String::from_utf8_lossy(&request), String::from_utf8_lossy(&answer));
            panic!("{wrong}\n--- request {n}\n{request}\n--- answer\n{answer}");
        }
        answered += u64::from(answer.starts_with(b"HTTP/1.1 "));
        if n % 1_000 == 0 {
            lives(&stage.gateway).await;
        }
    }
    drop(answers);
    lives(&stage.gateway).await;
    assert!(answered > cases / 2, "{answered} of {cases} are answered");
    let kept = stage
        .gateway
        .request(Method::GET, "/v1/topics/vault/messages/one?payload=text")
        .bearer_auth("globex");
    assert_eq!(Answer::of(kept).await.with(200)["payload"], SECRET);
}
