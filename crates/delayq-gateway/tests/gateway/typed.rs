//! Nothing that a client sends is ignored: every route refuses an unknown parameter, header, key and body.

use super::stage::{Answer, Stage};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

const UNKNOWN: &str = "DQ-G115";
/// The refusals of an unknown key: of a message or change, and of a policy.
const REFUSALS: [&str; 2] = ["unknown field `nonsense`", "nonsense: unknown setting"];

/// In bodies that have the names of the route, which are read first.
const NAMES: [&str; 3] = ["topic", "group", "id"];

/// Every route with the content that the route takes, and a request of it with a query.
fn requests(stage: &Stage) -> Vec<(String, Value, impl Fn(&str) -> RequestBuilder)> {
    let document: Value = serde_json::from_str(delayq_gateway::DOCUMENT).unwrap();
    let mut requests = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let path = path.replace("{do}", "ack").replace(['{', '}'], "");
            let name = format!("{method} {path}");
            let method: Method = method.to_uppercase().parse().unwrap();
            let request = move |query: &str| stage.gateway.request(method.clone(), &format!("{path}{query}"));
            requests.push((name, operation["requestBody"]["content"].clone(), request));
        }
    }
    assert!(requests.len() > 30, "{}", requests.len());
    requests
}

#[tokio::test]
async fn an_unknown_parameter_header_key_or_body_is_refused_by_every_route() {
    let stage = Stage::start("").await;
    for (name, content, request) in requests(&stage) {
        for unknown in [request("?nonsense=1"), request("").header("delayq-nonsense", "1")] {
            let refused = Answer::of(unknown).await;
            assert_eq!(refused.with(400)["code"], UNKNOWN, "{name}: {refused:?}");
            assert!(refused.text.contains("nonsense; known"), "{name}: {refused:?}");
        }
        let mut planted = json!({ "nonsense": 1 });
        let required = content["application/json"]["schema"]["required"].as_array();
        for key in required.into_iter().flatten().filter_map(Value::as_str).filter(|key| NAMES.contains(key))
        {
            planted[key] = "t".into();
        }
        let (kind, body) = match content.get("application/json") {
            Some(taken) if taken["schema"]["type"] == "array" => ("application/json", json!([planted])),
            None if content.get("application/x-ndjson").is_some() => ("application/x-ndjson", planted),
            _ => ("application/json", planted),
        };
        let sent = request("").header("content-type", kind).body(body.to_string());
        let refused = Answer::of(sent).await;
        match content {
            Value::Null => assert_eq!(refused.with(400)["code"], UNKNOWN, "{name}: {refused:?}"),
            _ => assert!(REFUSALS.iter().any(|why| refused.text.contains(why)), "{name}: {refused:?}"),
        }
    }
    // Clients that cannot send nothing send an empty object.
    stage.gateway.post("/v1/groups/g/cancel", &json!({})).await.with(200);
}
