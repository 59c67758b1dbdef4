//! Parts of payloads that everybody sees who may read.

use super::stage::{Answer, Stage};
use delayq_gateway::token_line;
use delayq_tests::folder::Folder;
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn without_the_right_to_payloads_a_reader_sees_the_listed_values_and_of_all_others_size_and_type() {
    let folder = Folder::new("shown");
    let file = folder.join("tokens");
    let lines = token_line("shop", "secret") + &token_line("desk", "seen").replace('\n', " read\n");
    let tenant = token_line("acme", "tenant").replace('\n', " tenant=acme\n");
    std::fs::write(&file, lines + &tenant).unwrap();
    let shown =
        "shown.orders = [\"/order\", \"/items/0\", \"/card\", \"/none\"]\nshown.\"acme/orders\" = [\"/b\"]\n";
    let stage = Stage::start(&format!("tokens = \"{}\"\n{shown}", file.display())).await;
    let put = async |token: &str, topic: &str, id: &str, body: &str| {
        let request = stage.gateway.request(Method::PUT, &format!("/v1/topics/{topic}/messages/{id}"));
        let request = request.bearer_auth(token).header("content-type", "text/plain").body(body.to_owned());
        Answer::of(request).await.with(201);
    };
    let order =
        r#"{"order": 4711, "items": ["tea", "milk"], "card": {"number": "4000 1234"}, "secret": "x"}"#;
    put("secret", "orders", "a", order).await;
    put("secret", "orders", "text", "a secret").await;
    put("secret", "mails", "b", order).await;
    put("tenant", "orders", "c", r#"{"order": 1, "b": true}"#).await;
    let seen = async |token: &str, topic: &str, id: &str| -> Value {
        let request =
            stage.gateway.request(Method::GET, &format!("/v1/topics/{topic}/messages/{id}?payload=shown"));
        let shown = Answer::of(request.bearer_auth(token)).await.with(200);
        assert!(shown.get("payload").is_none() && !shown.to_string().contains("secret"), "{shown}");
        assert!(shown["payload_bytes"].as_u64().unwrap() > 0);
        shown["payload_shown"].clone()
    };
    let values = json!({ "/order": 4711, "/items/0": "tea", "/card": { "type": "object" } });
    assert_eq!(seen("seen", "orders", "a").await, json!({ "type": "object", "values": values }));
    assert_eq!(seen("seen", "orders", "text").await, json!({ "type": "text", "values": {} }));
    assert_eq!(
        seen("seen", "mails", "b").await,
        json!({ "type": "object", "values": {} }),
        "no list, no values"
    );
    assert_eq!(seen("tenant", "orders", "c").await, json!({ "type": "object", "values": { "/b": true } }));
    for path in ["a?payload=text", "a/payload"] {
        let request = stage.gateway.request(Method::GET, &format!("/v1/topics/orders/messages/{path}"));
        assert_eq!(Answer::of(request.bearer_auth("seen")).await.with(403)["code"], "DQ-G122", "{path}");
    }
    let many = stage.gateway.request(Method::POST, "/v1/get").bearer_auth("seen");
    let many = many.json(&json!([{ "topic": "orders", "id": "a", "payload": "shown" }]));
    assert_eq!(Answer::of(many).await.with(200)[0]["payload_shown"]["values"], values);
}
