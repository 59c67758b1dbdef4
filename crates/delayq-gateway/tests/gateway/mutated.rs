//! Mutated requests of both APIs over sockets: each is answered, or its connection is closed, in bounded time; nothing of another
//! tenant is in an answer, and the gateway goes on.

use super::lmstfy::scene::Ports;
use super::stage::{Answer, Running, Stage};
use delayq_gateway::token_line;
use delayq_tests::deadline::{LONG, within};
use delayq_tests::folder::Folder;
use delayq_tests::mutation;
use delayq_tests::process::Stream;
use fastrand::Rng;
use futures_util::{StreamExt as _, stream};
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
const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";

/// Requests of the native API: method, path, content type and body.
const NATIVE: &[(&str, &str, &str, &str)] = &[
    (
        "PUT",
        "/v1/topics/t/messages/a?past_ok=true",
        JSON,
        r#"{"due":"+1h","payload":{"a":1},"group":"g","headers":{"h":"v"},"replace":true}"#,
    ),
    (
        "PUT",
        "/v1/topics/t/messages/b",
        "text/plain\r\nDelayq-Due: +1h\r\nDelayq-Backoff: 1s..1m\r\nDelayq-Header-Trace: 4b",
        "x",
    ),
    ("POST", "/v1/topics/t/messages", "text/plain\r\nIdempotency-Key: k\r\nDelayq-Deadline: 2s", "x"),
    (
        "POST",
        "/v1/messages",
        LINES,
        "{\"topic\":\"t\",\"id\":\"l\",\"due\":4070908800000}\n{\"topic\":\"u\",\"payload_base64\":\"eHh4\"}\n",
    ),
    (
        "POST",
        "/v1/messages",
        "application/cloudevents-batch+json",
        r#"[{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"a":1}},{"specversion":"1.0","delayqdue":"+1h"}]"#,
    ),
    (
        "POST",
        "/v1/topics/t/messages",
        "application/cloudevents+json",
        r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"AP8=","delayqgroup":"g","x":null}"#,
    ),
    (
        "PUT",
        "/v1/topics/t/messages/e",
        "text/plain\r\nce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s%20\r\nce-type: t\r\nce-delayqjitter: 1h",
        "x",
    ),
    ("GET", "/v1/topics/t/messages/a?group=g&payload=base64", "", ""),
    ("GET", "/v1/topics/t/messages/a/payload?group=g", "", ""),
    ("GET", "/v1/topics/t/messages/a/history?group=g", "", ""),
    ("DELETE", "/v1/topics/t/messages/c", "text/plain\r\nIf-Match: \"17-4070908800000\"", ""),
    (
        "POST",
        "/v1/topics/t/messages/b/reschedule",
        JSON,
        r#"{"due":"2099-01-01T00:00:00Z","expected_due":4070908800000}"#,
    ),
    ("POST", "/v1/topics/t/messages/b/replay", JSON, r#"{"delay":"1h"}"#),
    ("POST", "/v1/cancel", JSON, r#"[{"topic":"t","id":"a","group":"g"},{"topic":"..","id":"."}]"#),
    (
        "POST",
        "/v1/reschedule",
        JSON,
        r#"[{"topic":"t","id":"b","by":"-10m","expected_due":"2099-01-01T00:00:00Z"}]"#,
    ),
    ("POST", "/v1/replay", LINES, "{\"topic\":\"t\",\"id\":\"b\",\"delay\":\"1m\"}\n"),
    ("POST", "/v1/get", JSON, r#"[{"topic":"t","id":"a","group":"g","payload":"text"}]"#),
    (
        "GET",
        "/v1/topics/t/messages?state=delayed&from=2020-01-01T00:00:00Z&to=4070908800000&limit=10&payload=shown&header=h:v",
        "",
        "",
    ),
    ("GET", "/v1/groups/g/messages?topic=t&limit=5&after=x", "", ""),
    ("POST", "/v1/groups/g/cancel?topic=t", "", ""),
    ("POST", "/v1/groups/g/shift", JSON, r#"{"by":"10m","token":"once"}"#),
    ("POST", "/v1/groups/g/promote?max=10&to=2099-01-01T00:00:00Z", "", ""),
    ("GET", "/v1/topics?limit=3&after=a", "", ""),
    ("GET", "/v1/topics/t/histogram?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z&width=15m", "", ""),
    ("GET", "/v1/topics/t/horizon", "", ""),
    (
        "PATCH",
        "/v1/topics/t/policy",
        JSON,
        r#"{"lease":"1m","max_attempts":5,"backoff":"1s..1m","history":10}"#,
    ),
    ("PUT", "/v1/topics/u/rate", JSON, r#"{"rate":100.5}"#),
    ("POST", "/v1/topics/u/pause?group=g", "", ""),
    ("POST", "/v1/topics/t/promote?from=2099-01-01T00:00:00Z&max=5", "", ""),
    ("DELETE", "/v1/topics/u", "", ""),
    (
        "POST",
        "/v1/reserve",
        JSON,
        r#"{"topics":["t","u"],"max":5,"max_bytes":1000,"wait":"20ms","lease":"1s","worker":"w"}"#,
    ),
    (
        "POST",
        "/v1/settle",
        JSON,
        r#"[{"receipt":"AAAAAAAAAAAAAAAAAAAAAAAA","do":"release","delay":"1s","keep_attempt":true,"reason":"r"}]"#,
    ),
    ("PUT", "/v1/leases/AAAAAAAAAAAAAAAAAAAAAAAA/extend", JSON, r#"{"lease":"5m"}"#),
    (
        "POST",
        "/v1/operations",
        JSON,
        r#"{"action":"cancel","filter":{"topics":["t"],"group":"g","state":"pending","headers":{"h":"v"}},"dry_run":true}"#,
    ),
    ("GET", "/v1/operations/00000000000000000000000000000000", "", ""),
    ("GET", "/v1/actions?limit=10", "", ""),
    ("POST", "/v1/session", JSON, r#"{"token":"acme"}"#),
    (
        "POST",
        "/v1/tenants/globex/tokens",
        JSON,
        r#"{"name":"n","rights":["read"],"until":"2099-01-01T00:00:00Z"}"#,
    ),
    ("GET", "/v1/me", "", ""),
    ("GET", "/v1/status", "", ""),
    ("GET", "/?once=x", "", ""),
];

/// Requests of lmstfy's API.
const LMSTFY: &[(&str, &str, &str, &str)] = &[
    (
        "PUT",
        "/api/ns/q?delay=1&ttl=60&tries=3",
        "text/plain\r\nEnable-Job-Version: YES\r\nJob-Attr-K: v",
        "x",
    ),
    ("PUT", "/api/ns/q/bulk?tries=2", JSON, r#"[1,{"a":[null]},"x"]"#),
    ("PUT", "/api/ns/q/job/01M8NTTNZR56XG1AT6H0000000?delay=5", "text/plain", "x"),
    ("GET", "/api/ns/q,r?ttr=1&timeout=0&count=2", "", ""),
    ("GET", "/api/ns/q/peek", "", ""),
    ("GET", "/api/ns/q/job/01M8NTTNZR56XG1AT6H0000000", "", ""),
    ("DELETE", "/api/ns/q/job/01M8NTTNZR56XG1AT6H0000000", "", ""),
    ("DELETE", "/api/ns/r", "", ""),
    ("GET", "/api/ns/q/size", "", ""),
    ("GET", "/api/ns/q/deadletter", "", ""),
    ("PUT", "/api/ns/q/deadletter?limit=2&ttl=60", "", ""),
    ("DELETE", "/api/ns/q/deadletter?limit=1", "", ""),
    ("GET", "/api/globex/vault/peek", "", ""),
];

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
    requests: &'static [(&'static str, &'static str, &'static str, &'static str)],
}

// === impl Target ===

impl Target {
    /// Mutated in its text, in its bytes, or in its body alone, of which the length is then told truly.
    fn request(&self, rng: &mut Rng) -> Vec<u8> {
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
fn wrong(answer: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(answer);
    if text.contains(SECRET) {
        return Some("something of another tenant".to_owned());
    }
    let (head, body) = split(answer)?;
    let status: u16 = head.split(' ').nth(1)?.parse().ok()?;
    // 503 and 504 name an outage, or a deadline that the request names.
    if status >= 500 && ![503, 504].contains(&status) {
        return Some(format!("status {status}"));
    }
    let is_problem = head.contains("content-type: application/problem+json") && is_whole(answer);
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    let problem = is_problem.then(|| serde_json::from_slice::<Value>(&body[..length.unwrap_or(0)]));
    match problem {
        Some(Ok(problem)) if problem["code"].as_str().is_some_and(|code| code.starts_with("DQ-G")) => None,
        Some(odd) => Some(format!("a problem that cannot be read: {odd:?}")),
        None => None,
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
    std::fs::write(&file, of("acme") + &of("globex")).unwrap();
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
    let targets = [
        Target {
            address: stage.gateway.address.clone(),
            token: "Authorization: Bearer acme\r\n".to_owned(),
            requests: NATIVE,
        },
        Target {
            address: ports.api.strip_prefix("http://").unwrap().to_owned(),
            token: format!("X-Token: {}\r\n", ports.token),
            requests: LMSTFY,
        },
    ];
    let mut rng = Rng::with_seed(17);
    let requests = (0..cases).map(|n| {
        let target = &targets[usize::from(rng.u8(..4) == 0)];
        (n, target, target.request(&mut rng))
    });
    let mut answers = stream::iter(requests)
        .map(|(n, target, request)| async move {
            let answer = target.answer(&request).await;
            (n, request, answer)
        })
        .buffer_unordered(AT_ONCE);
    let mut answered = 0;
    while let Some((n, request, answer)) = answers.next().await {
        if let Some(wrong) = wrong(&answer) {
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
