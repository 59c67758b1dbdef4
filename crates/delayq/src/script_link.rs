//! Running scripts: each at the node that has its shard, and a Redis that does not know one is given it.
//!
//! A call to one of several Redises carries its name with the layout, so that a shard of another one refuses it.
//!
//! So does one that has moved to another of them, by its record; it is sent to that one then (see [`following`]).
//!
//! A node that answers MOVED did not run the script, so it is sent to the node that has the shard now. One that answers
//! ASK or TRYAGAIN is giving the shard's slot away: each script declares a key that never exists, so neither node runs any
//! until the last key has moved, and asking the other one first is of no use. The caller tries again.
//!
//! Where calls wait for replicas or a disk, WAIT and WAITAOF go behind them in the same pipeline: so they count from these
//! calls on, and no call is answered by another master than the one that is waited for.

mod confirming;
mod following;
mod value;

use crate::clock;
use crate::error::Error;
use crate::link::{Grouped, Line, Link, Nodes};
use confirming::Confirming;
use delayq_core::call::Call;
use delayq_core::durability::Waits;
use delayq_core::id::NodeName;
use delayq_core::keys::Keys;
use delayq_core::layout::{LayoutWord, NOT_ASKED};
use delayq_core::reply;
use delayq_core::script::{Scripts, Verb};
use delayq_core::shard::ShardId;
use delayq_core::verbs::deployment;
use following::Following;
use futures_util::future::join_all;
use redis::{Cmd, Pipeline, RedisResult, Value};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum times that scripts are loaded for one call, if Redis forgets them again at once.
const LOADS: usize = 10;

/// How often a call is sent at most, each time to where it moved: more moves during one call are none.
const SENDINGS: usize = 5;

/// The connections to a deployment, and its scripts.
pub(crate) struct ScriptLink {
    nodes: Nodes,
    scripts: Arc<Scripts>,
    /// What all its calls wait for.
    waits: Waits,
}

/// The connection over which calls go, and their deadline.
struct Way<'l> {
    link: &'l Link,
    line: Line,
    until: Instant,
}

// === impl ScriptLink ===

impl ScriptLink {
    pub(crate) fn new(nodes: Nodes, scripts: Arc<Scripts>) -> Self {
        Self { nodes, scripts, waits: Waits::NOTHING }
    }

    /// The same over other connections.
    pub(crate) fn another(&self) -> Self {
        Self::new(self.nodes.another(), Arc::clone(&self.scripts))
    }

    /// The same over other connections, for calls that wait for this.
    pub(crate) fn waiting(&self, waits: Waits) -> Self {
        Self { waits, ..self.another() }
    }

    pub(crate) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    pub(crate) fn keys(&self) -> &Keys {
        self.nodes.keys()
    }

    /// Asks each of several Redises, whichever shards it has: what each of them answers.
    pub(crate) async fn ask_everywhere(
        &self,
        calls: &[&Call],
    ) -> Vec<(NodeName, Vec<Result<reply::Value, Error>>)> {
        let (deadline, links) = (self.nodes.settings().deadline, self.nodes.all().await.unwrap_or_default());
        let asked = links.iter().filter_map(|link| {
            let name = link.name()?.clone();
            Some(async move { (name, Box::pin(self.send_to(link, calls, deadline)).await) })
        });
        join_all(asked).await
    }

    /// Sends calls, those for each node in one pipeline: one answer each. A Redis that does not know a script is given it,
    /// and only the calls that it refused for that are sent again, as are those whose shard has moved to another node;
    /// their order among the others is lost then.
    pub(crate) async fn send_all(&self, calls: &[Call]) -> Vec<Result<reply::Value, Error>> {
        self.send_within(calls, self.nodes.settings().deadline).await
    }

    /// As [`Self::send_all`], within another deadline.
    pub(crate) async fn send_within(
        &self,
        calls: &[Call],
        deadline: Duration,
    ) -> Vec<Result<reply::Value, Error>> {
        if calls.is_empty() {
            return Vec::new();
        }
        let every: Vec<&Call> = calls.iter().collect();
        // Boxed, because a future in which all of them lie is more than the compiler lays out.
        match self.nodes.only() {
            Some(link) => Box::pin(self.send_to(link, &every, deadline)).await,
            None => Box::pin(self.route(&every, deadline)).await,
        }
    }

    /// Sends each call to the node that has its shard.
    async fn route(&self, calls: &[&Call], deadline: Duration) -> Vec<Result<reply::Value, Error>> {
        let began = clock::instant();
        let mut answers: Vec<Option<Result<reply::Value, Error>>> = vec![None; calls.len()];
        let mut left: Vec<usize> = (0..calls.len()).collect();
        let mut following = Following::default();
        for _ in 0..SENDINGS {
            let shards: Vec<ShardId> = left.iter().map(|&i| calls[i].shard).collect();
            let rest = || deadline.saturating_sub(began.elapsed());
            let Grouped { nodes, nowhere } = self.nodes.group(&shards, rest()).await;
            nowhere.into_iter().for_each(|(at, error)| answers[left[at]] = Some(Err(error)));
            let rest = rest();
            let sent = join_all(nodes.into_iter().map(|(link, which)| {
                let which: Vec<usize> = which.into_iter().map(|at| left[at]).collect();
                async move {
                    let some: Vec<&Call> = which.iter().map(|&i| calls[i]).collect();
                    let answers = self.send_to(&link, &some, rest).await;
                    (link, which, answers)
                }
            }));
            let sent = sent.await;
            left.clear();
            let mut moved = Vec::new();
            for (link, which, some) in sent {
                for (i, answer) in which.into_iter().zip(some) {
                    let shard = calls[i].shard;
                    if following.follow(&self.nodes, &link, shard, &answer) {
                        left.push(i);
                    } else if following.is_to_be_asked(&link, shard, &answer) {
                        following.ask(&link, i);
                    }
                    if let Some(to) = redirection(&answer).and_then(|to| Nodes::redirected(&link, to)) {
                        moved.push((self.keys().slot(calls[i].shard), to));
                        left.push(i);
                    }
                    answers[i] = Some(answer);
                }
            }
            self.nodes.moved(&moved);
            for (link, which) in following.asked() {
                let elsewhere =
                    self.recorded_elsewhere(&link, calls, &which, deadline.saturating_sub(began.elapsed()));
                left.extend(elsewhere.await);
            }
            if left.is_empty() || began.elapsed() >= deadline {
                break;
            }
        }
        let answered = answers.into_iter().map(|answer| answer.expect("each call was sent or refused"));
        answered.zip(calls).map(|(answer, call)| following.settle(&self.nodes, call.shard, answer)).collect()
    }

    /// Of calls that a replica refused, those of shards that record another node: processes are told of it before it is
    /// promoted, and a move may be taken back.
    async fn recorded_elsewhere(
        &self,
        link: &Link,
        calls: &[&Call],
        which: &[usize],
        deadline: Duration,
    ) -> Vec<usize> {
        let shards: BTreeSet<ShardId> = which.iter().map(|&i| calls[i].shard).collect();
        let asking: Vec<Call> =
            shards.into_iter().map(|shard| deployment::ask(shard).under(NOT_ASKED)).collect();
        let replies = self.send_to(link, &asking.iter().collect::<Vec<_>>(), deadline).await;
        let is_elsewhere = |(call, reply): (Call, Result<reply::Value, Error>)| {
            let asked = deployment::read_asked(reply.ok()?, call.shard).ok()?;
            let node = asked.node().filter(|node| link.name() != Some(*node))?;
            self.nodes.learn(call.shard, node).then_some(call.shard)
        };
        let elsewhere: BTreeSet<ShardId> = asking.into_iter().zip(replies).filter_map(is_elsewhere).collect();
        which.iter().copied().filter(|&i| elsewhere.contains(&calls[i].shard)).collect()
    }

    /// Sends calls to this one of several Redises, whichever has their shards.
    pub(crate) async fn send_at(&self, link: &Link, calls: &[Call]) -> Vec<Result<reply::Value, Error>> {
        let every: Vec<&Call> = calls.iter().collect();
        Box::pin(self.send_to(link, &every, self.nodes.settings().deadline)).await
    }

    /// Sends calls to one node, in one pipeline.
    async fn send_to(
        &self,
        link: &Link,
        calls: &[&Call],
        deadline: Duration,
    ) -> Vec<Result<reply::Value, Error>> {
        let until = clock::instant() + deadline;
        match link.by_deadline(deadline, |line| self.send_over(Way { link, line, until }, calls)).await {
            Ok(answers) => answers,
            Err(error) => vec![Err(error); calls.len()],
        }
    }

    async fn send_over(
        &self,
        way: Way<'_>,
        calls: &[&Call],
    ) -> Result<Vec<Result<reply::Value, Error>>, Error> {
        let all: Vec<usize> = (0..calls.len()).collect();
        let mut answers = self.trip(&way, calls, &all, &[]).await?;
        // Somebody may flush the scripts again between the loading and the call.
        for _ in 0..LOADS {
            let unknown: Vec<usize> = (0..answers.len()).filter(|&i| is_no_script(&answers[i])).collect();
            if unknown.is_empty() {
                break;
            }
            let verbs: HashSet<Verb> = unknown.iter().map(|&i| calls[i].verb).collect();
            let verbs: Vec<Verb> = verbs.into_iter().collect();
            match self.trip(&way, calls, &unknown, &verbs).await {
                Ok(again) => unknown.into_iter().zip(again).for_each(|(i, answer)| answers[i] = answer),
                // What was answered before stays so.
                Err(error) => {
                    unknown.into_iter().for_each(|i| answers[i] = Err(error.clone()));
                    break;
                }
            }
        }
        Ok(answers)
    }

    /// One round trip: loads `load` first, then sends the calls at `which`, and waits for what confirms them.
    async fn trip(
        &self,
        Way { link, line, until }: &Way<'_>,
        calls: &[&Call],
        which: &[usize],
        load: &[Verb],
    ) -> Result<Vec<Result<reply::Value, Error>>, Error> {
        let mut pipeline = Pipeline::with_capacity(load.len() + which.len() + 2);
        for &verb in load {
            pipeline.cmd("SCRIPT").arg("LOAD").arg(&self.scripts.get(verb).source);
        }
        for &i in which {
            pipeline.add_command(self.command(calls[i], link.name()));
        }
        let confirming = Confirming::new(&self.waits, link.settings(), *until);
        confirming.ask(&mut pipeline);
        let mut answers = link.exchange(line, &pipeline).await?.into_iter();
        // What could not be loaded is why its calls are not known.
        let unloaded = answers.by_ref().take(load.len()).find_map(Result::err);
        let some: Vec<RedisResult<Value>> = answers.by_ref().take(which.len()).collect();
        let unconfirmed = confirming.read(link.address(), answers);
        let read = |(&i, answer): (&usize, RedisResult<Value>)| {
            let of = (calls[i].shard, calls[i].layout.unwrap_or(NOT_ASKED));
            let answer = answer.map_err(|error| Error::of_call(link.address(), Some(of), &error));
            match (&unloaded, &unconfirmed) {
                (Some(error), _) if is_no_script(&answer) => {
                    Err(Error::of_call(link.address(), Some(of), error))
                }
                (_, Some(error)) if answer.is_ok() => Err(error.clone()),
                _ => answer.map(value::of_redis),
            }
        };
        Ok(which.iter().zip(some).map(read).collect())
    }

    fn command(&self, call: &Call, node: Option<&NodeName>) -> Cmd {
        let (keys, number) = (self.keys(), call.layout.unwrap_or(NOT_ASKED));
        let word = LayoutWord::meant_for(number, node);
        let mut command = Cmd::with_capacity(call.arguments().count() + 6, call.bytes() + 160);
        command.arg("EVALSHA").arg(&self.scripts.get(call.verb).sha).arg(2);
        command.arg(keys.meta(call.shard)).arg(keys.never(call.shard));
        match (node, call.waits.is_empty()) {
            (None, true) => command.arg(number),
            (_, true) => command.arg(word.to_string()),
            (_, false) => command.arg(format!("{word} {}", call.waits)),
        };
        for argument in call.arguments() {
            command.arg(argument);
        }
        command
    }
}

/// Where a node says that a call's slot is now.
fn redirection(answer: &Result<reply::Value, Error>) -> Option<&str> {
    match answer {
        Err(Error::Redis { code, detail }) if code == "MOVED" => Some(detail.split_once(' ')?.1),
        _ => None,
    }
}

fn is_no_script<T>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::Redis { code, .. }) if code == "NOSCRIPT")
}
