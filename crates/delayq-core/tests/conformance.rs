//! The conformance suite that clients in all languages share (`tests/vectors/README.md`), by this one.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

use delayq_core::{
    Backoff, CancelOutcome, Client, Due, Error, Group, Message, MessageId, Namespace, Producer,
    ProducerOptions, Put, PutError, PutOutcome, Receipt, Release, Reschedule, RescheduleOutcome, Reservation,
    ReserveRequest, Scripts, Settings, Settled, ShardCount, ShardId, Target, Topic, UnixMillis, Verb,
};
use delayq_tests::redis_server::RedisServer;
use serde_json::{Value, json};
use std::{collections::HashMap, time::Duration};
use tokio::time::timeout;

/// One scenario under way: what its steps have bound so far. A receipt is bound as its place in `receipts`.
struct Run<'a> {
    server: &'a RedisServer,
    namespace: String,
    client: Client,
    producer: Producer,
    bound: HashMap<String, Value>,
    receipts: Vec<Receipt>,
}

/// How a step ended: an answer, a refusal of the client's own, or an error by its code.
enum Ended {
    Answer(Value),
    Invalid,
    Fault(String),
}

#[tokio::test]
async fn every_step_of_the_suite_gets_the_answer_that_all_clients_get() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/conformance.json");
    let suite: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let server = RedisServer::start().await;
    for (number, scenario) in list(&suite["scenarios"]).iter().enumerate() {
        let mut run = Run::new(&server, number, scenario);
        if scenario.get("init") != Some(&Value::Bool(false)) {
            let created: Value = scenario["shards"].as_u64().unwrap_or(1).into();
            for shard in 0..created.as_u64().unwrap() {
                run.call("init", shard, 1, &[shard.to_string().into(), created.to_string().into()]).await;
            }
        }
        for (i, step) in list(&scenario["steps"]).iter().enumerate() {
            let place = format!("{}: step {} ({})", scenario["name"], i + 1, step["op"]);
            run.carry_out(step, &place).await;
        }
    }
}

impl<'a> Run<'a> {
    fn new(server: &'a RedisServer, number: usize, scenario: &Value) -> Self {
        let namespace = format!("r{number}");
        let mut settings = Settings::new(server.url());
        settings.namespace = Namespace::new(&*namespace).unwrap();
        settings.shards =
            ShardCount::new(scenario["shards"].as_u64().unwrap_or(1).try_into().unwrap()).unwrap();
        let client = Client::new(settings);
        let producer = Producer::start(client.clone(), ProducerOptions::default());
        Self { server, namespace, client, producer, bound: HashMap::new(), receipts: Vec::new() }
    }

    async fn carry_out(&mut self, step: &Value, place: &str) {
        let ended = self.step(step).await;
        match (ended, step.get("error"), step.get("invalid")) {
            (Ended::Invalid, None, Some(Value::Bool(true))) => {}
            (Ended::Fault(code), Some(expected), None) => assert_eq!(code, text(expected), "{place}"),
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
            (Ended::Fault(code), ..) => panic!("{place}: {code}"),
        }
    }

    async fn step(&mut self, step: &Value) -> Ended {
        match text(&step["op"]) {
            "put" => match self.message(&step["message"]) {
                None => Ended::Invalid,
                Some(message) => one_put(self.producer.put(message).await),
            },
            "put_many" => {
                let said: Vec<Value> = match step["times"].as_u64() {
                    Some(times) => (0..times as usize).map(|n| numbered(&step["message"], n)).collect(),
                    None => list(&step["messages"]).to_vec(),
                };
                let messages = said.iter().map(|said| self.message(said).unwrap()).collect();
                let puts = self.producer.put_many(messages).await;
                Ended::Answer(puts.into_iter().map(|put| shown_put(&put.unwrap())).collect())
            }
            "cancel" => {
                let (topic, target) = self.target(step);
                ended(self.producer.cancel(&topic, &target).await.map(|outcome| shown_cancel(&outcome)))
            }
            "reschedule" => {
                let ((topic, target), change) = (self.target(step), self.change(step));
                let outcome = self.producer.reschedule(&topic, &target, change).await;
                ended(outcome.map(|outcome| shown_reschedule(&outcome)))
            }
            "reserve" => self.reserve(step).await,
            "drain" => self.drain(step).await,
            "listening" => {
                let channel = format!("{{{}:{}}}:ready", self.namespace, step["shard"]);
                while self.server.command::<(String, u64)>(&["PUBSUB", "SHARDNUMSUB", &channel]).await.1 == 0
                {
                }
                Ended::Answer(Value::Null)
            }
            "pump" => {
                let (shard, args) = (step["shard"].as_u64().unwrap(), ["0".into(), "500".into()]);
                loop {
                    let said = self.call("pump", shard, 1, &args).await;
                    if said[3] != "0" || said[4] != "0" {
                        break;
                    }
                }
                Ended::Answer(Value::Null)
            }
            "script" => {
                let shard = self.known(&step["shard"]).as_u64().unwrap();
                let layout = step["layout"].as_u64().unwrap_or(1);
                Ended::Answer(self.call(text(&step["verb"]), shard, layout, list(&step["args"])).await)
            }
            "redis" => {
                let args: Vec<String> = list(&step["args"])
                    .iter()
                    .map(|arg| text(arg).replace("NAMESPACE", &self.namespace))
                    .collect();
                let words: Vec<&str> = args.iter().map(String::as_str).collect();
                self.server.command::<redis::Value>(&words).await;
                Ended::Answer(Value::Null)
            }
            verb => self.settle(verb, step).await,
        }
    }

    /// Reserves, and waits where it is said; meanwhile other steps are carried out.
    async fn reserve(&mut self, step: &Value) -> Ended {
        let wait = Duration::from_millis(step["wait_ms"].as_u64().unwrap_or(0));
        let waiting = tokio::spawn(reserve(self.client.clone(), request(step), wait));
        for (i, other) in step["meanwhile"].as_array().into_iter().flatten().enumerate() {
            let place = format!("{}: meanwhile, step {} ({})", self.namespace, i + 1, other["op"]);
            Box::pin(self.carry_out(other, &place)).await;
        }
        match waiting.await.unwrap() {
            Ok(found) => Ended::Answer(found.iter().map(|found| self.shown_delivery(found)).collect()),
            Err(error) => Ended::Fault(code(&error)),
        }
    }

    /// Reserves and acks all that there is: how many.
    async fn drain(&self, step: &Value) -> Ended {
        let ask = json!({"topics": step["topics"], "most": 500});
        let mut receipts = Vec::new();
        loop {
            let found = reserve(self.client.clone(), request(&ask), Duration::ZERO).await.unwrap();
            if found.is_empty() {
                break;
            }
            receipts.extend(found.into_iter().map(|found| found.receipt));
        }
        for settled in self.client.ack(&receipts).await {
            assert_eq!(settled.unwrap(), Settled::Delivered);
        }
        Ended::Answer(json!(receipts.len()))
    }

    async fn settle(&self, verb: &str, step: &Value) -> Ended {
        let receipts: Vec<Receipt> = list(&step["receipts"])
            .iter()
            .map(|name| self.receipts[self.known(name).as_u64().unwrap() as usize].clone())
            .collect();
        let lease = step["lease_ms"].as_u64().map(Duration::from_millis);
        let reason = step["reason"].as_str().unwrap_or_default().to_owned();
        let settled = match verb {
            "ack" => self.client.ack(&receipts).await,
            "extend" => self.client.extend(&receipts, lease).await,
            "bury" => {
                let buried: Vec<_> = receipts.into_iter().map(|receipt| (receipt, reason.clone())).collect();
                self.client.bury(&buried).await
            }
            "release" => {
                let release = |receipt| Release {
                    receipt,
                    delay: step["delay_ms"].as_u64().map(Duration::from_millis),
                    keep_attempt: step["keep_attempt"].as_bool().unwrap_or(false),
                    reason: reason.clone(),
                };
                self.client.release(&receipts.into_iter().map(release).collect::<Vec<_>>()).await
            }
            other => panic!("no such step: {other}"),
        };
        Ended::Answer(settled.into_iter().map(|answer| shown_settled(&answer.unwrap())).collect())
    }

    /// The published script itself, for verbs that only some clients have.
    async fn call(&self, verb: &str, shard: u64, layout: u64, args: &[Value]) -> Value {
        let verb = *Verb::ALL.iter().find(|known| known.name() == verb).unwrap();
        let shard = ShardId::new(shard.try_into().unwrap());
        let keys = self.client.keys();
        let scripts = Scripts::published();
        let mut command = redis::cmd("EVAL");
        command
            .arg(&scripts.get(verb).source)
            .arg(2)
            .arg(keys.meta(shard))
            .arg(keys.never(shard))
            .arg(layout);
        for arg in args {
            match arg["hex"].as_str() {
                Some(bytes) => command.arg(unhex(bytes)),
                None => command.arg(text(arg)),
            };
        }
        let reply: redis::Value = command.query_async(&mut self.server.connect().await).await.unwrap();
        match reply {
            redis::Value::Array(items) => items.iter().map(shown_item).collect(),
            item => json!([shown_item(&item)]),
        }
    }

    /// `None` where a name in it is none.
    fn message(&self, said: &Value) -> Option<Message> {
        let payload = match said["payload"].as_str() {
            Some(payload) => {
                payload.repeat(said["payload_times"].as_u64().unwrap_or(1) as usize).into_bytes()
            }
            None => unhex(text(&said["payload_hex"])),
        };
        let mut message = Message::new(Topic::new(text(&said["topic"])).ok()?, payload);
        if let Some(id) = said.get("id") {
            message = message.with_id(text(&self.known(id)).parse().ok()?);
        }
        if let Some(group) = said["group"].as_str() {
            message = message.group(group).ok()?;
        }
        if let Some(due) = said["at_ms"].as_u64() {
            message = message.at(UnixMillis::new(due));
        }
        if let Some(delay) = said["after_ms"].as_u64() {
            message = message.after(Duration::from_millis(delay));
        }
        for pair in said["headers"].as_array().into_iter().flatten() {
            message = message.header(text(&pair[0]), text(&pair[1]));
        }
        if let Some(expires) = said["expires_ms"].as_u64() {
            message = message.expires(UnixMillis::new(expires));
        }
        if let Some(attempts) = said["max_attempts"].as_u64() {
            message = message.max_attempts(attempts.try_into().unwrap());
        }
        if let Some(spec) = said.get("backoff") {
            message = message.backoff(backoff(spec));
        }
        if let Some(tried) = said["first_tried_ms"].as_u64() {
            message = message.first_tried(UnixMillis::new(tried));
        }
        Some(if said["replace"] == true { message.replace() } else { message })
    }

    fn target(&self, step: &Value) -> (Topic, Target) {
        let id: MessageId = text(&self.known(&step["id"])).parse().unwrap();
        let group = step["group"].as_str().map(|group| Group::new(group).unwrap());
        (Topic::new(text(&step["topic"])).unwrap(), Target { id, group })
    }

    fn change(&self, step: &Value) -> Reschedule {
        let expected = step.get("expected_ms").map(|ms| UnixMillis::new(self.known(ms).as_u64().unwrap()));
        let due = match (step["at_ms"].as_u64(), step["after_ms"].as_u64()) {
            (Some(at), _) => Due::At(UnixMillis::new(at)),
            (None, Some(after)) => Due::After(Duration::from_millis(after)),
            (None, None) => return Reschedule::By(step["by_ms"].as_i64().unwrap(), expected.unwrap()),
        };
        expected.map_or(Reschedule::To(due), |expected| Reschedule::ToIfDue(due, expected))
    }

    /// A value of a step with its variable filled in.
    fn known(&self, value: &Value) -> Value {
        let Some(name) = value.as_str().and_then(|text| text.strip_prefix('$')) else { return value.clone() };
        match name.split_once('+') {
            None => self.bound[name].clone(),
            Some((name, shift)) => {
                json!(self.bound[name].as_u64().unwrap() + shift.parse::<u64>().unwrap())
            }
        }
    }

    /// What is expected must be there; a variable takes its first value.
    fn compare(&mut self, expected: &Value, got: &Value, place: &str) {
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

    fn shown_delivery(&mut self, found: &Reservation) -> Value {
        self.receipts.push(found.receipt.clone());
        let envelope = &found.envelope;
        json!({
            "receipt": self.receipts.len() - 1,
            "topic": found.topic.as_str(),
            "id": found.id.to_string(),
            "lease_end_ms": found.lease_end.get(),
            "payload": String::from_utf8_lossy(&envelope.payload),
            "payload_hex": hex(&envelope.payload),
            "due_ms": envelope.due.get(),
            "expires_ms": envelope.expires.map(UnixMillis::get),
            "group": envelope.group.as_ref().map(Group::as_str),
            "headers": envelope.headers,
            "max_attempts": envelope.max_attempts,
            "attempt": envelope.attempt,
            "delivery": envelope.delivery,
        })
    }
}

fn request(step: &Value) -> ReserveRequest {
    ReserveRequest {
        topics: list(&step["topics"]).iter().map(|name| Topic::new(text(name)).unwrap()).collect(),
        most: step["most"].as_u64().unwrap().try_into().unwrap(),
        most_bytes: 0,
        lease: step["lease_ms"].as_u64().map(Duration::from_millis),
    }
}

/// Reserves from the first shard that has any; where there is none, waits until something is heard.
async fn reserve(client: Client, request: ReserveRequest, wait: Duration) -> Result<Vec<Reservation>, Error> {
    let mut listener = client.listen_for_ready(client.shards().shards().collect());
    let looking = async {
        loop {
            let mut rest = Duration::from_secs(1);
            for shard in client.shards().shards() {
                let report = client.reserve(shard, &request).await?;
                if !report.messages.is_empty() {
                    return Ok(report.messages);
                }
                rest = rest.min(report.wait.unwrap_or(rest));
            }
            if wait.is_zero() {
                return Ok(Vec::new());
            }
            let _ = timeout(rest, listener.next()).await;
        }
    };
    let bound = if wait.is_zero() { Duration::from_secs(60) } else { wait };
    timeout(bound, looking).await.unwrap_or(Ok(Vec::new()))
}

/// A message of many, or what is expected of it.
fn numbered(said: &Value, n: usize) -> Value {
    let fill = |value: &Value| match value {
        Value::String(text) => text.replace('#', &n.to_string()).into(),
        other => other.clone(),
    };
    said.as_object().unwrap().iter().map(|(key, value)| (key.clone(), fill(value))).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

fn backoff(said: &Value) -> Backoff {
    let delays: Vec<_> =
        list(&said["delays_ms"]).iter().map(|ms| Duration::from_millis(ms.as_u64().unwrap())).collect();
    match text(&said["kind"]) {
        "fixed" => Backoff::Fixed(delays[0]),
        "exponential" => Backoff::Exponential { first: delays[0], longest: delays[1] },
        _ => Backoff::List(delays),
    }
}

fn shown_item(item: &redis::Value) -> String {
    match item {
        redis::Value::Int(n) => n.to_string(),
        redis::Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        redis::Value::SimpleString(text) => text.clone(),
        other => format!("{other:?}"),
    }
}

fn compare_reply(expected: &Value, got: &Value, place: &str) {
    for (i, item) in list(expected).iter().enumerate() {
        assert!(item == "*" || Some(item) == got.get(i), "{place}: {got}");
    }
}

fn ended(result: Result<Value, Error>) -> Ended {
    result.map_or_else(|error| Ended::Fault(code(&error)), Ended::Answer)
}

fn one_put(result: Result<Put, PutError>) -> Ended {
    match result {
        Ok(put) => Ended::Answer(shown_put(&put)),
        Err(PutError { error: Error::Message(_) | Error::Name(_), .. }) => Ended::Invalid,
        Err(PutError { error, .. }) => Ended::Fault(code(&error)),
    }
}

fn code(error: &Error) -> String {
    match error {
        Error::Uninitialised(_) => "DQUNINITIALISED".to_owned(),
        Error::Layout { .. } => "DQLAYOUT".to_owned(),
        Error::Redis { code, .. } => code.clone(),
        other => other.to_string(),
    }
}

fn shown_put(put: &Put) -> Value {
    let mut shown = match &put.outcome {
        PutOutcome::Stored(due) => json!({"word": "stored", "time_ms": due.get()}),
        PutOutcome::Ready(due) => json!({"word": "ready", "time_ms": due.get()}),
        PutOutcome::Exists(state, at) => {
            json!({"word": "exists", "state": state.word(), "time_ms": at.get()})
        }
        PutOutcome::Conflict(state, at) => {
            json!({"word": "conflict", "state": state.word(), "time_ms": at.get()})
        }
        PutOutcome::Newer => json!({"word": "conflict", "state": "newer", "time_ms": 0}),
        PutOutcome::Malformed => json!({"word": "conflict", "state": "malformed", "time_ms": 0}),
        PutOutcome::Leased => json!({"word": "leased"}),
        PutOutcome::Stale => json!({"word": "stale"}),
        PutOutcome::Spooled => json!({"word": "spooled"}),
        PutOutcome::Refused(why) => json!({"word": "refused", "why": why}),
    };
    shown["id"] = json!(put.reference.id.to_string());
    shown["shard"] = json!(put.reference.shard.get());
    shown
}

fn shown_cancel(outcome: &CancelOutcome) -> Value {
    match outcome {
        CancelOutcome::Cancelled => json!({"word": "cancelled"}),
        CancelOutcome::Leased => json!({"word": "leased"}),
        CancelOutcome::Dead => json!({"word": "dead"}),
        CancelOutcome::Finished(state, at) => {
            json!({"word": "finished", "state": state.word(), "time_ms": at.get()})
        }
        CancelOutcome::Unknown => json!({"word": "unknown"}),
        CancelOutcome::Spooled => json!({"word": "spooled"}),
        CancelOutcome::Failed(why) => json!({"word": "failed", "why": why}),
    }
}

fn shown_reschedule(outcome: &RescheduleOutcome) -> Value {
    match outcome {
        RescheduleOutcome::Moved { old, due, ready } => {
            json!({"word": if *ready { "ready" } else { "delayed" }, "old_ms": old.get(), "time_ms": due.get()})
        }
        RescheduleOutcome::Changed(due) => json!({"word": "changed", "time_ms": due.get()}),
        RescheduleOutcome::Leased => json!({"word": "leased"}),
        RescheduleOutcome::Dead => json!({"word": "dead"}),
        RescheduleOutcome::Finished(state, at) => {
            json!({"word": "finished", "state": state.word(), "time_ms": at.get()})
        }
        RescheduleOutcome::Unknown => json!({"word": "unknown"}),
        RescheduleOutcome::Spooled => json!({"word": "spooled"}),
        RescheduleOutcome::Refused(why) => json!({"word": "refused", "why": why}),
        RescheduleOutcome::Failed(why) => json!({"word": "failed", "why": why}),
    }
}

fn shown_settled(settled: &Settled) -> Value {
    let extended =
        |end: &UnixMillis, doomed: bool| json!({"word": "extended", "time_ms": end.get(), "doomed": doomed});
    match settled {
        Settled::Delivered => json!({"word": "delivered"}),
        Settled::Delayed(due) => json!({"word": "delayed", "time_ms": due.get()}),
        Settled::Ready => json!({"word": "ready"}),
        Settled::Buried => json!({"word": "buried"}),
        Settled::Cancelled => json!({"word": "cancelled"}),
        Settled::ExpiredMessage => json!({"word": "expired-message"}),
        Settled::Extended(end) => extended(end, false),
        Settled::ExtendedDoomed(end) => extended(end, true),
        Settled::Expired => json!({"word": "expired"}),
        Settled::Failed(why) => json!({"word": "failed", "why": why}),
    }
}
