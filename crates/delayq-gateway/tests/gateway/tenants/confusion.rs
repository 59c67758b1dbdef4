//! Random calls of a tenant over every route, with the names, ids, receipts and cursors of another tenant: no call gets through.

use super::{Holder, holder, stage};
use crate::stage::{Answer, Stage};
use crate::streams::StreamClient;
use delayq::admin::{ListState, Listed, Listing, TimeRange};
use delayq::{Group, Topic};
use delayq_tests::deadline::{LONG, wait_until};
use fastrand::Rng;
use futures_util::{StreamExt as _, stream};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const CALLS: usize = 10_000;
const AT_ONCE: usize = 16;
const STREAMS: usize = 50;
/// In each, behind the first.
const FRAMES: usize = 50;

/// In payloads, headers and reasons of the other tenant, and in no call of the attacker.
const SECRET: &str = "canary-of-globex";
const SECRET_BASE64: &str = "Y2FuYXJ5LW9mLWdsb2JleA==";
/// The day of every due time of the other tenant.
const DAY: &str = "2077-07-07T";

/// Names of the other tenant, names in Redis, and twists of both.
const TOPICS: [&str; 14] = [
    "vault",
    "ready",
    "held",
    "globex/vault",
    "../globex/vault",
    "/globex/vault",
    "acme/../globex/vault",
    "globex//vault",
    "globex%2Fvault",
    "~odd-globex%2fvault",
    "~odd-%67lobex%2fvault%20",
    "GLOBEX/vault",
    "..",
    "plain",
];
const GROUPS: [&str; 8] = [
    "team",
    "globex/team",
    "../globex/team",
    "/globex/team",
    "globex\u{2215}team",
    "acme/globex/team",
    "plain",
    "*",
];
const IDS: [&str; 6] =
    ["one", "two", "buried", "~one", "globex/one", "~0190a000-0000-7003-8000-000000000001"];
const SETTLEMENTS: [&str; 4] = ["ack", "release", "bury", "extend"];
const MESSAGE_ROUTES: [&str; 7] = [
    "getMessage",
    "getPayload",
    "getHistory",
    "cancelMessage",
    "rescheduleMessage",
    "replayMessage",
    "buryMessage",
];
const METHODS: [&str; 5] = ["get", "put", "post", "patch", "delete"];

struct Operation {
    name: String,
    method: Method,
    path: String,
}

/// Receipts, cursors and operations of the other tenant, and of nobody.
struct Loot {
    receipts: Vec<Value>,
    cursors: Vec<String>,
    operations: Vec<String>,
}

/// All messages, policies and counts without a tenant, and of the other tenant.
async fn everything(stage: &Stage) -> (Vec<Listed>, Vec<String>) {
    let admin = &stage.deployment.admin;
    let is_other = |topic: &Topic| !topic.as_str().starts_with("acme/");
    let topics: Vec<Topic> = admin.topics().await.unwrap().into_iter().filter(is_other).collect();
    let (mut all, mut rest) = (Vec::new(), Vec::new());
    for topic in &topics {
        let states = [
            ListState::Delayed,
            ListState::Ready,
            ListState::Leased,
            ListState::Dead { newest_first: false },
        ];
        for state in states {
            all.extend(admin.topic(topic).list(state, TimeRange::ALL, 100).await.unwrap());
        }
        rest.push(format!("{topic} {:?}", admin.topic(topic).policy().await.unwrap()));
        rest.push(format!("{:?}", admin.topic(topic).count().await.unwrap()));
    }
    for group in ["globex/team", "plain"] {
        let group = Group::new(group).unwrap();
        let listing = Listing::Group { group: &group, topic: None };
        all.extend(admin.page(listing, None, 100).await.unwrap().messages);
    }
    (all, rest)
}

/// Puts messages in every state, also without a tenant; returns the loot.
async fn furnish(stage: &Stage) -> Loot {
    let (globex, root) = (holder(stage, "globex"), holder(stage, "root"));
    let headers = json!({ "note": SECRET });
    for (owner, topic, group) in [(globex, "vault", "team"), (root, "plain", "plain")] {
        for id in ["one", "two"] {
            let message = json!({ "due": format!("{DAY}00:00:00Z"), "payload": SECRET, "headers": headers, "group": group });
            owner.put(&format!("/v1/topics/{topic}/messages/{id}"), message.clone()).await.with(201);
            let mut alone = message;
            alone["group"] = Value::Null;
            owner.put(&format!("/v1/topics/{topic}/messages/{id}"), alone).await.with(201);
        }
    }
    for topic in ["ready", "held", "held"] {
        globex
            .post(&format!("/v1/topics/{topic}/messages"), json!({ "payload": SECRET, "headers": headers }))
            .await
            .with(201);
    }
    let taken = globex.reserve("held").await;
    let bury = json!([{ "receipt": taken[0]["receipt"], "do": "bury", "reason": SECRET }]);
    globex.post("/v1/settle", bury).await.with(200);
    globex.put("/v1/topics/vault/policy", json!({ "lease": "77s" })).await.with(200);
    let page = globex.get("/v1/topics/vault/messages?limit=1").await.with(200);
    let cursors = vec![page["next"].as_str().unwrap().to_owned()];
    let mut operations = Vec::new();
    for owner in [globex, root] {
        let body = json!({ "action": "cancel", "filter": { "topics": ["none"] }, "reason": SECRET });
        let begun = owner.post("/v1/operations", body).await.with(202);
        operations.push(begun["id"].as_str().unwrap().to_owned());
    }
    Loot { operations, receipts: taken.iter().map(|message| message["receipt"].clone()).collect(), cursors }
}

async fn operations(stage: &Stage) -> Vec<Operation> {
    let document = stage.gateway.get("/v1/openapi.json").await.with(200);
    let mut all = Vec::new();
    for (path, of_path) in document["paths"].as_object().unwrap() {
        for method in METHODS.into_iter().filter(|method| of_path.get(method).is_some()) {
            let name = of_path[method]["operationId"].as_str().unwrap().to_owned();
            all.push(Operation { name, method: method.to_uppercase().parse().unwrap(), path: path.clone() });
        }
    }
    all
}

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.usize(..from.len())]
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn path(rng: &mut Rng, operation: &Operation, loot: &Loot) -> String {
    let receipts: Vec<&str> = loot.receipts.iter().filter_map(Value::as_str).collect();
    let mut path = operation.path.clone();
    for (name, from) in [
        ("{topic}", &TOPICS[..]),
        ("{id}", &IDS),
        ("{group}", &GROUPS),
        ("{tenant}", &["globex"]),
        ("{token}", &IDS),
        ("{receipt}", &receipts),
        ("{do}", &SETTLEMENTS),
        ("{operation}", &loot.operations.iter().map(String::as_str).collect::<Vec<_>>()),
    ] {
        path = path.replace(name, &encoded(pick(rng, from)));
    }
    let after = match rng.u8(..3) {
        0 => loot.cursors[rng.usize(..loot.cursors.len())].clone(),
        1 => format!("0:{}:{}:00", rng.u8(..4), pick(rng, &TOPICS)),
        _ => pick(rng, &TOPICS).to_owned(),
    };
    let group = encoded(pick(rng, &GROUPS));
    let (topic, payload) = (encoded(pick(rng, &TOPICS)), pick(rng, &["none", "text", "base64"]));
    let state = pick(rng, &["delayed", "ready", "leased", "dead"]);
    let mut query = match operation.name.as_str() {
        "listMessages" => vec![format!("state={state}"), format!("payload={payload}")],
        "listGroup" => vec![format!("payload={payload}")],
        "getMessage" => vec![format!("payload={payload}"), format!("group={group}")],
        "getPayload" | "getHistory" | "cancelMessage" | "rescheduleMessage" | "replayMessage"
        | "buryMessage" | "putMessage" => {
            vec![format!("group={group}")]
        }
        "cancelGroup" | "shiftGroup" | "promoteGroup" => vec![format!("topic={topic}")],
        _ => Vec::new(),
    };
    let is_list = operation.name.starts_with("list") && !operation.name.ends_with("ByBody");
    if is_list && !["listShards", "listTimers", "listOperations"].contains(&operation.name.as_str()) {
        query.push(format!("after={}", encoded(&after)));
    }
    query.retain(|_| rng.bool());
    if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
}

fn body(rng: &mut Rng, operation: &Operation, loot: &Loot) -> Value {
    let mut target = json!({ "topic": pick(rng, &TOPICS), "id": pick(rng, &IDS) });
    if rng.bool() {
        target["group"] = pick(rng, &GROUPS).into();
    }
    let with = |key: &str, value: Value| {
        let mut target = target.clone();
        target[key] = value;
        json!([target])
    };
    let receipt = match rng.u8(..3) {
        0 => json!("AAA"),
        _ => loot.receipts[rng.usize(..loot.receipts.len())].clone(),
    };
    let original = operation.name.trim_end_matches("ByBody");
    if original != operation.name {
        return by_body(rng, original, loot);
    }
    match original {
        "putMessage" | "postMessage" => {
            json!({ "payload": "mine", "due": "+1h", "group": pick(rng, &GROUPS), "replace": true })
        }
        "putMany" => with("payload", "mine".into())[0].clone(),
        "cancelMany" => json!([target]),
        "rescheduleMany" => with("due", "+1h".into()),
        "buryMany" => with("reason", "mine".into()),
        "replayMany" => with("delay", "1h".into()),
        "getMany" => with("payload", pick(rng, &["text", "base64"]).into()),
        "rescheduleMessage" => json!({ "due": "+1h" }),
        "buryMessage" => json!({ "reason": "mine" }),
        "replayMessage" => json!({ "delay": "1h" }),
        "shiftGroup" => json!({ "by": "10m", "token": format!("t{}", rng.u32(..)) }),
        "setRate" => json!({ "rate": 1.5 }),
        "setPolicy" | "changePolicy" => json!({ "lease": "1s", "history": 100 }),
        "reserve" => json!({ "topics": [pick(rng, &TOPICS), pick(rng, &TOPICS)], "max": 500, "lease": "1h" }),
        "settle" => json!([{ "receipt": receipt, "do": pick(rng, &SETTLEMENTS) }]),
        "setTenant" => json!({ "puts_per_second": 0 }),
        "addToken" => json!({ "name": "mine" }),
        "beginOperation" => json!({
            "action": pick(rng, &["cancel", "promote", "bury", "replay"]), "dry_run": rng.bool(), "reason": "mine",
            "filter": { "topics": [pick(rng, &TOPICS), pick(rng, &TOPICS)], "group": rng.bool().then(|| pick(rng, &GROUPS)) },
        }),
        "logIn" => json!({ "token": pick(rng, &["acme", "tenant=globex", "Globex"]) }),
        _ => Value::Null,
    }
}

/// A body with the names and parameters of the original route.
fn by_body(rng: &mut Rng, original: &str, loot: &Loot) -> Value {
    let plain = Operation { name: original.to_owned(), method: Method::POST, path: String::new() };
    let mut all = match body(rng, &plain, loot) {
        Value::Null => json!({}),
        body => body,
    };
    let parameters = path(rng, &plain, loot);
    for parameter in parameters.trim_start_matches('?').split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap();
        all[name] = percent_decode_str(value).decode_utf8().unwrap().into();
    }
    if original.ends_with("Group") {
        all["group"] = pick(rng, &GROUPS).into();
    } else {
        all["topic"] = pick(rng, &TOPICS).into();
    }
    if MESSAGE_ROUTES.contains(&original) {
        all["id"] = pick(rng, &IDS).into();
    }
    all
}

async fn call(attacker: Holder<'_>, operation: &Operation, path: &str, body: &Value) -> Answer {
    let request = attacker.gateway.request(operation.method.clone(), path).bearer_auth(attacker.token);
    let lines = operation.name == "putMany";
    Answer::of(match body {
        Value::Null => request,
        body if lines => request.header("content-type", "application/x-ndjson").body(body.to_string()),
        body => request.json(body),
    })
    .await
}

/// Streams with the names and receipts of the other tenant.
async fn streamed(attacker: Holder<'_>, loot: &Loot, rng: &mut Rng, seed: u64) {
    let bearer = format!("Bearer {}", attacker.token);
    let (mut frames, mut works) = (0, 0);
    for _ in 0..STREAMS {
        let headers = [("authorization", bearer.as_str())];
        let mut stream = StreamClient::opened(attacker.gateway, &headers).await.unwrap();
        let topics = [pick(rng, &TOPICS), pick(rng, &TOPICS)];
        let mut all = vec![json!({ "reserve": { "topics": topics, "credits": 500, "lease": "1h" } })];
        for _ in 0..FRAMES {
            let receipt = &loot.receipts[rng.usize(..loot.receipts.len())];
            let receipt = if rng.u8(..3) > 0 { receipt.clone() } else { json!("AAA") };
            all.push(json!({ pick(rng, &SETTLEMENTS): { "receipt": receipt } }));
        }
        for frame in &all {
            stream.feed(frame.clone()).await;
        }
        stream.flush().await;
        let mut answers = 0;
        while answers < all.len() {
            let told = stream.told().await;
            let text = told.to_string();
            for secret in [SECRET, SECRET_BASE64, DAY] {
                assert!(!text.contains(secret), "seed {seed}: {all:?} gave away {secret}: {text}");
            }
            assert!(told["settled"].is_null(), "seed {seed}: {all:?}: {text}");
            answers += usize::from(told["message"].is_null());
            works += usize::from(told["credits"] == 500);
        }
        frames += all.len();
        stream.close().await;
    }
    assert!(frames >= CALLS / 4 && works > STREAMS / 2, "{works} of {frames} frames");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_random_call_of_a_tenant_reaches_anything_of_another() {
    let (stage, _folder) = stage().await;
    let loot = furnish(&stage).await;
    let before = everything(&stage).await;
    assert_eq!(before.0.len(), 15, "{before:#?}");
    let operations = operations(&stage).await;
    let seed = fastrand::u64(..);
    let mut rng = Rng::with_seed(seed);
    let calls = (0..CALLS).map(|_| {
        let operation = &operations[rng.usize(..operations.len())];
        let (path, body) = (path(&mut rng, operation, &loot), body(&mut rng, operation, &loot));
        (operation, path, body)
    });
    let attacker = holder(&stage, "acme");
    let answers = stream::iter(calls.collect::<Vec<_>>()).map(|(operation, path, body)| async move {
        let answer = call(attacker, operation, &path, &body).await;
        for secret in [SECRET, SECRET_BASE64, DAY] {
            let leaks = answer.text.contains(secret);
            assert!(!leaks, "seed {seed}: {} {path} {body} gave away {secret}: {answer:?}", operation.method);
        }
        assert!(answer.status < 500, "seed {seed}: {} {path} {body}: {answer:?}", operation.method);
        (operation.name.clone(), answer.status)
    });
    let answers: Vec<(String, u16)> = answers.buffer_unordered(AT_ONCE).collect().await;
    streamed(attacker, &loot, &mut rng, seed).await;
    let is_still = async || {
        let all = attacker.get("/v1/operations").await.with(200);
        all["operations"].as_array().unwrap().iter().all(|operation| !operation["ended_ms"].is_null())
    };
    wait_until("the end of operations", LONG, is_still).await;
    assert_eq!(everything(&stage).await, before, "seed {seed}");

    let mut of_each: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for (name, status) in &answers {
        of_each.entry(name).or_default()[usize::from(*status < 300)] += 1;
    }
    assert_eq!(of_each.len(), operations.len(), "a route was left out: {of_each:?}");
    // Calls with the attacker's own names succeed, so the test does not pass because every call fails.
    let works: usize = of_each.values().map(|[_, done]| done).sum();
    assert!(works > CALLS / 4, "{works} of {CALLS} calls: {of_each:?}");
}
