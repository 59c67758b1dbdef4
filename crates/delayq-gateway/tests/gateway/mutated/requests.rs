//! The requests that are mutated, at least one for each route.

use delayq_gateway::generated;
use serde_json::Value;

const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";

/// Method, path, content type and body.
pub(super) type Asked = (&'static str, &'static str, &'static str, &'static str);

/// Requests of the native API.
pub(super) const NATIVE: &[Asked] = &[
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
    ("PUT", "/v1/topics/t/messages/f", "text/plain\r\nIf-Match: \"17-4070908800000-0a\"", "x"),
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
    ("POST", "/v1/topics/t/messages/b/bury", JSON, r#"{"reason":"r"}"#),
    ("POST", "/v1/bury", JSON, r#"[{"topic":"t","id":"b","reason":"r","tag":"17-4070908800000"}]"#),
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
    ("GET", "/v1/topics/t", "", ""),
    ("POST", "/v1/topics/u/resume?group=g", "", ""),
    ("GET", "/v1/topics/t/policy", "", ""),
    ("PUT", "/v1/topics/t/policy", JSON, r#"{"lease":"1m","max_attempts":5}"#),
    ("GET", "/v1/operations", "", ""),
    ("DELETE", "/v1/operations/00000000000000000000000000000000", "", ""),
    ("DELETE", "/v1/session", "", ""),
    ("GET", "/v1/session", "", ""),
    ("POST", "/v1/session/oidc", JSON, "{}"),
    ("GET", "/v1/stream", "text/plain\r\nConnection: Upgrade\r\nUpgrade: websocket", ""),
    ("GET", "/v1/openapi.json", "", ""),
    ("POST", "/v1/topic/message/get", JSON, r#"{"topic":"..","id":".","group":"g","payload":"base64"}"#),
    ("POST", "/v1/topic/message/payload/get", JSON, r#"{"topic":"t","id":"a","group":"g"}"#),
    ("POST", "/v1/topic/message/history/get", JSON, r#"{"topic":"t","id":"a","group":"g"}"#),
    ("POST", "/v1/topic/message/delete", JSON, r#"{"topic":"t","id":"c"}"#),
    (
        "POST",
        "/v1/topic/message/reschedule",
        JSON,
        r#"{"topic":"t","id":"b","due":"2099-01-01T00:00:00Z","expected_due":4070908800000,"past_ok":true}"#,
    ),
    ("POST", "/v1/topic/message/replay", JSON, r#"{"topic":"t","id":"b","delay":"1h"}"#),
    ("POST", "/v1/topic/message/bury", JSON, r#"{"topic":"t","id":"b","reason":"r"}"#),
    (
        "POST",
        "/v1/topic/messages/get",
        JSON,
        r#"{"topic":"t","state":"delayed","from":"2020-01-01T00:00:00Z","to":4070908800000,"limit":10,"header":"h:v"}"#,
    ),
    ("POST", "/v1/group/messages/get", JSON, r#"{"group":"g","topic":"t","limit":5,"after":"x"}"#),
    ("POST", "/v1/group/cancel", JSON, r#"{"group":"g","topic":"t"}"#),
    ("POST", "/v1/group/shift", JSON, r#"{"group":"g","by":"10m","token":"once"}"#),
    ("POST", "/v1/group/promote", JSON, r#"{"group":"g","max":10,"to":"2099-01-01T00:00:00Z"}"#),
    ("POST", "/v1/topic/promote", JSON, r#"{"topic":"t","from":4070908800000,"max":5}"#),
    ("POST", "/v1/topic/get", JSON, r#"{"topic":"t"}"#),
    ("POST", "/v1/topic/delete", JSON, r#"{"topic":"u"}"#),
    (
        "POST",
        "/v1/topic/histogram/get",
        JSON,
        r#"{"topic":"t","from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z","width":"15m"}"#,
    ),
    ("POST", "/v1/topic/horizon/get", JSON, r#"{"topic":"t","group":"g"}"#),
    ("POST", "/v1/topic/pause", JSON, r#"{"topic":"u","group":"g"}"#),
    ("POST", "/v1/topic/resume", JSON, r#"{"topic":"u","group":"g"}"#),
    ("PUT", "/v1/topic/rate", JSON, r#"{"topic":"u","rate":100.5}"#),
    ("POST", "/v1/topic/policy/get", JSON, r#"{"topic":"t"}"#),
    ("PUT", "/v1/topic/policy", JSON, r#"{"topic":"t","lease":"1m","max_attempts":5}"#),
    ("PATCH", "/v1/topic/policy", JSON, r#"{"topic":"t","backoff":"1s..1m","history":10}"#),
    ("GET", "/?once=x", "", ""),
];

/// Requests for operators, whom no tenant limits.
pub(super) const OPERATOR: &[Asked] = &[
    ("GET", "/v1/status", "", ""),
    ("GET", "/v1/shards", "", ""),
    ("GET", "/v1/timers", "", ""),
    ("GET", "/v1/processes", "", ""),
    ("GET", "/v1/actions?limit=10&after=1-1", "", ""),
    ("DELETE", "/v1/sessions?person=ann%40example.com", "", ""),
    ("DELETE", "/v1/sessions?token_name=desk", "", ""),
    ("GET", "/v1/tenants", "", ""),
    ("PUT", "/v1/tenants/initech", JSON, r#"{"puts_per_second":500,"pending":1000000,"bytes":8388608}"#),
    ("DELETE", "/v1/tenants/initech", "", ""),
    ("GET", "/v1/tenants/initech/tokens", "", ""),
    (
        "POST",
        "/v1/tenants/initech/tokens",
        JSON,
        r#"{"name":"n","rights":["read","put"],"until":"2099-01-01T00:00:00Z"}"#,
    ),
    ("POST", "/v1/tenants/initech/tokens/0123456789abcdef/rotate", JSON, r#"{"overlap":"1h"}"#),
    ("DELETE", "/v1/tenants/initech/tokens/0123456789abcdef", "", ""),
];

/// Requests of lmstfy's admin port.
pub(super) const LMSTFY_ADMIN: &[Asked] = &[
    ("GET", "/info?pool=default", "", ""),
    ("GET", "/version", "", ""),
    ("GET", "/metrics", "", ""),
    ("GET", "/pools", "", ""),
    ("GET", "/token/ops?pool=default", "", ""),
    ("POST", "/token/ops?description=d&token=01M8NTTNZR56XG1AT6H0000000", "", ""),
    ("POST", "/token/ops", "application/x-www-form-urlencoded", "description=d&pool=default"),
    ("DELETE", "/token/ops/01M8NTTNZR56XG1AT6H0000000", "", ""),
    ("GET", "/token/ops/01M8NTTNZR56XG1AT6H0000000/limit", "", ""),
    ("POST", "/token/ops/01M8NTTNZR56XG1AT6H0000000/limit", JSON, r#"{"read":1,"write":2,"interval":3}"#),
    ("PUT", "/token/ops/01M8NTTNZR56XG1AT6H0000000/limit", JSON, r#"{"read":1,"write":2,"interval":3}"#),
    ("DELETE", "/token/ops/01M8NTTNZR56XG1AT6H0000000/limit", "", ""),
    ("GET", "/limits?force_update=1", "", ""),
    ("GET", "/debug/pprof/heap", "", ""),
    ("GET", "/accesslog", "", ""),
    ("POST", "/accesslog?status=enable", "", ""),
    ("POST", "/accesslog?status=disable", "", ""),
];

/// Requests of lmstfy's API.
pub(super) const LMSTFY: &[Asked] = &[
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

#[test]
fn every_route_of_the_document_is_mutated() {
    let document: Value = serde_json::from_str(&generated()).unwrap();
    let segments = |path: &str| -> Vec<String> {
        let path = path.split('?').next().unwrap_or_default();
        path.split('/').map(str::to_owned).collect()
    };
    let is_of = |asked: &Asked, method: &str, pattern: &str| {
        let (path, pattern) = (segments(asked.1), segments(pattern));
        asked.0.eq_ignore_ascii_case(method)
            && path.len() == pattern.len()
            && path.iter().zip(&pattern).all(|(one, of)| one == of || of.starts_with('{'))
    };
    let all: Vec<&Asked> = NATIVE.iter().chain(OPERATOR).collect();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            assert!(all.iter().any(|asked| is_of(asked, method, path)), "{method} {path} is in no request");
        }
    }
}
