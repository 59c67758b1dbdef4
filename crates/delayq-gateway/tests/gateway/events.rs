//! Putting events of CloudEvents 1.0.

use super::stage::{Answer, Stage, topic};
use delayq::admin::Listed;
use delayq::protocol::Envelope;
use delayq::{Message, Target, UnixMillis};
use reqwest::Method;
use serde_json::{Value, json};

const DOCUMENT: &str = "application/cloudevents+json";
const ARRAY: &str = "application/cloudevents-batch+json";

// === impl Stage ===

impl Stage {
    async fn put_event(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> Answer {
        let method = if path.matches('/').count() > 4 { Method::PUT } else { Method::POST };
        let request = self.gateway.request(method, path).body(body);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        Answer::of(request).await
    }

    async fn taken_events(&self, asked: Value) -> Vec<Value> {
        let request = self.gateway.request(Method::POST, "/v1/reserve").json(&asked);
        let accept = format!("application/json;q=0.5, {ARRAY};q=1");
        let answer = Answer::of(request.header("accept", accept)).await;
        assert_eq!((answer.header("content-type"), answer.status), (ARRAY, 200));
        answer.with(200).as_array().unwrap().clone()
    }

    async fn stored(&self, of: &str, id: &str, group: Option<&str>) -> Envelope {
        let target = Target { id: id.parse().unwrap(), group: group.map(|group| group.parse().unwrap()) };
        let found: Option<Listed> = self.deployment.admin.topic(&topic(of)).get(&target).await.unwrap();
        found.expect("the message is stored").envelope.unwrap()
    }
}

fn event(more: &Value) -> Value {
    let mut event = json!({ "specversion": "1.0", "id": "e1", "source": "/shop", "type": "order.timeout" });
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event
}

fn pairs(headers: &[(&str, &str)]) -> Vec<(String, String)> {
    headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test]
async fn an_event_is_one_message_whether_it_comes_as_a_document_or_in_headers() {
    let stage = Stage::start("").await;
    let asked = json!({
        "data": { "order": 17 }, "datacontenttype": "application/json", "subject": "a \"b\" €", "n": 5,
        "delayqdue": "2099-01-01T00:00:00Z", "delayqgroup": "g", "delayqmaxattempts": 3, "delayqbackoff": "5s",
        "delayqexpires": 4_102_444_800_000_u64,
    });
    let put = stage.put_event(
        "/v1/topics/orders/messages",
        &[("content-type", DOCUMENT)],
        event(&asked).to_string(),
    );
    let put = put.await;
    assert_eq!((&put.with(201)["outcome"], &put.with(201)["id"]), (&json!("stored"), &json!("/shop#e1")));
    let stored = stage.stored("orders", "/shop#e1", Some("g")).await;
    assert_eq!((stored.payload.as_slice(), stored.max_attempts), (&br#"{"order":17}"#[..], 3));
    assert_eq!(stored.due, UnixMillis::new(4_070_908_800_000));
    let carried = pairs(&[
        ("ce-id", "e1"),
        ("ce-n", "5"),
        ("ce-source", "/shop"),
        ("ce-specversion", "1.0"),
        ("ce-subject", "a \"b\" €"),
        ("ce-type", "order.timeout"),
        ("content-type", "application/json"),
    ]);
    assert_eq!(stored.headers, carried);
    let headers = [
        ("content-type", "application/json"),
        ("ce-specversion", "1.0"),
        ("ce-type", "order.timeout"),
        ("ce-source", "/shop"),
        ("ce-id", "e1"),
        ("ce-n", "5"),
        ("ce-subject", "a%20%22b%22%20%E2%82%AC"),
        ("ce-delayqdue", "2099-01-01T00:00:00Z"),
        ("ce-delayqgroup", "g"),
        ("ce-delayqmaxattempts", "3"),
        ("ce-delayqbackoff", "5s"),
        ("ce-delayqexpires", "4102444800000"),
        ("ce-delayqattempt", "7"),
    ];
    let repeat = stage.put_event("/v1/topics/orders/messages", &headers, r#"{"order":17}"#).await;
    assert_eq!(repeat.with(200)["outcome"], "exists");
}

#[tokio::test]
async fn the_type_is_the_topic_and_the_path_or_the_request_names_topic_and_id() {
    let stage = Stage::start("").await;
    let one = async |path: &str, headers: &[(&str, &str)], more: Value| {
        let headers = [&[("content-type", DOCUMENT)], headers].concat();
        stage.put_event(path, &headers, event(&more).to_string()).await
    };
    for (path, headers, more, of, id) in [
        ("/v1/messages", &[][..], json!({}), "order.timeout", "/shop#e1"),
        ("/v1/messages", &[], json!({ "delayqtopic": "orders", "delayqid": "own" }), "orders", "own"),
        ("/v1/topics/other/messages", &[], json!({}), "other", "/shop#e1"),
        ("/v1/topics/other/messages", &[("idempotency-key", "k")], json!({}), "other", "k"),
        (
            "/v1/topics/other/messages/m",
            &[],
            json!({ "delayqtopic": "other", "delayqid": "m" }),
            "other",
            "m",
        ),
    ] {
        let put = one(path, headers, more).await;
        let place = format!("/v1/topics/{of}/messages/{}", id.replace('/', "%2F").replace('#', "%23"));
        assert_eq!((&put.with(201)["id"], put.header("location")), (&json!(id), place.as_str()));
        assert_eq!(stage.stored(of, id, None).await.payload, b"");
    }
    let data = [("ce-specversion", "1.0"), ("ce-type", "t"), ("ce-source", "/s"), ("ce-id", "b")];
    stage.put_event("/v1/messages", &data, vec![0_u8, 255]).await.with(201);
    assert_eq!(stage.stored("t", "/s#b", None).await.payload, [0, 255]);
}

#[tokio::test]
async fn each_event_of_an_array_has_its_answer_in_order() {
    let stage = Stage::start("").await;
    let events: Vec<Value> = (0..300)
        .map(|n| match n % 10 {
            3 => event(&json!({ "id": "", "n": n })),
            7 => json!(n),
            _ => event(&json!({ "id": n.to_string(), "delayqdelay": "1h" })),
        })
        .collect();
    let answer = stage.put_event("/v1/messages", &[("content-type", ARRAY)], json!(events).to_string()).await;
    assert_eq!(answer.header("content-type"), "application/x-ndjson");
    let mut lines = answer.lines();
    let last = lines.pop().unwrap();
    assert_eq!(last, json!({ "lines": 300, "outcomes": { "stored": 240, "failed": 60 } }));
    let numbers: Vec<u64> = lines.iter().map(|line| line["line"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=300).collect::<Vec<_>>());
    assert_eq!((&lines[4]["outcome"], &lines[4]["id"]), (&json!("stored"), &json!("/shop#4")));
    assert_eq!(lines[3]["detail"], "id: missing: every event has this attribute");
    assert_eq!((&lines[7]["code"], &lines[7]["fate"]), (&json!("DQ-G114"), &json!("not_applied")));
    let many = json!(vec![event(&json!({})); 501]).to_string();
    let refused = stage.put_event("/v1/messages", &[("content-type", ARRAY)], many).await;
    assert_eq!(refused.with(413)["code"], "DQ-G112");
}

#[tokio::test]
async fn an_event_that_is_none_or_asks_for_something_unknown_is_refused_by_name() {
    let stage = Stage::start("").await;
    let (of_topic, of_all) = ("/v1/topics/t/messages", "/v1/messages");
    for (path, more, status, name) in [
        (of_topic, json!({ "specversion": "0.3" }), 422, "specversion"),
        (of_topic, json!({ "id": "" }), 422, "id"),
        (of_topic, json!({ "source": null }), 422, "source"),
        (of_topic, json!({ "Subject": "x" }), 422, "Subject"),
        (of_topic, json!({ "delayqdew": "+1h" }), 422, "delayqdew"),
        (of_topic, json!({ "delayqverb": "cancel" }), 422, "delayqverb"),
        (of_topic, json!({ "delayqdue": "soon" }), 422, "delayqdue"),
        (of_topic, json!({ "delayqdue": "+1h", "delayqdelay": "1h" }), 422, "delayqdelay"),
        (of_topic, json!({ "delayqtopic": "u" }), 422, "delayqtopic"),
        (of_topic, json!({ "delayqreplace": "maybe" }), 422, "delayqreplace"),
        (of_topic, json!({ "delayqjitter": "soon" }), 422, "delayqjitter"),
        (of_topic, json!({ "id": "x".repeat(200) }), 422, "delayqid"),
        (of_all, json!({ "type": "order timeout" }), 422, "type"),
        ("/v1/topics/t/messages/m", json!({ "delayqid": "n" }), 422, "delayqid"),
    ] {
        let refused = stage.put_event(path, &[("content-type", DOCUMENT)], event(&more).to_string()).await;
        let problem = refused.with(status);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(name), "{more}: {detail}");
    }
    let of_event = [("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-source", "/s"), ("ce-type", "t")];
    let json = ("content-type", "application/json");
    for (path, headers, body, status, name) in [
        (of_topic, vec![json, ("ce-delayqdue", "+1h")], "{}", 422, "ce-specversion is missing"),
        (of_topic, [&of_event[..], &[("ce-delayqdew", "+1h")]].concat(), "", 422, "delayqdew"),
        (
            of_topic,
            [&of_event[..], &[("ce-datacontenttype", "text/plain")]].concat(),
            "",
            422,
            "Content-Type",
        ),
        (of_topic, [&of_event[..], &[("delayq-due", "+1h")]].concat(), "", 422, "delayq-due"),
        (of_topic, [&of_event[..], &[("ce-x", "%ff")]].concat(), "", 422, "ce-x: not UTF-8"),
        (of_topic, [&of_event[..], &[("ce-id", "2")]].concat(), "", 422, "ce-id: given twice"),
        (of_topic, vec![("content-type", DOCUMENT), ("ce-delayqdue", "+1h")], "{}", 422, "ce-delayqdue"),
        (of_topic, vec![("content-type", DOCUMENT)], "{", 400, "not a JSON event"),
        (of_topic, vec![("content-type", DOCUMENT)], "[]", 422, "not a JSON object"),
        (of_topic, vec![("content-type", ARRAY)], "[]", 415, "POST /v1/messages"),
        (of_all, vec![("content-type", ARRAY)], "{}", 422, "sequence"),
        (of_all, vec![json], "{}", 415, "application/x-ndjson, or events"),
    ] {
        let refused = stage.put_event(path, &headers, body).await;
        let problem = refused.with(status);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(name), "{headers:?}: {detail}");
    }
    assert_eq!(stage.deployment.admin.topics().await.unwrap(), []);
}

#[tokio::test]
async fn an_event_that_was_put_is_taken_as_the_same_event_and_its_receipt_settles_it() {
    let stage = Stage::start("").await;
    assert_eq!(stage.taken_events(json!({ "topics": ["orders"] })).await, [] as [Value; 0]);
    let put = event(&json!({
        "data": { "order": 17 }, "datacontenttype": "application/json", "subject": "a b", "n": "5",
        "delayqtopic": "orders", "delayqgroup": "g", "delayqdue": "2020-01-01T00:00:00.000Z",
    }));
    stage.put_event("/v1/messages", &[("content-type", DOCUMENT)], put.to_string()).await.with(201);
    let taken = stage.taken_events(json!({ "topics": ["orders"], "lease": "10m" })).await;
    let about = ["delayqreceipt", "delayqleaseends", "delayqattempt", "delayqdelivery", "delayqid"];
    let mut same = taken[0].as_object().unwrap().clone();
    let [receipt, _, attempt, delivery, id] = about.map(|name| same.remove(name).unwrap());
    assert_eq!(Value::Object(same), put);
    assert_eq!([attempt, delivery, id], ["1", "1", "/shop#e1"]);
    let again = stage.put_event("/v1/messages", &[("content-type", DOCUMENT)], taken[0].to_string()).await;
    assert_eq!(again.with(200)["outcome"], "exists", "what was taken can be sent back");
    let settled = stage.gateway.post("/v1/settle", &json!([{ "receipt": receipt, "do": "ack" }])).await;
    assert_eq!(settled.with(200), json!([{ "outcome": "delivered" }]));
}

#[tokio::test]
async fn a_message_that_was_no_event_is_taken_as_one_that_says_all_of_it() {
    let stage = Stage::start("").await;
    let mut text = Message::new(topic("mails"), "hello").id("a").unwrap();
    text.headers = pairs(&[("Content-Type", "text/plain"), ("traceparent", "00-1"), ("x-shop", "Köln")]);
    let bytes = Message::new(topic("mails"), [0, 255]).id("b").unwrap();
    stage.deployment.put([text, bytes.group("g/1").unwrap()]).await;
    let mut taken = stage.taken_events(json!({ "topics": ["mails"], "max": 2, "wait": "10s" })).await;
    taken.sort_by_key(|event| event["id"].to_string());
    let [text, bytes] = &taken[..] else { panic!("two were put: {taken:?}") };
    for (name, value) in [
        ("specversion", "1.0"),
        ("id", "a"),
        ("source", "/delayq/mails"),
        ("type", "mails"),
        ("datacontenttype", "text/plain"),
        ("data", "hello"),
        ("traceparent", "00-1"),
        ("delayqheaders", r#"[["traceparent","00-1"],["x-shop","Köln"]]"#),
    ] {
        assert_eq!(text[name], value, "{name}");
    }
    assert_eq!(text["time"], text["delayqdue"]);
    for (name, value) in [
        ("source", "/delayq/mails#g%2F1"),
        ("subject", "g/1"),
        ("delayqgroup", "g/1"),
        ("data_base64", "AP8="),
    ] {
        assert_eq!(bytes[name], value, "{name}");
    }
    assert!(["data", "delayqheaders", "datacontenttype"].iter().all(|name| bytes.get(name).is_none()));
}
