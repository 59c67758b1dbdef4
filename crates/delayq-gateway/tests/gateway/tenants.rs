//! Tenants: names without the prefix, and nothing of anybody else.

mod actions;
mod bulkheads;
mod confusion;
mod issued;
mod operations;

use super::stage::{Answer, Running, Stage, topic};
use delayq::{Group, Message, UnixMillis};
use delayq_gateway::token_line;
use delayq_tests::folder::Folder;
use reqwest::Method;
use serde_json::{Value, json};

const FAR: u64 = 4_070_908_800_000;

/// A client with a token.
#[derive(Clone, Copy)]
struct Holder<'s> {
    gateway: &'s Running,
    token: &'s str,
}

/// A gateway with a token for each of two tenants, and two tokens without a tenant. The text of a token is its name.
async fn stage() -> (Stage, Folder) {
    stage_on(Stage::start).await
}

async fn stage_on<S>(start: impl AsyncFnOnce(&str) -> Stage<S>) -> (Stage<S>, Folder) {
    let folder = Folder::new("tenants");
    let file = folder.join("tokens");
    let of = |tenant: &str| token_line(tenant, tenant).replace('\n', &format!(" tenant={tenant}\n"));
    let desk = token_line("desk", "desk").replace('\n', " manage\n");
    std::fs::write(&file, [of("acme"), of("globex"), token_line("root", "root"), desk].concat()).unwrap();
    let stage = start(&format!("tokens = \"{}\"\n", file.display())).await;
    (stage, folder)
}

fn holder<'s>(stage: &'s Stage, token: &'s str) -> Holder<'s> {
    Holder { gateway: &stage.gateway, token }
}

// === impl Holder ===

impl Holder<'_> {
    async fn send(self, method: Method, path: &str, body: &Value) -> Answer {
        let request = self.gateway.request(method, path).bearer_auth(self.token);
        Answer::of(if body.is_null() { request } else { request.json(body) }).await
    }

    async fn get(self, path: &str) -> Answer {
        self.send(Method::GET, path, &Value::Null).await
    }

    async fn put(self, path: &str, body: Value) -> Answer {
        self.send(Method::PUT, path, &body).await
    }

    async fn post(self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, &body).await
    }

    /// The receipts of all ready messages of a topic.
    async fn reserve(self, topic: &str) -> Vec<Value> {
        let body = json!({ "topics": [topic], "max": 500, "lease": "1h" });
        let taken = self.post("/v1/reserve", body).await.with(200);
        taken["messages"].as_array().unwrap().clone()
    }
}

#[tokio::test]
async fn a_tenant_sees_its_names_without_the_prefix_and_redis_has_them_with_it() {
    let (stage, _folder) = stage().await;
    let acme = holder(&stage, "acme");
    let path = "/v1/topics/orders/messages/a";
    let stored = acme.put(path, json!({ "due": FAR, "group": "user-5", "payload": "x" })).await;
    stored.with(201);
    assert_eq!(stored.header("location"), "/v1/topics/orders/messages/a?group=user-5");
    let lines =
        "{\"topic\":\"orders\",\"id\":\"b\",\"group\":\"user-5\"}\n{\"topic\":\"a/b\",\"due\":\"+1h\"}\n";
    let request = stage.gateway.request(Method::POST, "/v1/messages").bearer_auth("acme");
    let put = Answer::of(request.header("content-type", "application/x-ndjson").body(lines)).await;
    assert_eq!(put.lines()[2]["outcomes"], json!({ "ready": 1, "stored": 1 }));
    let topics = stage.deployment.admin.topics().await.unwrap();
    assert_eq!(topics, [topic("acme/a/b"), topic("acme/orders")]);

    let names = |value: &Value| (value["topic"].clone(), value["group"].clone());
    let own = (json!("orders"), json!("user-5"));
    assert_eq!(names(&acme.get(&format!("{path}?group=user-5")).await.with(200)), own);
    assert_eq!(names(&acme.get(&format!("{path}/history?group=user-5")).await.with(200)), own);
    for list in ["/v1/topics/orders/messages", "/v1/groups/user-5/messages"] {
        assert_eq!(names(&acme.get(list).await.with(200)["messages"][0]), own, "{list}");
    }
    let listed = acme.get("/v1/topics").await.with(200);
    assert_eq!(
        (&listed["topics"][0]["topic"], &listed["topics"][1]["topic"]),
        (&json!("a/b"), &json!("orders"))
    );
    let body = json!([{ "topic": "orders", "id": "a", "group": "user-5" }]);
    assert_eq!(names(&acme.post("/v1/get", body.clone()).await.with(200)[0]), own);
    let taken = acme.reserve("orders").await;
    assert_eq!(names(&taken[0]), own);
    let ack = json!([{ "receipt": taken[0]["receipt"], "do": "ack" }]);
    assert_eq!(acme.post("/v1/settle", ack).await.with(200)[0]["outcome"], "delivered");
    let shift = json!({ "by": "10m", "token": "t" });
    assert_eq!(acme.post("/v1/groups/user-5/shift", shift).await.with(200)["moved"], 1);
    assert_eq!(acme.post("/v1/cancel", body).await.with(200)[0]["outcome"], "cancelled");
    let me = acme.get("/v1/me").await.with(200);
    assert_eq!((&me["name"], &me["tenant"]), (&json!("acme"), &json!("acme")));

    let all = holder(&stage, "root").get("/v1/topics").await.with(200);
    assert_eq!(all["topics"][1]["topic"], "acme/orders");
    assert_eq!(holder(&stage, "globex").get("/v1/topics").await.with(200)["topics"], json!([]));
}

#[tokio::test]
async fn a_name_that_has_no_room_for_the_prefix_is_refused_by_name() {
    let (stage, _folder) = stage().await;
    let (acme, root) = (holder(&stage, "acme"), holder(&stage, "root"));
    let long = "n".repeat(124);
    let path = format!("/v1/topics/{long}/messages/a");
    let refused = acme.put(&path, json!({ "due": FAR })).await.with(422);
    assert_eq!((&refused["code"], &refused["errors"][0]["pointer"]), (&json!("DQ-G114"), &json!("topic")));
    assert!(refused["detail"].as_str().unwrap().contains("at most 123 are allowed"), "{refused}");
    let grouped = json!({ "due": FAR, "group": long });
    let refused = acme.put("/v1/topics/t/messages/a", grouped).await.with(422);
    assert_eq!(refused["errors"][0]["pointer"], "group");
    let items = json!([{ "topic": long, "id": "a" }, { "topic": "t", "id": "a" }]);
    let answers = acme.post("/v1/cancel", items).await.with(200);
    assert_eq!((&answers[0]["code"], &answers[1]["code"]), (&json!("DQ-G114"), &json!("DQ-G107")));
    root.put(&path, json!({ "due": FAR })).await.with(201);
}

#[tokio::test]
async fn a_receipt_settles_nothing_for_another_tenant() {
    let (stage, folder) = stage().await;
    let (acme, globex) = (holder(&stage, "acme"), holder(&stage, "globex"));
    globex.put("/v1/topics/t/messages/a", json!({ "payload": "x" })).await.with(201);
    let receipt = globex.reserve("t").await[0]["receipt"].clone();
    for verb in ["ack", "release", "bury", "extend"] {
        let body = json!([{ "receipt": receipt, "do": verb }]);
        for other in [acme, holder(&stage, "root")] {
            assert_eq!(
                other.post("/v1/settle", body.clone()).await.with(200)[0]["code"],
                "DQ-G114",
                "{verb}"
            );
        }
    }
    let another = stage.another_with(&format!("tokens = \"{}\"\n", folder.join("tokens").display())).await;
    let elsewhere = Holder { gateway: &another, token: "globex" };
    let ack = json!([{ "receipt": receipt, "do": "ack" }]);
    assert_eq!(elsewhere.post("/v1/settle", ack).await.with(200)[0]["outcome"], "delivered");
}

#[tokio::test]
async fn a_tenant_does_not_see_the_deployment() {
    let (stage, _folder) = stage().await;
    for path in ["/v1/status", "/v1/shards", "/v1/timers"] {
        assert_eq!(holder(&stage, "acme").get(path).await.with(403)["code"], "DQ-G123", "{path}");
        assert_ne!(holder(&stage, "root").get(path).await.status, 403, "{path}");
    }
}

/// A program with a login to Redis may use any names together.
#[tokio::test]
async fn a_group_of_a_tenant_is_shown_without_the_messages_of_others() {
    let (stage, _folder) = stage().await;
    let put = |of: &str, id: &str, ahead: u64, group: &str| {
        let message = Message::new(topic(of), "x").at(UnixMillis::new(FAR + ahead)).id(id).unwrap();
        message.with_group(Group::new(group).unwrap())
    };
    let foreign = (0..6).map(|n| put("vault", &format!("f{n}"), n, "acme/g"));
    let own = [put("acme/t", "own", 2, "acme/g"), put("acme/t", "last", 9, "acme/g")];
    stage.deployment.put(foreign.chain(own).chain([put("acme/t", "odd", 4, "globex/g")])).await;
    let acme = holder(&stage, "acme");
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = acme.get(&format!("/v1/groups/g/messages?limit=2{after}")).await;
        let shown = page.with(200);
        assert!(!page.text.contains("vault") && !page.text.contains("acme"), "{page:?}");
        let ids = shown["messages"].as_array().unwrap().iter().map(|message| message["id"].clone());
        seen.extend(ids);
        let Some(next) = shown["next"].as_str() else { break };
        after = format!("&after={}", next.replace('+', "%2B"));
    }
    assert_eq!(seen, ["own", "last"]);
    let listed = acme.get("/v1/topics/t/messages").await.with(200);
    let odd = listed["messages"].as_array().unwrap().iter().find(|message| message["id"] == "odd");
    assert_eq!(odd.unwrap()["group"], Value::Null);
}
