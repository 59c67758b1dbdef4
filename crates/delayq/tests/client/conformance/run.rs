//! A running scenario: its steps in order, and the expected answers.

use crate::conformance::said::{list, numbered, text};
use delayq::protocol::Leased;
use delayq::{Client, Namespace, Producer, ProducerOptions, Settings, ShardCount};
use delayq_tests::redis_server::SharedRedis;
use serde_json::{Value, json};
use std::collections::HashMap;

/// A receipt is bound as its index in `receipts`.
pub(crate) struct Run<'a> {
    pub(crate) server: &'a SharedRedis,
    pub(crate) namespace: String,
    pub(crate) client: Client,
    pub(crate) producer: Producer,
    pub(crate) bound: HashMap<String, Value>,
    pub(crate) receipts: Vec<Leased>,
}

/// The end of a step: an answer, a refusal by the client itself, or an error by its code.
pub(crate) enum Ended {
    Answer(Value),
    Invalid,
    Fault(String),
    Partly(String, Value),
}

// === impl Run ===

impl<'a> Run<'a> {
    pub(crate) fn new(server: &'a SharedRedis, number: usize, scenario: &Value) -> Self {
        let namespace = format!("r{number}");
        let mut settings = Settings::new(server.url());
        settings.namespace = Namespace::new(&*namespace).unwrap();
        settings.shards =
            ShardCount::new(scenario["shards"].as_u64().unwrap_or(1).try_into().unwrap()).unwrap();
        let client = Client::new(settings);
        let producer = Producer::start(client.clone(), ProducerOptions::default());
        Self { server, namespace, client, producer, bound: HashMap::new(), receipts: Vec::new() }
    }

    pub(crate) async fn carry_out(&mut self, step: &Value, place: &str) {
        let ended = self.step(step).await;
        match (ended, step.get("error"), step.get("invalid")) {
            (Ended::Invalid, None, Some(Value::Bool(true))) => {}
            (Ended::Fault(code), Some(expected), None) => assert_eq!(code, text(expected), "{place}"),
            (Ended::Partly(code, got), Some(expected), None) => {
                assert_eq!(code, text(expected), "{place}: {got}");
                self.compare(&step["expect"], &got, place);
            }
            (Ended::Answer(got), None, Some(Value::Bool(true))) if got["word"] == "refused" => {}
            (Ended::Answer(got), None, None) => {
                for (n, one) in got.as_array().into_iter().flatten().enumerate() {
                    if let Some(expected) = step.get("expect_each") {
                        self.compare(&numbered(expected, n), one, &format!("{place}, {n}"));
                    }
                }
                match step.get("expect") {
                    Some(expected) if step["op"] == "script" => compare_reply(expected, &got, place),
                    Some(expected) => self.compare(expected, &got, place),
                    None => {}
                }
            }
            (Ended::Answer(got), ..) => panic!("{place}: {got}"),
            (Ended::Invalid, ..) => panic!("{place}: refused by the client"),
            (Ended::Fault(code) | Ended::Partly(code, _), ..) => panic!("{place}: {code}"),
        }
    }

    pub(crate) fn known(&self, value: &Value) -> Value {
        let Some(name) = value.as_str().and_then(|text| text.strip_prefix('$')) else { return value.clone() };
        match name.split_once('+') {
            None => self.bound[name].clone(),
            Some((name, shift)) => {
                json!(self.bound[name].as_u64().unwrap() + shift.parse::<u64>().unwrap())
            }
        }
    }

    /// Expected values must be present; a variable takes its first value.
    pub(crate) fn compare(&mut self, expected: &Value, got: &Value, place: &str) {
        match expected {
            Value::String(name) if name.starts_with('$') && !name.contains('+') => {
                let known = self.bound.entry(name[1..].to_owned()).or_insert_with(|| got.clone());
                assert_eq!(known, got, "{place}: {name}");
            }
            Value::Object(fields) => {
                for (key, item) in fields {
                    self.compare(item, &got[key], &format!("{place}: {key} of {got}"));
                }
            }
            Value::Array(items) => {
                assert_eq!(items.len(), got.as_array().map_or(0, Vec::len), "{place}: {got}");
                for (i, item) in items.iter().enumerate() {
                    self.compare(item, &got[i], &format!("{place}[{i}]"));
                }
            }
            _ => assert_eq!(&self.known(expected), got, "{place}"),
        }
    }
}

pub(crate) fn compare_reply(expected: &Value, got: &Value, place: &str) {
    for (i, item) in list(expected).iter().enumerate() {
        assert!(item == "*" || Some(item) == got.get(i), "{place}: {got}");
    }
}
