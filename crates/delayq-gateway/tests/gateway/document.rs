//! The committed OpenAPI document.

use super::stage::Stage;
use delayq_gateway::generated;
use delayq_tests::generated::compare;
use serde_json::Value;
use std::collections::BTreeSet;

#[test]
fn the_committed_document_is_the_one_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    compare(path, &generated(), "-p delayq-gateway --test gateway -- document");
}

#[test]
fn every_reference_of_the_document_leads_somewhere_and_every_schema_is_used() {
    let (text, start) = (generated(), "#/components/schemas/");
    let document: Value = serde_json::from_str(&text).unwrap();
    let known = document["components"]["schemas"].as_object().unwrap();
    let known: BTreeSet<&str> = known.keys().map(String::as_str).collect();
    let rests = text.match_indices(start).map(|(at, _)| &text[at + start.len()..]);
    let named: BTreeSet<&str> = rests.map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(named, known);
}

#[tokio::test]
async fn the_document_is_served_and_names_every_route_that_is_answered() {
    let stage = Stage::start("").await;
    let served = stage.gateway.get("/v1/openapi.json").await.with(200);
    for (path, operations) in served["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            let path = path.replace(['{', '}'], "");
            let method = method.to_uppercase().parse().unwrap();
            let answer = super::stage::Answer::of(stage.gateway.request(method, &path)).await;
            let code = answer.text.split("DQ-G").nth(1).unwrap_or_default();
            assert!(!["105", "106"].contains(&code.get(..3).unwrap_or_default()), "{path}: {answer:?}");
        }
    }
}
