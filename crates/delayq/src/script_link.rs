//! The wire: scripts by their hash, each call sent to the shard's node, in one round trip.
//!
//! A call to one of several Redises carries the name of that Redis with the layout, so that a shard of another Redis
//! refuses the call.
//!
//! A node that answers ASK or TRYAGAIN is giving the shard's slot away: each script declares a key that never exists,
//! so neither node runs any script until the last key has moved, and asking the new node early is useless. The caller
//! tries again.
//!
//! For calls that wait for replicas or a disk, WAIT and WAITAOF follow in the same pipeline: both count from these
//! calls on, and no call is answered by another master than the master of the wait.

mod confirming;
mod value;

use crate::clock;
use crate::error::Error;
use crate::link::{Line, Link};
use crate::topology::{Grouped, Nodes};
use confirming::Confirming;
use delayq_core::call::Call;
use delayq_core::durability::Waits;
use delayq_core::id::NodeName;
use delayq_core::keys::Keys;
use delayq_core::layout::{LayoutWord, NOT_ASKED};
use delayq_core::reply;
use delayq_core::script::{Scripts, Verb};
use delayq_core::shard::ShardId;
use futures_util::future::join_all;
use redis::{Cmd, Pipeline, RedisResult, Value};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(crate) struct ScriptLink {
    nodes: Nodes,
    scripts: Arc<Scripts>,
    waits: Waits,
}

#[derive(Clone, Copy)]
pub(crate) struct Outgoing<'c> {
    pub(crate) call: &'c Call,
    /// True if the script has to be loaded first.
    pub(crate) loads: bool,
}

pub(crate) struct Sent {
    pub(crate) answer: Result<reply::Value, Error>,
    /// The node of the shard, if the topology chose it.
    pub(crate) node: Option<Arc<Link>>,
}

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

    pub(crate) fn another(&self) -> Self {
        Self::new(self.nodes.another(), Arc::clone(&self.scripts))
    }

    /// New connections, for calls with these waits.
    pub(crate) fn waiting(&self, waits: Waits) -> Self {
        Self { waits, ..self.another() }
    }

    pub(crate) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    pub(crate) fn keys(&self) -> &Keys {
        self.nodes.keys()
    }

    /// With one pipeline for each node; `at`, if given, gets every call. Returns one answer for each call.
    pub(crate) async fn send(&self, calls: &[Outgoing<'_>], at: Option<&Link>, until: Instant) -> Vec<Sent> {
        if let Some(link) = at {
            let answers = Box::pin(self.send_to(link, calls, until)).await;
            return answers.into_iter().map(|answer| Sent { answer, node: None }).collect();
        }
        let shards: Vec<ShardId> = calls.iter().map(|outgoing| outgoing.call.shard).collect();
        let Grouped { nodes, nowhere } = self.nodes.group(&shards, left(until)).await;
        let trips = nodes.into_iter().map(|(link, which)| async move {
            let some: Vec<Outgoing<'_>> = which.iter().map(|&i| calls[i]).collect();
            (self.send_to(&link, &some, until).await, link, which)
        });
        let mut sent: Vec<Option<Sent>> = calls.iter().map(|_| None).collect();
        // Boxed, because the compiler cannot lay out a future that contains all the trips.
        for (answers, link, which) in Box::pin(join_all(trips)).await {
            for (i, answer) in which.into_iter().zip(answers) {
                sent[i] = Some(Sent { answer, node: Some(Arc::clone(&link)) });
            }
        }
        for (i, error) in nowhere {
            sent[i] = Some(Sent { answer: Err(error), node: None });
        }
        sent.into_iter().map(|sent| sent.expect("a shard has one node or none")).collect()
    }

    async fn send_to(
        &self,
        link: &Link,
        calls: &[Outgoing<'_>],
        until: Instant,
    ) -> Vec<Result<reply::Value, Error>> {
        let trip = |line| async move { self.trip(&Way { link, line, until }, calls).await };
        match link.by_deadline(left(until), trip).await {
            Ok(answers) => answers,
            Err(error) => vec![Err(error); calls.len()],
        }
    }

    /// Loads scripts, sends the calls, and waits for confirmation in one round trip.
    async fn trip(
        &self,
        Way { link, line, until }: &Way<'_>,
        calls: &[Outgoing<'_>],
    ) -> Result<Vec<Result<reply::Value, Error>>, Error> {
        let to_load = calls.iter().filter(|outgoing| outgoing.loads).map(|outgoing| outgoing.call.verb);
        let load: HashSet<Verb> = to_load.collect();
        let mut pipeline = Pipeline::with_capacity(load.len() + calls.len() + 2);
        for &verb in &load {
            pipeline.cmd("SCRIPT").arg("LOAD").arg(&self.scripts.get(verb).source);
        }
        for outgoing in calls {
            pipeline.add_command(self.command(outgoing.call, link.name()));
        }
        let confirming = Confirming::new(&self.waits, link.settings(), *until);
        confirming.ask(&mut pipeline);
        let mut answers = link.exchange(line, &pipeline).await?.into_iter();
        // A failed SCRIPT LOAD explains a NOSCRIPT.
        let unloaded = answers.by_ref().take(load.len()).find_map(Result::err);
        let some: Vec<RedisResult<Value>> = answers.by_ref().take(calls.len()).collect();
        let unconfirmed = confirming.read(link.address(), answers);
        let read = |(Outgoing { call, .. }, answer): (&Outgoing<'_>, RedisResult<Value>)| {
            let of = (call.shard, call.layout.unwrap_or(NOT_ASKED));
            let answer = answer.map_err(|error| Error::of_call(link.address(), Some(of), &error));
            match (&unloaded, &unconfirmed) {
                (Some(error), _) if answer.as_ref().is_err_and(Error::is_no_script) => {
                    Err(Error::of_call(link.address(), Some(of), error))
                }
                (_, Some(error)) if answer.is_ok() => Err(error.clone()),
                _ => answer.map(value::of_redis),
            }
        };
        Ok(calls.iter().zip(some).map(read).collect())
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

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(clock::instant())
}
