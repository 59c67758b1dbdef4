//! Running scripts over a link: a Redis that does not know one is given it.

mod value;

use crate::error::Error;
use crate::link::{Line, Link};
use delayq_core::call::Call;
use delayq_core::keys::Keys;
use delayq_core::layout::NOT_ASKED;
use delayq_core::reply;
use delayq_core::script::{Scripts, Verb};
use redis::{Cmd, ErrorKind, Pipeline, RedisResult, ServerErrorKind, Value};
use std::collections::HashSet;
use std::sync::Arc;

/// Maximum times that scripts are loaded for one call, if Redis forgets them again at once.
const LOADS: usize = 10;

/// A link, and the scripts of one deployment.
pub(crate) struct ScriptLink {
    link: Link,
    keys: Keys,
    scripts: Arc<Scripts>,
}

// === impl ScriptLink ===

impl ScriptLink {
    pub(crate) fn new(link: Link, keys: Keys, scripts: Arc<Scripts>) -> Self {
        Self { link, keys, scripts }
    }

    /// The same over another connection.
    pub(crate) fn another(&self) -> Self {
        Self::new(self.link.another(), self.keys.clone(), Arc::clone(&self.scripts))
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Sends calls in one pipeline: one answer each. A Redis that does not know a script is given it, and only the
    /// calls that it refused for that are sent again; their order among the others is lost then.
    pub(crate) async fn send_all(&self, calls: &[Call]) -> Vec<Result<reply::Value, Error>> {
        if calls.is_empty() {
            return Vec::new();
        }
        match self.link.by_deadline(|line| self.send_over(line, calls)).await {
            Ok(answers) => answers,
            Err(error) => vec![Err(error); calls.len()],
        }
    }

    async fn send_over(&self, line: Line, calls: &[Call]) -> Result<Vec<Result<reply::Value, Error>>, Error> {
        let all: Vec<usize> = (0..calls.len()).collect();
        let mut answers = self.trip(&line, calls, &all, &[]).await?;
        let mut failed = None;
        // Somebody may flush the scripts again between the loading and the call.
        for _ in 0..LOADS {
            let unknown: Vec<usize> = (0..answers.len()).filter(|&i| is_no_script(&answers[i])).collect();
            if unknown.is_empty() {
                break;
            }
            let verbs: HashSet<Verb> = unknown.iter().map(|&i| calls[i].verb).collect();
            let verbs: Vec<Verb> = verbs.into_iter().collect();
            match self.trip(&line, calls, &unknown, &verbs).await {
                Ok(again) => unknown.into_iter().zip(again).for_each(|(i, answer)| answers[i] = answer),
                // What was answered before stays so.
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        let answer = |(call, answer): (&Call, RedisResult<Value>)| match answer {
            Ok(answer) => Ok(value::of_redis(answer)),
            answer
                if is_no_script(&answer)
                    && let Some(error) = &failed =>
            {
                Err(error.clone())
            }
            Err(error) => {
                let of = (call.shard, call.layout.unwrap_or(NOT_ASKED));
                Err(Error::of_call(self.link.address(), Some(of), &error))
            }
        };
        Ok(calls.iter().zip(answers).map(answer).collect())
    }

    /// One round trip: loads `load` first, then sends the calls at `which`.
    async fn trip(
        &self,
        line: &Line,
        calls: &[Call],
        which: &[usize],
        load: &[Verb],
    ) -> Result<Vec<RedisResult<Value>>, Error> {
        let mut pipeline = Pipeline::with_capacity(load.len() + which.len());
        for &verb in load {
            pipeline.cmd("SCRIPT").arg("LOAD").arg(&self.scripts.get(verb).source);
        }
        for &i in which {
            pipeline.add_command(self.command(&calls[i]));
        }
        let mut answers = self.link.exchange(line, &pipeline).await?.into_iter();
        // What could not be loaded is why its calls are not known.
        let unloaded = answers.by_ref().take(load.len()).find_map(Result::err);
        let because = |answer: RedisResult<Value>| match &unloaded {
            Some(error) if is_no_script(&answer) => Err(error.clone()),
            _ => answer,
        };
        Ok(answers.map(because).collect())
    }

    fn command(&self, call: &Call) -> Cmd {
        let mut command = Cmd::with_capacity(call.arguments().count() + 6, call.bytes() + 160);
        command.arg("EVALSHA").arg(&self.scripts.get(call.verb).sha).arg(2);
        command.arg(self.keys.meta(call.shard)).arg(self.keys.never(call.shard));
        command.arg(call.layout.unwrap_or(NOT_ASKED));
        for argument in call.arguments() {
            command.arg(argument);
        }
        command
    }
}

fn is_no_script(answer: &RedisResult<Value>) -> bool {
    matches!(answer, Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript))
}
