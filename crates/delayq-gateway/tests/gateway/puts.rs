//! Putting one message.

use super::stage::{Answer, Stage, topic};
use delayq::{Target, UnixMillis};
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn a_put_in_json_is_the_line_of_put_from() {
    let stage = Stage::start("").await;
    let body =
        json!({ "due": "+1h", "payload": { "order": 17 }, "headers": { "a": "b" }, "max_attempts": 3 });
    let path = "/v1/topics/orders/messages/order-17";
    let put = stage.gateway.put(path, &body).await;
    assert_eq!(put.with(201)["outcome"], "stored");
    assert_eq!(put.header("location"), path);
    let found =
        stage.deployment.admin.topic(&topic("orders")).get(&target("order-17")).await.unwrap().unwrap();
    let envelope = found.envelope.unwrap();
    assert_eq!((envelope.payload.as_slice(), envelope.max_attempts), (&br#"{"order":17}"#[..], 3));
    assert_eq!(envelope.headers, [("a".to_owned(), "b".to_owned())]);
    assert_eq!(stage.gateway.put(path, &body).await.with(200)["outcome"], "exists");
    let body = json!({ "due": envelope.due.get(), "payload": { "order": 18 } });
    assert_eq!(stage.gateway.put(path, &body).await.with(409)["outcome"], "conflict");
}

fn target(id: &str) -> Target {
    Target { id: id.parse().unwrap(), group: None }
}

#[tokio::test]
async fn a_repeat_is_recognised_and_another_message_under_the_key_is_not() {
    let stage = Stage::start("").await;
    let post = async |payload: &'static str| {
        let request = stage.gateway.request(Method::POST, "/v1/topics/orders/messages");
        let request =
            request.header("idempotency-key", "\"k 1\"").header("delayq-due", "2099-01-01T00:00:00Z");
        Answer::of(request.header("content-type", "text/plain").body(payload)).await
    };
    let first = post("one").await;
    assert_eq!(
        (&first.with(201)["id"], first.header("location")),
        (&json!("k 1"), "/v1/topics/orders/messages/k%201")
    );
    let repeat = post("one").await.with(200);
    assert_eq!((&repeat["outcome"], &repeat["state"]), (&json!("exists"), &json!("delayed")));
    let other = post("two").await.with(422);
    assert_eq!(
        (&other["outcome"], &other["errors"][0]["pointer"]),
        (&json!("conflict"), &json!("idempotency-key"))
    );
}

#[tokio::test]
async fn any_other_body_is_the_payload_and_headers_describe_the_message() {
    let stage = Stage::start("").await;
    let request = stage.gateway.request(Method::PUT, "/v1/topics/a%2Fb/messages/x%2Fy");
    let request = request.header("content-type", "image/png").header("delayq-header-trace", "4b");
    let request = request.header("delayq-group", "g").header("delayq-max-attempts", "2");
    let request = request.header("delayq-backoff", "5s").header("delayq-expires", "2100-01-01T00:00:00Z");
    let request = request.header("delayq-due", "2099-01-01T00:00:00Z");
    Answer::of(request.body(vec![0_u8, 255])).await.with(201);
    let target = Target { group: Some("g".parse().unwrap()), ..target("x/y") };
    let found = stage.deployment.admin.topic(&topic("a/b")).get(&target).await.unwrap().unwrap();
    let envelope = found.envelope.unwrap();
    assert_eq!((envelope.payload.as_slice(), envelope.max_attempts), (&[0, 255][..], 2));
    assert_eq!(envelope.due, UnixMillis::new(4_070_908_800_000));
    let headers = [("content-type", "image/png"), ("trace", "4b")].map(|(n, v)| (n.to_owned(), v.to_owned()));
    assert_eq!(envelope.headers, headers);
    let lasting = stage.gateway.request(Method::PUT, "/v1/topics/t/messages/lasts");
    let lasting = lasting.header("delayq-due", "+1h").header("delayq-expire-after", "10m");
    Answer::of(lasting.body("x")).await.with(201);
    let lasting = stage.gateway.get("/v1/topics/t/messages/lasts").await.with(200);
    assert_eq!(lasting["expires_ms"].as_u64(), lasting["due_ms"].as_u64().map(|due| due + 600_000));
    let later = stage.gateway.request(Method::PUT, "/v1/topics/a%2Fb/messages/x%2Fy?group=g");
    let later = later.header("content-type", "image/png").header("delayq-due", "2098-01-01T00:00:00Z");
    let again = later.header("delayq-replace", "true").header("delayq-again", "later keep");
    let again = Answer::of(again.body("new")).await.with(200);
    assert_eq!((&again["outcome"], &again["due_ms"]), (&json!("again"), &json!(4_070_908_800_000_u64)));
    let payload = stage.gateway.get("/v1/topics/a%2Fb/messages/x%2Fy/payload?group=g").await;
    assert_eq!((payload.status, payload.header("content-type")), (200, "image/png"));
    assert_eq!(
        (payload.header("x-content-type-options"), payload.header("content-disposition")),
        ("nosniff", "attachment")
    );
}

#[tokio::test]
async fn a_throttled_put_is_ready_at_once_and_then_due_a_window_after_the_last_delivery() {
    let stage = Stage::start("").await;
    let put = async |again: &str| {
        let body = json!({ "payload": again, "replace": true, "again": again });
        stage.gateway.put("/v1/topics/t/messages/a", &body).await
    };
    assert_eq!(put("throttle=30000").await.with(201)["outcome"], "ready");
    assert_eq!(put("throttle=30000 keep").await.with(200)["outcome"], "again");
    assert_eq!(put("swallow=30000").await.with(200)["outcome"], "exists", "pending");
    let reserve = json!({ "topics": ["t"], "lease": "10m" });
    let taken = stage.gateway.post("/v1/reserve", &reserve).await.with(200)["messages"][0].clone();
    assert_eq!(taken["payload"], "throttle=30000");
    assert_eq!(put("swallow=30000").await.with(200)["state"], "leased");
    let leased = stage.gateway.get("/v1/topics/t/messages/a").await.with(200);
    assert_eq!((&leased["state"], &leased["has_successor"]), (&json!("leased"), &json!(false)));
    let ack = json!([{ "receipt": taken["receipt"], "do": "ack" }]);
    stage.gateway.post("/v1/settle", &ack).await.with(200);
    assert_eq!(put("swallow=30000").await.with(200)["state"], "delivered");
    let behind = put("throttle=30000").await.with(200);
    assert_eq!((&behind["outcome"], &behind["state"]), (&json!("again"), &json!("delivered")));
    assert_eq!(behind["due_ms"].as_u64(), taken["due_ms"].as_u64().map(|due| due + 30_000));
    let pending = stage.gateway.get("/v1/topics/t/messages/a").await.with(200);
    assert_eq!((&pending["state"], &pending["due_ms"]), (&json!("delayed"), &behind["due_ms"]));
    for again in ["throttle=60001", "swallow=60001"] {
        let refused = put(again).await.with(422);
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains("60001 ms") && detail.contains("remember_own_ms"), "{detail}");
    }
    let body = json!({ "payload": 1, "replace": true, "again": "throttle=30000" });
    let nameless = stage.gateway.post("/v1/topics/t/messages", &body).await.with(422);
    assert!(nameless["detail"].as_str().unwrap().contains("needs an id of your own"), "{nameless}");
}

#[tokio::test]
async fn a_due_time_is_spread_by_the_id_wherever_the_request_names_both() {
    let stage = Stage::start("").await;
    let due = |put: &Answer| put.with(201)["due_ms"].as_u64().unwrap();
    let spread = json!({ "due": 1_796_094_000_000_u64, "between": "09:00-10:00 Europe/Berlin" });
    let path = |topic: &str| format!("/v1/topics/{topic}/messages/order-17");
    assert_eq!(due(&stage.gateway.put(&path("a"), &spread).await), 1_796_113_612_411);
    let by_headers = async |method: Method, path: &str, headers: &[(&str, &str)]| {
        let request = stage.gateway.request(method, path).header("content-type", "text/plain").body("x");
        let request = request.header("delayq-due", "1796094000000");
        Answer::of(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
    };
    let window = [("delayq-between", "09:00-10:00 Europe/Berlin")];
    assert_eq!(due(&by_headers(Method::PUT, &path("b"), &window).await), 1_796_113_612_411);
    let jitter = [("delayq-jitter", "1h"), ("idempotency-key", "order-17")];
    let jittered = by_headers(Method::POST, "/v1/topics/c/messages", &jitter).await;
    assert_eq!(due(&jittered), 1_796_094_000_000 + 1_612_411);
    let both = by_headers(Method::PUT, &path("d"), &[window[0], jitter[0]]).await;
    assert!(both.with(422)["detail"].as_str().unwrap().contains("delayq-between"), "{both:?}");
}

#[tokio::test]
async fn what_nobody_reads_is_refused_by_name() {
    let stage = Stage::start("").await;
    let path = "/v1/topics/t/messages/a";
    for (query, header, body, status, names) in [
        ("?grupo=g", None, r#"{"payload":1}"#, 400, "grupo"),
        ("?group=g&group=h", None, "{}", 400, "group"),
        ("", Some(("delayq-dew", "+1h")), "{}", 400, "delayq-dew"),
        ("", Some(("if-match", "\"x\"")), "{}", 422, "if-match"),
        ("", Some(("if-none-match", "\"1-1\"")), "{}", 422, "if-none-match"),
        ("", Some(("if-none-match", "*")), r#"{"replace":true}"#, 422, "if-none-match"),
        ("", Some(("if-modified-since", "x")), "{}", 400, "if-modified-since"),
        ("", Some(("idempotency-key", "x")), "{}", 400, "idempotency-key"),
        ("", Some(("delayq-due", "+1h")), "{}", 422, "delayq-due"),
        ("", Some(("delayq-again", "later")), "{}", 422, "delayq-again"),
        ("", Some(("delayq-expire-after", "1m")), "{}", 422, "delayq-expire-after"),
        ("", None, r#"{"expire_after":"10"}"#, 422, "expire_after"),
        ("", None, r#"{"expires":4102444800000,"expire_after":"1m"}"#, 422, "expire_after"),
        ("", Some(("delayq-deadline", "61s")), "{}", 422, "delayq-deadline"),
        ("", None, r#"{"dew":"+1h"}"#, 422, "dew"),
        ("", None, r#"{"id":"b"}"#, 422, "id"),
        ("", None, r#"{"topic":"u"}"#, 422, "topic"),
        ("?group=g", None, r#"{"group":"h"}"#, 422, "group"),
        ("", None, r#"{"due":"09:00"}"#, 422, "due"),
        ("", None, r#"{"due":1800000000}"#, 422, "due"),
        ("?past_ok=maybe", None, "{}", 422, "past_ok"),
        ("", None, "{", 400, "JSON"),
    ] {
        let request = stage.gateway.request(Method::PUT, &format!("{path}{query}"));
        let request =
            request.header("content-type", "application/json").header("x-request-id", "r-1").body(body);
        let request = header.into_iter().fold(request, |request, (name, value)| request.header(name, value));
        let answer = Answer::of(request).await;
        let problem = answer.with(status);
        assert!(problem["detail"].as_str().unwrap().contains(names), "{query} {header:?} {body}: {problem}");
        assert_eq!((&problem["instance"], answer.header("x-request-id")), (&json!("r-1"), "r-1"));
        assert_eq!(answer.header("content-type"), "application/problem+json");
    }
    assert_eq!(stage.deployment.admin.topics().await.unwrap(), []);
    stage.gateway.put(&format!("{path}?past_ok=true"), &json!({ "due": 1_800_000_000_u64 })).await.with(201);
}

#[tokio::test]
async fn an_empty_segment_and_an_unknown_path_are_refused() {
    let stage = Stage::start("").await;
    for (path, status) in [
        ("/v1/topics//messages/a", 422),
        ("/v1/topics/t/messages/%00", 422),
        ("/v1/topics/%ff/messages/a", 400),
        ("/v2/topics", 404),
        ("/page/none.js", 404),
    ] {
        let problem = stage.gateway.get(path).await.with(status);
        assert_eq!(problem["status"], status, "{path}");
    }
    let answer = stage.gateway.delete("/v1/reserve").await;
    assert_eq!((answer.header("allow"), &answer.with(405)["code"]), ("POST", &json!("DQ-G106")));
}

#[tokio::test]
async fn a_conditional_put_stores_only_over_what_was_seen_or_over_nothing() {
    let stage = Stage::start("").await;
    let path = "/v1/topics/t/messages/a";
    let put = async |(name, value): (&'static str, &str), payload: u32| {
        let request = stage.gateway.request(Method::PUT, path).header(name, value);
        Answer::of(request.json(&json!({ "due": "2099-01-01T00:00:00Z", "payload": payload }))).await
    };
    let seen = async || stage.gateway.get(&format!("{path}?payload=text")).await;
    let (only_new, only_there) = (("if-none-match", "*"), ("if-match", "*"));

    assert_eq!(put(only_there, 1).await.with(412)["outcome"], "unknown");
    assert_eq!(put(("if-match", "\"1-1\""), 1).await.with(412)["outcome"], "unknown");
    assert_eq!(put(only_new, 1).await.with(201)["outcome"], "stored");
    for (payload, outcome) in [(1, "exists"), (2, "conflict")] {
        let refused = put(only_new, payload).await.with(412);
        assert_eq!((&refused["code"], &refused["outcome"]), (&json!("DQ-G111"), &json!(outcome)));
        assert_eq!(refused["tag"], seen().await.with(200)["tag"]);
    }

    let etag = seen().await.header("etag").to_owned();
    assert_eq!(put(("if-match", &etag), 2).await.with(200)["outcome"], "again");
    assert_eq!(put(("if-match", &etag), 2).await.with(200)["outcome"], "again", "a repeat");
    let (stale, now) = (put(("if-match", &etag), 3).await.with(412), seen().await.with(200));
    assert_eq!(
        (&stale["outcome"], &stale["tag"], &now["payload"]),
        (&json!("changed"), &now["tag"], &json!("2"))
    );
    assert_eq!(put(only_there, 4).await.with(200)["outcome"], "again");

    stage.gateway.post(&format!("{path}/bury"), &json!({ "reason": "x" })).await.with(200);
    let dead = format!("\"{}\"", seen().await.with(200)["tag"].as_str().unwrap());
    assert_eq!(put(("if-match", &etag), 5).await.with(412)["state"], "dead");
    assert_eq!(put(("if-match", &dead), 5).await.with(201)["outcome"], "stored");
    assert_eq!(seen().await.with(200)["payload"], "5");

    let both = stage.gateway.request(Method::PUT, path).header("if-match", "*").header("if-none-match", "*");
    assert_eq!(Answer::of(both.json(&json!({}))).await.with(422)["errors"][0]["pointer"], "if-none-match");
}
