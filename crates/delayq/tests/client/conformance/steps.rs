//! The client's calls of each step.

use crate::conformance::run::{Ended, Run};
use crate::conformance::said::{list, members, numbered, request, text, unhex};
use crate::conformance::shown::{
    changed, code, ended, one_put, shown_cancel, shown_item, shown_put, shown_reschedule, shown_settled,
};
use delayq::protocol::{
    Holder, Keys, Leased, Receipt, Release, Reservation, ReserveRequest, Scripts, ShardId, Verb,
};
use delayq::{Client, Error, Settled, Shift};
use delayq_tests::deadline::{LONG, wait_until};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;

impl Run<'_> {
    pub(crate) async fn step(&mut self, step: &Value) -> Ended {
        match text(&step["op"]) {
            "put" => self.put(step).await,
            "put_many" => self.put_many(step).await,
            "cancel" => self.cancel(step).await,
            "reschedule" => self.reschedule(step).await,
            "cancel_group" => changed(self.producer.cancel_group(members(step)).await),
            "shift_group" => {
                let by = Shift::from_millis(step["by_ms"].as_i64().unwrap());
                changed(self.producer.reschedule_group(members(step), by, "token").await)
            }
            "reserve" => self.reserve(step).await,
            "drain" => self.drain(step).await,
            "listening" => self.listening(step).await,
            "pump" => self.pump(step).await,
            "script" => self.script(step).await,
            "redis" => self.redis(step).await,
            verb => self.settle(verb, step).await,
        }
    }

    async fn put(&self, step: &Value) -> Ended {
        match self.message(&step["message"]) {
            None => Ended::Invalid,
            Some(message) => one_put(self.producer.put(message).await),
        }
    }

    async fn put_many(&self, step: &Value) -> Ended {
        let said: Vec<Value> = match step["times"].as_u64() {
            Some(times) => (0..times as usize).map(|n| numbered(&step["message"], n)).collect(),
            None => list(&step["messages"]).to_vec(),
        };
        let messages = said.iter().map(|said| self.message(said).unwrap()).collect();
        let puts = self.producer.put_many(messages).await;
        let fault = puts.iter().find_map(|put| put.as_ref().err()).map(|fault| code(&fault.error));
        let shown = puts.into_iter().map(|put| match put {
            Ok(put) => shown_put(&put),
            Err(fault) => {
                json!({"word": "unanswered", "id": fault.reference.map(|reference| reference.id.to_string())})
            }
        });
        match (fault, shown.collect()) {
            (None, answers) => Ended::Answer(answers),
            (Some(code), answers) => Ended::Partly(code, answers),
        }
    }

    async fn cancel(&self, step: &Value) -> Ended {
        let (topic, target) = self.target(step);
        ended(self.producer.cancel(&topic, &target).await.map(|outcome| shown_cancel(&outcome)))
    }

    async fn reschedule(&self, step: &Value) -> Ended {
        let ((topic, target), change) = (self.target(step), self.change(step));
        let outcome = self.producer.reschedule(&topic, &target, change).await;
        ended(outcome.map(|outcome| shown_reschedule(&outcome)))
    }

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
        for settled in Holder::new(self.client.clone()).ack(&receipts).await {
            assert_eq!(settled.unwrap(), Settled::Delivered);
        }
        Ended::Answer(json!(receipts.len()))
    }

    async fn listening(&self, step: &Value) -> Ended {
        let channel = format!("{{{}:{}}}:ready", self.namespace, step["shard"]);
        let ask = ["PUBSUB", "SHARDNUMSUB", &channel];
        let heard = async || self.server.command::<(String, u64)>(&ask).await.1 > 0;
        wait_until("somebody to listen", LONG, heard).await;
        Ended::Answer(Value::Null)
    }

    async fn pump(&self, step: &Value) -> Ended {
        let (shard, args) = (step["shard"].as_u64().unwrap(), ["0".into(), "500".into()]);
        let moved = async || {
            let said = self.call("pump", shard, 1, &args).await;
            said[3] != "0" || said[4] != "0"
        };
        wait_until("a pump to move something", LONG, moved).await;
        Ended::Answer(Value::Null)
    }

    async fn script(&self, step: &Value) -> Ended {
        let shard = self.known(&step["shard"]).as_u64().unwrap();
        let layout = step["layout"].as_u64().unwrap_or(1);
        Ended::Answer(self.call(text(&step["verb"]), shard, layout, list(&step["args"])).await)
    }

    async fn redis(&self, step: &Value) -> Ended {
        let filled = |arg: &Value| text(arg).replace("NAMESPACE", &self.namespace);
        let args: Vec<String> = list(&step["args"]).iter().map(filled).collect();
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        self.server.command::<redis::Value>(&words).await;
        Ended::Answer(Value::Null)
    }

    async fn settle(&self, verb: &str, step: &Value) -> Ended {
        let leased: Vec<&Leased> = list(&step["receipts"])
            .iter()
            .map(|name| &self.receipts[self.known(name).as_u64().unwrap() as usize])
            .collect();
        let receipts: Vec<Receipt> = leased.iter().map(|leased| leased.receipt.clone()).collect();
        let holder = Holder::new(self.client.clone());
        let lease = step["lease_ms"].as_u64().map(Duration::from_millis);
        let reason = step["reason"].as_str().unwrap_or_default().to_owned();
        let settled = match verb {
            "ack" if step.get("next").is_some() => {
                let Some(next) = self.message(&step["next"]) else { return Ended::Invalid };
                match holder.ack_and_put(leased[0], next).await {
                    Err(Error::Message(_)) => return Ended::Invalid,
                    settled => vec![settled],
                }
            }
            "ack" => holder.ack(&receipts).await,
            "extend" => holder.extend(&receipts, lease).await,
            "bury" => {
                let buried: Vec<_> = receipts.into_iter().map(|receipt| (receipt, reason.clone())).collect();
                holder.bury(&buried).await
            }
            "release" => {
                let release = |receipt| Release {
                    receipt,
                    delay: step["delay_ms"].as_u64().map(Duration::from_millis),
                    keep_attempt: step["keep_attempt"].as_bool().unwrap_or(false),
                    reason: reason.clone(),
                };
                holder.release(&receipts.into_iter().map(release).collect::<Vec<_>>()).await
            }
            other => panic!("no such step: {other}"),
        };
        Ended::Answer(settled.into_iter().map(|answer| shown_settled(&answer.unwrap())).collect())
    }

    pub(crate) async fn call(&self, verb: &str, shard: u64, layout: u64, args: &[Value]) -> Value {
        let verb = *Verb::ALL.iter().find(|known| known.name() == verb).unwrap();
        let shard = ShardId::new(shard.try_into().unwrap());
        let keys = Keys::new(self.client.namespace().clone());
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
}

async fn reserve(client: Client, request: ReserveRequest, wait: Duration) -> Result<Vec<Reservation>, Error> {
    let mut listener = Holder::new(client.clone()).listen(client.shards().shards().collect());
    let looking = async {
        loop {
            let mut rest = Duration::from_secs(1);
            for shard in client.shards().shards() {
                let report =
                    Holder::new(client.clone()).reserve(&[(shard, request.clone())]).await.remove(0)?;
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
