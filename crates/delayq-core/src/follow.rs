//! Sending calls under the layout that is in force: a shard's refusal of another one is followed, and the call repeated.
//!
//! ```text
//! refused, and the shard's layout is ─┬─ newer than known ─► known from now on ─► repeat
//!                                     ├─ older than known ─► raise the shard   ─► repeat
//!                                     └─ of no relation   ─► an error
//! ```
//! Nothing was done by a call that was refused, so repeating it is safe for every script. Only a put is not repeated
//! here after a newer layout: its messages may belong elsewhere now, which is for the caller to see to.

use crate::{
    Client, Error, Layout, ShardId,
    layout::{Known, Learned},
    link::Call,
    reply::Words,
    script::Verb,
};
use redis::Value;
use std::collections::BTreeMap;

/// How often calls are repeated under other layouts: more growths than that during one call are none.
const MOST_ROUNDS: usize = 4;

/// What to do about a call that was refused for its layout.
enum Step {
    Repeat,
    Raise,
    Leave,
    Fail(Error),
}

// === impl Client ===

impl Client {
    /// Begins a call of a script under the layout that is known.
    pub(crate) fn call(&self, verb: Verb, shard: ShardId) -> Call {
        self.link().call(verb, shard, self.known().word())
    }

    /// Sends one call.
    pub(crate) async fn send(&self, call: Call) -> Result<Value, Error> {
        self.send_all(vec![call]).await.pop().expect("as many answers as calls")
    }

    /// Sends calls in one pipeline: one answer each. Those that are refused for their layout are sent again.
    pub(crate) async fn send_all(&self, calls: Vec<Call>) -> Vec<Result<Value, Error>> {
        let mut answers = self.link().send_all(&calls).await;
        for _ in 0..MOST_ROUNDS {
            let again = self.follow(&calls, &mut answers).await;
            if again.is_empty() {
                break;
            }
            let word = self.known().word();
            let repeated: Vec<Call> = again.iter().map(|&i| calls[i].with_layout(word)).collect();
            for (i, answer) in again.into_iter().zip(self.link().send_all(&repeated).await) {
                answers[i] = answer;
            }
        }
        answers
    }

    /// Takes in why calls were refused: which to send again.
    async fn follow(&self, calls: &[Call], answers: &mut [Result<Value, Error>]) -> Vec<usize> {
        let (mut again, mut behind) = (Vec::new(), BTreeMap::<ShardId, Vec<usize>>::new());
        for (i, call) in calls.iter().enumerate() {
            let Err(Error::Layout { found, counts, .. }) = &answers[i] else { continue };
            match self.step(call, found, counts).await {
                Step::Repeat => again.push(i),
                Step::Raise => behind.entry(call.shard).or_default().push(i),
                Step::Leave => {}
                Step::Fail(error) => answers[i] = Err(error),
            }
        }
        if !behind.is_empty() {
            let shards: Vec<ShardId> = behind.keys().copied().collect();
            let raised = self.raise(&shards, &self.known().layout).await;
            for (raised, calls) in raised.into_iter().zip(behind.into_values()) {
                match raised {
                    Ok(_) => again.extend(calls),
                    Err(error) => calls.iter().for_each(|&i| answers[i] = Err(error.clone())),
                }
            }
            again.sort_unstable();
        }
        again
    }

    async fn step(&self, call: &Call, found: &str, counts: &str) -> Step {
        let Ok(counts) = counts.parse::<Layout>() else { return Step::Leave };
        if found != counts.number().to_string() {
            return Step::Leave;
        }
        let mut learned = self.knowledge().learn(&counts);
        if learned == Learned::NeverSo {
            learned = self.ask_the_last(&counts).await;
        }
        // What was put by an older layout may belong elsewhere by the newer one.
        let stands = call.verb != Verb::Put || call.layout == self.known().word();
        match learned {
            Learned::Older if stands => Step::Raise,
            Learned::Same | Learned::Newer if stands => Step::Repeat,
            Learned::Same | Learned::Newer | Learned::Older | Learned::Other => Step::Leave,
            Learned::NeverSo => Step::Fail(never_so(&self.known(), &counts)),
        }
    }

    /// A configured number of shards that this shard does not know may be that of a growth which has not come to it:
    /// the last shard, which the growth made first, knows.
    async fn ask_the_last(&self, found: &Layout) -> Learned {
        let configured = self.known().layout.shards();
        let last = ShardId::new(configured.get() - 1);
        match self.shard_layouts(&[last]).await.pop() {
            Some(Ok(Some(said))) if said.layout.continues(found) => self.knowledge().learn(&said.layout),
            _ => Learned::NeverSo,
        }
    }

    /// Raises shards to a layout, or makes those that it adds: what each of them answered.
    pub(crate) async fn raise(
        &self,
        shards: &[ShardId],
        layout: &Layout,
    ) -> Vec<Result<&'static str, Error>> {
        let counts = layout.to_string();
        let call = |&shard: &ShardId| {
            self.link().call(Verb::Grow, shard, layout.number()).arg(shard.get()).arg(&counts)
        };
        let calls: Vec<Call> = shards.iter().map(call).collect();
        let replies = self.link().send_all(&calls).await;
        shards.iter().zip(replies).map(|(&shard, reply)| self.raised(shard, layout, reply?)).collect()
    }

    fn raised(&self, shard: ShardId, layout: &Layout, reply: Value) -> Result<&'static str, Error> {
        let text = crate::reply::text_of(Verb::Grow, reply)?;
        let mut words = Words::new(&text);
        match words.word() {
            "created" => Ok("created"),
            "raised" => {
                tracing::info!(%shard, %layout, "a shard follows the growth of its deployment");
                Ok("raised")
            }
            "exists" => Ok("exists"),
            "ahead" => {
                let newer: Option<Layout> =
                    words.rest().split(' ').nth(1).and_then(|counts| counts.parse().ok());
                if let Some(newer) = newer {
                    self.knowledge().learn(&newer);
                }
                Ok("ahead")
            }
            "differs" => Err(Error::Deployment(format!(
                "shard {shard} is of another growth: it has layout, number and shard counts {}, not {} {shard} {layout}",
                words.rest(),
                layout.number(),
            ))),
            _ => Err(Error::Protocol { script: Verb::Grow.name(), answer: text }),
        }
    }
}

/// The error of a client whose configuration has a number of shards that the deployment never had.
pub(crate) fn never_so(known: &Known, found: &Layout) -> Error {
    let counts: Vec<String> = found.counts().iter().map(ToString::to_string).collect();
    Error::Deployment(format!(
        "this process is configured for {} shards; the deployment has {}",
        known.layout.shards(),
        match counts.split_last() {
            Some((newest, earlier)) if !earlier.is_empty() =>
                format!("{newest}, and had {}", earlier.join(", then ")),
            _ => counts.concat(),
        }
    ))
}
