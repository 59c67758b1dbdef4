//! Sending calls under the layout that is in force: a shard's refusal of another one is followed, and the call repeated.
//!
//! ```text
//! refused, and the shard's layout is ─┬─ newer than known ─► known from now on ─► repeat
//!                                     ├─ older than known ─► raise the shard   ─► repeat
//!                                     └─ of no relation   ─► an error
//! ```
//! Nothing was done by a call that was refused, so repeating it is safe for every script. Only a put is not repeated
//! here after a newer layout: its messages may belong elsewhere now, which is for the caller to see to. A call that does not
//! wait as its topic asks is refused and repeated in the same way.

mod asking;

use crate::durable::Durable;
use crate::error::Error;
use crate::growth::SharedLayout;
use crate::link::{Grouped, Link, Nodes};
use crate::script_link::ScriptLink;
use crate::wrong_node;
use delayq_core::call::Call;
use delayq_core::durability::{Durability, Waits};
use delayq_core::id::Topic;
use delayq_core::keys::Keys;
use delayq_core::layout::{CallerLayout, Layout, LayoutRelation, LayoutWord};
use delayq_core::reply::{ReplyError, Value};
use delayq_core::script::Verb;
use delayq_core::shard::{ShardCount, ShardId};
use delayq_core::verbs::deployment::{self, Grown};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How often calls are repeated under other layouts: more growths than that during one call are none.
const MOST_ROUNDS: usize = 4;

/// The way to the shards of a deployment. Cheap to clone: all clones share one connection.
#[derive(Clone)]
pub(crate) struct Calls {
    scripts: Arc<ScriptLink>,
    durable: Arc<Durable>,
    layout: SharedLayout,
}

/// The connection to a node, and shards that it has.
pub(crate) type AtNode = (Arc<Link>, Vec<ShardId>);

/// What to do about a call that was refused for its layout.
enum Step {
    Repeat,
    Raise,
    Leave,
    Fail(Error),
}

// === impl Calls ===

impl Calls {
    pub(crate) fn new(scripts: ScriptLink, shards: ShardCount) -> Self {
        let layout = SharedLayout::configured(shards);
        Self { scripts: Arc::new(scripts), durable: Arc::default(), layout }
    }

    /// The same shards on a connection of its own.
    pub(crate) fn apart(&self) -> Self {
        let Self { scripts, durable, layout } = self.clone();
        Self { scripts: Arc::new(scripts.another()), durable, layout }
    }

    pub(crate) fn nodes(&self) -> &Nodes {
        self.scripts.nodes()
    }

    /// The connection to the node that has a shard.
    ///
    /// # Errors
    /// No node says which one that is, or none has it: nothing was sent.
    pub(crate) async fn link_of(&self, shard: ShardId) -> Result<Arc<Link>, Error> {
        self.nodes().of_shard(shard).await
    }

    /// These shards by the nodes that have them, with the connection to each.
    ///
    /// # Errors
    /// No node says which one that is, or none has one of them: nothing was sent.
    pub(crate) async fn by_node(&self, shards: &[ShardId]) -> Result<Vec<AtNode>, Error> {
        let (nodes, nowhere) = self.placed(shards).await;
        nowhere.into_iter().next().map_or(Ok(nodes), |(_, error)| Err(error))
    }

    /// As [`Self::by_node`], with those shards apart that are at no node.
    pub(crate) async fn placed(&self, shards: &[ShardId]) -> (Vec<AtNode>, Vec<(ShardId, Error)>) {
        let Grouped { nodes, nowhere } = self.nodes().group(shards, self.nodes().settings().deadline).await;
        let theirs = |which: Vec<usize>| which.into_iter().map(|i| shards[i]).collect();
        (
            nodes.into_iter().map(|(link, which)| (link, theirs(which))).collect(),
            nowhere.into_iter().map(|(i, error)| (shards[i], error)).collect(),
        )
    }

    /// Sends calls as they are, whatever layout is in force.
    pub(crate) fn scripts(&self) -> &ScriptLink {
        &self.scripts
    }

    pub(crate) fn keys(&self) -> &Keys {
        self.scripts.keys()
    }

    pub(crate) fn shared_layout(&self) -> &SharedLayout {
        &self.layout
    }

    /// The calls that wait for replicas or a disk.
    pub(crate) fn durable(&self) -> &Durable {
        &self.durable
    }

    /// What the answers to a topic's writes wait for, as far as is known.
    pub(crate) fn waits(&self, topic: &Topic) -> Waits {
        self.durable.waits(&topic.as_bytes())
    }

    pub(crate) fn known(&self) -> CallerLayout {
        self.layout.known()
    }

    pub(crate) fn shards(&self) -> ShardCount {
        self.layout.shards()
    }

    /// Sends one call, and reads its answer.
    pub(crate) async fn ask<A>(
        &self,
        call: Call,
        read: impl FnOnce(Value) -> Result<A, ReplyError>,
    ) -> Result<A, Error> {
        let answer = self.send_all(vec![call]).await.pop().expect("as many answers as calls");
        Ok(read(answer?)?)
    }

    /// Sends calls in one pipeline, and reads each answer.
    pub(crate) async fn ask_all<A>(
        &self,
        calls: Vec<Call>,
        read: impl Fn(Value) -> Result<A, ReplyError>,
    ) -> Vec<Result<A, Error>> {
        self.send_all(calls).await.into_iter().map(|reply| Ok(read(reply?)?)).collect()
    }

    /// Sends calls in one pipeline: one answer each. Those that are refused for their layout, or because they do not wait as
    /// their topic asks, are sent again.
    pub(crate) async fn send_all(&self, mut calls: Vec<Call>) -> Vec<Result<Value, Error>> {
        let word = self.known().word();
        for call in &mut calls {
            call.layout.get_or_insert(word);
            // A put waits for what its queue does.
            if call.verb != Verb::Put
                && let Some(topic) = call.written_topic()
            {
                call.waits = self.durable.waits(topic);
            }
        }
        let mut answers = self.send(&calls).await;
        for _ in 0..MOST_ROUNDS {
            let again = self.follow(&mut calls, &mut answers).await;
            if again.is_empty() {
                break;
            }
            let word = self.known().word();
            let repeated: Vec<Call> = again.iter().map(|&i| calls[i].clone().under(word)).collect();
            for (i, answer) in again.into_iter().zip(self.send(&repeated).await) {
                answers[i] = answer;
            }
        }
        self.explain_missing(&calls, &mut answers).await;
        answers
    }

    /// Sends calls as they are, each where it does not hold up those that wait for less.
    async fn send(&self, calls: &[Call]) -> Vec<Result<Value, Error>> {
        let Some(first) = calls.first() else { return Vec::new() };
        if calls.iter().all(|call| call.waits == first.waits) {
            return self.send_waiting(&first.waits, calls).await;
        }
        let mut lanes = BTreeMap::<&Waits, Vec<usize>>::new();
        for (i, call) in calls.iter().enumerate() {
            lanes.entry(&call.waits).or_default().push(i);
        }
        let sent = join_all(lanes.into_iter().map(|(waits, which)| async move {
            let some: Vec<Call> = which.iter().map(|&i| calls[i].clone()).collect();
            let answers = self.send_waiting(waits, &some).await;
            which.into_iter().zip(answers).collect::<Vec<_>>()
        }));
        let mut answers = sent.await.concat();
        answers.sort_by_key(|(i, _)| *i);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// Sends calls that all wait for this.
    async fn send_waiting(&self, waits: &Waits, calls: &[Call]) -> Vec<Result<Value, Error>> {
        match waits.is_empty() {
            true => self.scripts.send_all(calls).await,
            false => self.durable.send(&self.scripts, waits, calls).await,
        }
    }

    /// Takes in why calls were refused: which to send again.
    async fn follow(&self, calls: &mut [Call], answers: &mut [Result<Value, Error>]) -> Vec<usize> {
        let (mut again, mut behind) = (Vec::new(), BTreeMap::<ShardId, Vec<usize>>::new());
        for (i, call) in calls.iter_mut().enumerate() {
            let step = match &answers[i] {
                Err(Error::Layout { found, counts, .. }) => self.step(call, found, counts).await,
                Err(Error::Durability(asked)) => self.wait_for(call, *asked),
                _ => continue,
            };
            match step {
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

    /// Has a call wait for what its topic asks. A put is not repeated here: those that were sent together would have to wait for
    /// it.
    fn wait_for(&self, call: &mut Call, asked: Durability) -> Step {
        if let Some(topic) = call.written_topic() {
            self.durable.learn(topic, asked);
        }
        call.waits.add(asked);
        if call.verb == Verb::Put { Step::Leave } else { Step::Repeat }
    }

    async fn step(&self, call: &Call, found: &str, counts: &str) -> Step {
        let (Ok(counts), Ok(word)) = (counts.parse::<Layout>(), found.parse::<LayoutWord>()) else {
            return Step::Leave;
        };
        let wrong = wrong_node::check(call.shard, self.nodes().name(call.shard), word.place.node());
        if let Err(error) = wrong {
            return Step::Fail(error);
        }
        if word.number != counts.number() {
            return Step::Leave;
        }
        let mut learned = self.layout.learn(&counts);
        if learned == LayoutRelation::NeverSo {
            learned = self.ask_the_last(&counts).await;
        }
        // What was put by an older layout may belong elsewhere by the newer one.
        let stands = call.verb != Verb::Put || call.layout == Some(self.known().word());
        match learned {
            LayoutRelation::Older if stands => Step::Raise,
            LayoutRelation::Same | LayoutRelation::Newer if stands => Step::Repeat,
            LayoutRelation::Same | LayoutRelation::Newer | LayoutRelation::Older | LayoutRelation::Other => {
                Step::Leave
            }
            LayoutRelation::NeverSo => Step::Fail(never_so(&self.known(), &counts)),
        }
    }

    /// Raises shards to a layout, or makes those that it adds: what each of them answered.
    pub(crate) async fn raise(&self, shards: &[ShardId], layout: &Layout) -> Vec<Result<Grown, Error>> {
        let calls: Vec<Call> = shards.iter().map(|&shard| deployment::grow(shard, layout)).collect();
        let replies = self.scripts.send_all(&calls).await;
        shards.iter().zip(replies).map(|(&shard, reply)| self.raised(shard, layout, reply?)).collect()
    }

    fn raised(&self, shard: ShardId, layout: &Layout, reply: Value) -> Result<Grown, Error> {
        let grown = deployment::read_grown(reply)?;
        match &grown {
            Grown::Raised => tracing::info!(%shard, %layout, "a shard follows the growth of its deployment"),
            Grown::Ahead(Some(newer)) => {
                self.layout.learn(newer);
            }
            Grown::Differs(found) => {
                return Err(Error::Deployment(format!(
                    "shard {shard} is of another growth: it has layout, number and shard counts {found}, not {} {shard} {layout}",
                    layout.number(),
                )));
            }
            Grown::Created | Grown::Exists | Grown::Ahead(None) => {}
        }
        Ok(grown)
    }
}

/// The error of a client whose configuration has a number of shards that the deployment never had.
fn never_so(known: &CallerLayout, found: &Layout) -> Error {
    let counts: Vec<String> = found.counts().iter().map(ToString::to_string).collect();
    Error::Deployment(format!(
        "this process is configured for {}; the deployment has {}",
        known.layout.shards().in_words(),
        match counts.split_last() {
            Some((newest, earlier)) if !earlier.is_empty() =>
                format!("{newest}, and had {}", earlier.join(", then ")),
            _ => counts.concat(),
        }
    ))
}
