//! Answers recorded from lmstfy at 725f59e, compared byte for byte, with the order of keys and checks.

use super::scene::{Ports, Scene};
use crate::stage::Answer;
use reqwest::{Method, RequestBuilder};

const JSON: &str = "application/json; charset=utf-8";

/// A request, and the answer; `*` stands for letters and digits.
type Row = (&'static str, &'static str, &'static str, u16, &'static str);

/// True if the text equals the pattern, with letters or digits for each `*`.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut is_open = false;
    for part in parts {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        is_open = part.is_empty();
        match rest[end..].strip_prefix(part) {
            Some(behind) => rest = behind,
            None => return false,
        }
    }
    rest.is_empty() || is_open && rest.chars().all(|c| c.is_ascii_alphanumeric())
}

async fn compare(row: &Row, request: RequestBuilder) -> Answer {
    let (method, path, body, status, wanted) = *row;
    let answer = Answer::of(request.body(body)).await;
    assert_eq!(answer.status, status, "{method} {path} {body}: {answer:?}");
    assert!(fits(wanted, &answer.text), "{method} {path} {body}: {} is not {wanted}", answer.text);
    if ![301, 307].contains(&status) {
        assert_eq!(answer.header("x-request-id").len(), 26, "{method} {path}");
    }
    answer
}

async fn all(ports: &Ports, rows: &[Row]) {
    for row in rows {
        let request = ports.call(row.0.parse().unwrap(), row.1);
        let answer = compare(row, request).await;
        let kind = if row.4.is_empty() { "" } else { JSON };
        assert_eq!(answer.header("content-type"), kind, "{} {}", row.0, row.1);
    }
}

const NO_API: &str = r#"{"error":"api not found"}"#;
const FORBIDDEN: &str = r#"{"error":"namespace name contains forbidden characters"}"#;
const FORBIDDEN_QUEUE: &str = r#"{"error":"queue name contains forbidden characters"}"#;
const NONE: &str = r#"{"msg":"no job available"}"#;
const PUBLISHED: &str = r#"{"job_id":"*","msg":"published"}"#;

#[test]
fn a_pattern_fits_what_it_stands_for() {
    assert!(fits(r#"{"id":"*","n":*}"#, r#"{"id":"01AB","n":7}"#) && fits("", ""));
    assert!(!fits(r#"{"id":"*"}"#, r#"{"id":"a b"}"#) && !fits("a*", "a-") && !fits("a", "ab"));
}

#[tokio::test]
async fn a_call_is_found_and_checked_in_the_order_of_lmstfy() {
    let scene = Scene::start().await;
    let long = "q".repeat(256);
    let long: &'static str = Box::leak(format!("/api/n%20s/{long}").into_boxed_str());
    all(
        &scene.ports,
        &[
            ("GET", "/", "", 404, NO_API),
            ("GET", "/api/ns/q/", "", 404, NO_API),
            ("POST", "/api/ns/q", "", 404, NO_API),
            ("OPTIONS", "/api/ns/q", "", 404, NO_API),
            ("PUT", long, "", 400, r#"{"error":"namespace or queue name too long"}"#),
            ("PUT", "/api/n%20s/_q", "", 400, FORBIDDEN),
            ("PUT", "/api/ns/_q", "", 400, FORBIDDEN_QUEUE),
            ("PUT", "/api/ns/q.1?token=nope:x", "", 400, FORBIDDEN_QUEUE),
            ("GET", "/api/ns/_q", "", 404, NONE),
            ("GET", "/api/ns/a%20b", "", 400, FORBIDDEN_QUEUE),
            ("GET", "/api/n%20s/a", "", 400, FORBIDDEN),
            ("GET", "/api/ns/,,", "", 400, r#"{"error":"invalid queue name(s)"}"#),
        ],
    )
    .await;
    let pools: [(&str, Row); 6] = [
        ("nope:x", ("PUT", "/api/ns/q?delay=x", "", 404, r#"{"error":"pool not found"}"#)),
        ("", ("PUT", "/api/ns/q?delay=x", "", 401, r#"{"error":"token not found"}"#)),
        ("other", ("PUT", "/api/ns/q?delay=x", "", 401, r#"{"error":"invalid token"}"#)),
        ("", ("GET", "/api/ns/q/size", "", 200, r#"{"namespace":"ns","queue":"q","size":0}"#)),
        ("", ("GET", "/api/ns/q/deadletter/size", "", 200, r#"{"namespace":"ns","queue":"q","size":0}"#)),
        ("nope:x", ("GET", "/api/ns/q/size", "", 404, r#"{"error":"pool not found"}"#)),
    ];
    for (token, row) in pools {
        compare(&row, scene.ports.call_as(token, row.0.parse().unwrap(), row.1)).await;
    }
    let by_parameter = format!("/api/ns/q?token=:{}", scene.ports.token);
    let answer = Answer::of(scene.ports.call_as("", Method::GET, &by_parameter)).await;
    assert_eq!((answer.status, answer.text.as_str()), (404, NONE));
    let head = Answer::of(scene.ports.call(Method::HEAD, "/api/ns/q")).await;
    assert_eq!(head.status, 404);
}

#[tokio::test]
async fn publishing_answers_as_lmstfy() {
    let scene = Scene::start().await;
    let large: &'static str = Box::leak("x".repeat(1_048_577).into_boxed_str());
    let largest: &'static str = Box::leak("x".repeat(1_048_576).into_boxed_str());
    let many: &'static str = Box::leak(format!("[{}]", vec!["1"; 65].join(",")).into_boxed_str());
    let ids: &'static str =
        Box::leak(format!(r#"{{"job_ids":[{}],"msg":"published"}}"#, ["\"*\""; 3].join(",")).into());
    all(
        &scene.ports,
        &[
            ("PUT", "/api/ns/q?delay=", "", 400, r#"{"error":"invalid delay"}"#),
            ("PUT", "/api/ns/q?delay=-1&ttl=x", "", 400, r#"{"error":"invalid delay"}"#),
            ("PUT", "/api/ns/q?ttl=%2B1&tries=0", "", 400, r#"{"error":"invalid ttl"}"#),
            ("PUT", "/api/ns/q?ttl=4294967296", "", 400, r#"{"error":"invalid ttl"}"#),
            ("PUT", "/api/ns/q?ttl=1&delay=2&tries=0", "", 400, r#"{"error":"ttl is shorter than delay"}"#),
            ("PUT", "/api/ns/q?tries=65536", "", 400, r#"{"error":"invalid tries"}"#),
            ("PUT", "/api/ns/q?tries=0", large, 400, r#"{"error":"tries shouldn't be zero"}"#),
            ("PUT", "/api/ns/q", large, 413, r#"{"error":"body too large"}"#),
            ("PUT", "/api/ns/q", largest, 201, PUBLISHED),
            ("PUT", "/api/ns/q?delay=10&ttl=10&tries=65535", "hello", 201, PUBLISHED),
            ("PUT", "/api/ns/q?ttl=0", "", 201, PUBLISHED),
            ("PUT", "/api/ns/q/bulk?delay=x", "", 400, r#"{"error":"invalid delay"}"#),
            ("PUT", "/api/ns/q/bulk", "{}", 400, r#"{"error":"request body should be an array of objects"}"#),
            (
                "PUT",
                "/api/ns/q/bulk",
                "[1,",
                400,
                r#"{"error":"request body should be an array of objects"}"#,
            ),
            ("PUT", "/api/ns/q/bulk", "[]", 400, r#"{"error":"no jobs"}"#),
            ("PUT", "/api/ns/q/bulk", many, 400, r#"{"error":"too many jobs"}"#),
            ("PUT", "/api/ns/q/bulk", "[{\"a\": 1}, \"b\",null]", 201, ids),
            ("PUT", "/api/ns/q/job/01HXXXXXXXXXXXXXXXXXXXXXXX", "again", 201, PUBLISHED),
        ],
    )
    .await;
    let attributes = |count: usize, version: &str| {
        let request = scene.ports.call(Method::PUT, "/api/ns/q").header("Enable-Job-Version", version);
        (0..count).fold(request, |request, n| request.header(format!("Job-Attr-K{n}"), "v"))
    };
    let row: Row = ("PUT", "/api/ns/q", "", 400, r#"{"error":"too many attributes, cannot exceed 16"}"#);
    compare(&row, attributes(17, "yes")).await;
    compare(&("PUT", "/api/ns/q", "", 201, PUBLISHED), attributes(17, "NO")).await;
    let answer = Answer::of(attributes(16, "YES")).await.with(201);
    let id = answer["job_id"].as_str().unwrap();
    assert!(id.len() == 27 && id.starts_with('1'), "{id}");
}

#[tokio::test]
async fn consuming_looking_and_deleting_answer_as_lmstfy() {
    let scene = Scene::start().await;
    let head = |id: &str| format!(r#"{{"attributes":null,"data":"aGVsbG8+","elapsed_ms":*,"job_id":"{id}","#);
    let tail = |tries: u16| format!(r#""namespace":"ns","queue":"q","remain_tries":{tries},"ttl":*}}"#);
    let id = scene.publish("q", "ttl=10&tries=3", "hello>").await;
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let (seen, one) = (leak(head(&id) + &tail(3)), leak(head(&id) + &tail(0)));
    let taken = leak(format!("{}\"msg\":\"new job\",{}", head(&id), tail(2)));
    let job = leak(format!("/api/ns/q/job/{id}"));
    let other = leak(format!("/api/ns/other/job/{id}"));
    all(
        &scene.ports,
        &[
            ("GET", "/api/ns/q/size", "", 200, r#"{"namespace":"ns","queue":"q","size":1}"#),
            ("GET", "/api/ns/q/peek", "", 200, seen),
            ("GET", job, "", 200, one),
            ("GET", other, "", 404, r#"{"error":"job not found"}"#),
            ("GET", "/api/ns/q?ttr=x&timeout=x", "", 400, r#"{"error":"invalid ttr"}"#),
            ("GET", "/api/ns/q?timeout=&count=x", "", 400, r#"{"error":"invalid timeout"}"#),
            ("GET", "/api/ns/q?count=0", "", 400, r#"{"error":"invalid count"}"#),
            ("GET", "/api/ns/q?count=101", "", 400, r#"{"error":"invalid count"}"#),
            ("GET", "/api/ns/q?freeze_tries=true&ttr=60", "", 200, taken),
            ("GET", "/api/ns/q", "", 404, NONE),
            ("GET", "/api/ns/q?count=10", "", 404, NONE),
            ("GET", "/api/ns/q/size", "", 200, r#"{"namespace":"ns","queue":"q","size":0}"#),
            ("GET", "/api/ns/q/peek", "", 404, r#"{"error":"the queue is empty"}"#),
            ("GET", job, "", 200, one),
            ("DELETE", job, "", 204, ""),
            ("DELETE", job, "", 204, ""),
            ("DELETE", "/api/ns/q/job/x%20y", "", 204, ""),
            ("GET", job, "", 404, r#"{"error":"job not found"}"#),
        ],
    )
    .await;
    scene.publish("q", "", "a").await;
    scene.publish("q", "", "").await;
    let many = scene.get("/api/ns/q?count=5").await;
    assert_eq!(many.text.matches(r#""msg":"new job""#).count(), 2, "{}", many.text);
    assert!(
        many.text.starts_with("[{\"attributes\":null,\"data\":\"YQ==\"")
            && many.text.contains("\"data\":\"\"")
    );
    scene.publish("q", "", "a").await;
    all(
        &scene.ports,
        &[
            ("DELETE", "/api/ns/q", "", 204, ""),
            ("GET", "/api/ns/q/size", "", 200, r#"{"namespace":"ns","queue":"q","size":0}"#),
        ],
    )
    .await;
}

#[tokio::test]
async fn dead_letters_answer_as_lmstfy() {
    let scene = Scene::start().await;
    let _timer = scene.stage.timer();
    let empty = r#"{"deadletter_head":"","deadletter_size":0,"namespace":"ns","queue":"q"}"#;
    all(
        &scene.ports,
        &[
            ("GET", "/api/ns/q/deadletter", "", 200, empty),
            ("PUT", "/api/ns/q/deadletter?limit=0", "", 400, r#"{"error":"invalid limit"}"#),
            ("PUT", "/api/ns/q/deadletter?ttl=-1", "", 400, r#"{"error":"invalid ttl"}"#),
            ("PUT", "/api/ns/q/deadletter?limit=x&ttl=x", "", 400, r#"{"error":"invalid limit"}"#),
            ("DELETE", "/api/ns/q/deadletter?limit=-1", "", 400, r#"{"error":"invalid limit"}"#),
            ("PUT", "/api/ns/q/deadletter", "", 200, r#"{"count":0,"msg":"respawned"}"#),
            ("DELETE", "/api/ns/q/deadletter", "", 204, ""),
        ],
    )
    .await;
    let ids = [
        scene.publish("q", "tries=1", "1").await,
        scene.publish("q", "tries=1", "2").await,
        scene.publish("q", "tries=1", "3").await,
    ];
    scene.let_die("q", 3).await;
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let head = leak(format!(
        r#"{{"deadletter_head":"{}","deadletter_size":3,"namespace":"ns","queue":"q"}}"#,
        ids[0]
    ));
    let job = leak(format!("/api/ns/q/job/{}", ids[0]));
    let dead = leak(format!(
        r#"{{"attributes":null,"data":"MQ==","elapsed_ms":*,"job_id":"{}","namespace":"ns","queue":"q","remain_tries":0,"ttl":0}}"#,
        ids[0]
    ));
    let alive = leak(dead.replace(r#""remain_tries":0,"ttl":0"#, r#""remain_tries":1,"ttl":*"#));
    all(
        &scene.ports,
        &[
            ("GET", "/api/ns/q/deadletter", "", 200, head),
            ("GET", "/api/ns/q/deadletter/size", "", 200, r#"{"namespace":"ns","queue":"q","size":3}"#),
            ("GET", job, "", 200, dead),
            ("PUT", "/api/ns/q/deadletter?ttl=50", "", 200, r#"{"count":1,"msg":"respawned"}"#),
            ("GET", "/api/ns/q/peek", "", 200, alive),
            ("DELETE", "/api/ns/q/deadletter?limit=1", "", 204, ""),
            ("GET", "/api/ns/q/deadletter/size", "", 200, r#"{"namespace":"ns","queue":"q","size":1}"#),
            ("PUT", "/api/ns/q/deadletter?limit=100&ttl=0", "", 200, r#"{"count":1,"msg":"respawned"}"#),
            ("GET", "/api/ns/q/deadletter/size", "", 200, r#"{"namespace":"ns","queue":"q","size":0}"#),
            ("GET", "/api/ns/q/size", "", 200, r#"{"namespace":"ns","queue":"q","size":2}"#),
        ],
    )
    .await;
}

#[tokio::test]
async fn the_admin_api_answers_as_lmstfy() {
    let scene = Scene::start().await;
    scene.publish("q", "", "x").await;
    let text = "text/plain";
    let own = "/token/n2/01234567890123456789/limit";
    let rows: &[(Row, &str)] = &[
        (("GET", "/nothing", "", 404, "404 page not found"), text),
        (("POST", "/pools", "", 404, "404 page not found"), text),
        (
            ("GET", "/pools/", "", 301, "<a href=\"/pools\">Moved Permanently</a>.\n\n"),
            "text/html; charset=utf-8",
        ),
        (("GET", "/pools", "", 200, "[\n    \"default\"\n]"), JSON),
        (("GET", "/info", "", 200, "{\n    \"ns\": [\n        \"q\"\n    ]\n}"), text),
        (("GET", "/info?pool=nope", "", 200, ""), ""),
        (("GET", "/token/n2?pool=nope", "", 400, r#"{"error":"the pool was not exists"}"#), JSON),
        (("GET", "/token/n2", "", 200, "{\n    \"tokens\": {}\n}"), JSON),
        (("POST", "/token/n2", "", 400, r#"{"error":"invalid description"}"#), JSON),
        (
            (
                "POST",
                "/token/n2?description=d&token=short",
                "",
                400,
                r#"{"error":"the user token was too short"}"#,
            ),
            JSON,
        ),
        (("POST", "/token/n%202?description=d", "", 400, FORBIDDEN), JSON),
        (
            (
                "POST",
                "/token/n2?description=d&token=nope:01234567890123456789",
                "",
                400,
                r#"{"error":"the pool was not exists"}"#,
            ),
            JSON,
        ),
        (
            (
                "POST",
                "/token/n2?description=d&token=01234567890123456789",
                "",
                201,
                "{\n    \"token\": \"01234567890123456789\"\n}",
            ),
            JSON,
        ),
        (
            (
                "POST",
                "/token/n2?description=d&token=01234567890123456789",
                "",
                400,
                r#"{"error":"the token has already existed"}"#,
            ),
            JSON,
        ),
        (("POST", "/token/n2?description=d", "", 201, "{\n    \"token\": \"*\"\n}"), JSON),
        (("GET", own, "", 404, "null"), JSON),
        (("POST", own, "{\"read\":", 400, r#"{"error":{"Offset":8}}"#), "text/plain; charset=utf-8"),
        (("POST", own, "{}", 400, r#"{"limiter":{"read":0,"write":0,"interval":0}}"#), JSON),
        (("POST", own, "{\"read\":1}", 400, r#"{"error":"interval should be \u003e 0"}"#), JSON),
        (
            (
                "POST",
                own,
                "{\"interval\":60,\"read\":1}",
                201,
                r#"{"limiter":{"read":1,"write":0,"interval":60}}"#,
            ),
            JSON,
        ),
        (
            (
                "POST",
                own,
                "{\"interval\":60,\"read\":1}",
                500,
                r#"{"error":"throttler token(01234567890123456789) has already exists"}"#,
            ),
            JSON,
        ),
        (
            (
                "PUT",
                own,
                "{\"interval\":60,\"read\":1,\"write\":5}",
                200,
                r#"{"limiter":{"read":1,"write":5,"interval":60}}"#,
            ),
            JSON,
        ),
        (("GET", own, "", 200, r#"{"read":1,"write":5,"interval":60}"#), JSON),
        (("DELETE", own, "", 200, r#"{"msg":"success"}"#), JSON),
        (("GET", "/limits", "", 200, "[]"), JSON),
        (("DELETE", "/token/n2/01234567890123456789", "", 204, ""), ""),
        (("DELETE", "/token/n2/01234567890123456789", "", 204, ""), ""),
        (("GET", "/accesslog", "", 200, r#"{"status":"disabled"}"#), JSON),
        (("POST", "/accesslog", "", 400, r#"{"error":"invalid status"}"#), JSON),
        (("POST", "/accesslog?status=enable", "", 200, r#"{"status":"enabled"}"#), JSON),
        (("POST", "/accesslog?status=disable", "", 200, r#"{"status":"disabled"}"#), JSON),
    ];
    for (row, kind) in rows {
        let answer = compare(row, scene.ports.admin(row.0.parse().unwrap(), row.1)).await;
        assert_eq!(answer.header("content-type"), *kind, "{} {}", row.0, row.1);
        if row.3 == 301 {
            assert_eq!((answer.header("location"), answer.header("x-request-id")), ("/pools", ""));
        }
    }
    let version = Answer::of(scene.ports.admin(Method::GET, "/version")).await;
    let keys: Vec<String> = version.with(200).as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["build_commit", "build_date", "version"]);
    let metrics = Answer::of(scene.ports.admin(Method::GET, "/metrics")).await;
    for line in [
        "infra_lmstfy_redis_publish_jobs{pool=\"default\"} 1\n",
        "infra_lmstfy_redis_publish_queue_jobs{pool=\"default\",namespace=\"ns\",queue=\"q\"} 1\n",
        "infra_lmstfy_redis_queue_sizes{pool=\"default\",namespace=\"ns\",queue=\"q\"} 1\n",
        "infra_lmstfy_redis_timer_sizes{pool=\"default\"} 0\n",
    ] {
        assert!(metrics.text.contains(line), "{}", metrics.text);
    }
}

#[tokio::test]
async fn an_account_is_asked_for_where_there_are_accounts() {
    let mut stage = crate::stage::Stage::start(
        "[lmstfy]\nenabled = true\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\naccounts = { boss = \"secret\" }\n",
    )
    .await;
    let line = stage.gateway.process.wait_for_line("lmstfy listening", delayq_tests::deadline::SHORT).await;
    let logged: serde_json::Value = serde_json::from_str(&line).unwrap();
    let url = |path: &str| format!("http://{}{path}", logged["admin"].as_str().unwrap());
    let client = reqwest::Client::new();
    let refused = Answer::of(client.get(url("/token/ns"))).await;
    assert_eq!((refused.status, refused.text.as_str()), (401, ""));
    assert_eq!(refused.header("www-authenticate"), "Basic realm=\"Authorization Required\"");
    assert_eq!(Answer::of(client.get(url("/token/ns")).basic_auth("boss", Some("wrong"))).await.status, 401);
    assert_eq!(Answer::of(client.get(url("/token/ns")).basic_auth("boss", Some("secret"))).await.status, 200);
    assert_eq!(Answer::of(client.get(url("/pools"))).await.status, 200);
}
