//! One connection to one Redis: every call has a deadline, and a connection that no longer answers is thrown away.
//!
//! A connection manager that only reconnects when the peer hangs up stays dead on a connection that is black-holed.
//! So a link counts: three deadlines in a row without an answer between them, or any error of the connection
//! itself, and the next call begins on a new one.
//!
//! A Redis that answers that it is no master any more is well, and yet of no use: behind an address that moves, a new
//! connection leads to the present master. So such an answer ends the connection too, and those who listen beside it
//! are told to connect anew.

mod address;
mod call;
mod settings;

pub use address::mask_query;
pub(crate) use call::Call;
pub use settings::LinkSettings;

use crate::{
    Error, ShardId,
    keys::Keys,
    script::{Scripts, Verb},
};
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value,
    aio::MultiplexedConnection,
};
use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

/// Deadlines in a row after which a connection is thrown away.
const SILENT_CALLS: u32 = 3;

/// How long a call goes on past its deadline, so that its thread reads what has arrived: it may have been kept busy, or
/// stopped, until then.
const LAST_LOOK: Duration = Duration::from_millis(20);

/// How often scripts are loaded for one call, at most, where Redis forgets them again at once.
const LOADS: usize = 10;

/// How long a connection is kept at least, whatever Redis answers on it: one that stays a replica is not connected to
/// again for each call.
const SHORTEST_LIFE: Duration = Duration::from_millis(200);

/// What a Redis answers behind which there is another one now, or for which the login is an old one: a new connection
/// may reach the right one.
const ELSEWHERE: [&str; 3] = ["MASTERDOWN", "NOAUTH", "READONLY"];

/// A connection to one Redis, shared by all who call it.
pub(crate) struct Link {
    settings: LinkSettings,
    address: String,
    keys: Keys,
    scripts: Arc<Scripts>,
    current: Mutex<Option<Line>>,
    connecting: tokio::sync::Mutex<()>,
    silent: AtomicU32,
    /// How often a connection was given up because its Redis is none to write to any more; shared by all links of a
    /// client.
    moves: watch::Sender<u32>,
}

/// A connection, and when it was made.
#[derive(Clone)]
struct Line {
    connection: MultiplexedConnection,
    since: Instant,
}

// === impl Link ===

impl Link {
    pub(crate) fn new(settings: LinkSettings, keys: Keys, scripts: Arc<Scripts>) -> Self {
        let address = settings.address();
        Self {
            settings,
            address,
            keys,
            scripts,
            current: Mutex::new(None),
            connecting: tokio::sync::Mutex::new(()),
            silent: AtomicU32::new(0),
            moves: watch::Sender::new(0),
        }
    }

    /// Another connection to the same Redis.
    pub(crate) fn another(&self) -> Self {
        let another = Self::new(self.settings.clone(), self.keys.clone(), Arc::clone(&self.scripts));
        Self { moves: self.moves.clone(), ..another }
    }

    /// Changes when a connection was given up because its Redis is none to write to any more.
    pub(crate) fn moves(&self) -> watch::Receiver<u32> {
        self.moves.subscribe()
    }

    pub(crate) fn settings(&self) -> &LinkSettings {
        &self.settings
    }

    /// Begins a call of a script; the layout that the caller knows is its first argument.
    pub(crate) fn call(&self, verb: Verb, shard: ShardId, layout: u32) -> Call {
        let mut command = Cmd::new();
        command.arg("EVALSHA").arg(&self.scripts.get(verb).sha).arg(2);
        command.arg(self.keys.meta(shard)).arg(self.keys.never(shard)).arg(layout);
        Call { verb, shard, layout, command }
    }

    /// Sends calls in one pipeline: one answer each. A Redis that does not know a script is given it, and only the
    /// calls that it refused for that are sent again; their order among the others is lost then.
    pub(crate) async fn send_all(&self, calls: &[Call]) -> Vec<Result<Value, Error>> {
        if calls.is_empty() {
            return Vec::new();
        }
        let sent = AtomicU32::new(0);
        match by_deadline(self.settings.deadline, self.send_within(calls, &sent)).await {
            Some(Ok(answers)) => answers,
            Some(Err(error)) => vec![Err(error); calls.len()],
            None => {
                self.note_silence();
                let why = format!("deadline of {:?} passed", self.settings.deadline);
                let address = self.address.clone();
                let error = if sent.load(Ordering::Relaxed) == 0 {
                    Error::Unreachable { address, why }
                } else {
                    Error::NoAnswer { address, why }
                };
                vec![Err(error); calls.len()]
            }
        }
    }

    /// Runs plain commands, for looking at the server itself.
    pub(crate) async fn plain(&self, command: &Cmd) -> Result<Value, Error> {
        let run = async {
            let mut line = self.line().await?;
            let answer = line.connection.send_packed_command(command).await;
            let answer = answer.and_then(Value::extract_error);
            self.note_answer(&line, answer.as_ref().err());
            answer.map_err(|error| Error::of_call(&self.address, None, &error))
        };
        match by_deadline(self.settings.deadline, run).await {
            Some(answer) => answer,
            None => {
                self.note_silence();
                let why = format!("deadline of {:?} passed", self.settings.deadline);
                Err(Error::NoAnswer { address: self.address.clone(), why })
            }
        }
    }

    async fn send_within(
        &self,
        calls: &[Call],
        sent: &AtomicU32,
    ) -> Result<Vec<Result<Value, Error>>, Error> {
        let mut line = self.line().await?;
        sent.store(1, Ordering::Relaxed);
        let all: Vec<usize> = (0..calls.len()).collect();
        let mut answers = self.pipeline(&mut line, calls, &all, &[]).await?;
        // Somebody may flush the scripts again between the loading and the call.
        for _ in 0..LOADS {
            let unknown: Vec<usize> = (0..answers.len()).filter(|&i| is_no_script(&answers[i])).collect();
            if unknown.is_empty() {
                break;
            }
            let verbs: HashSet<Verb> = unknown.iter().map(|&i| calls[i].verb).collect();
            let verbs: Vec<Verb> = verbs.into_iter().collect();
            let again = self.pipeline(&mut line, calls, &unknown, &verbs).await?;
            for (i, answer) in unknown.into_iter().zip(again) {
                answers[i] = answer;
            }
        }
        let answer = |(call, answer): (&Call, RedisResult<Value>)| {
            answer.map_err(|error| Error::of_call(&self.address, Some((call.shard, call.layout)), &error))
        };
        Ok(calls.iter().zip(answers).map(answer).collect())
    }

    /// One round trip: loads `load` first, then sends the calls at `which`.
    async fn pipeline(
        &self,
        line: &mut Line,
        calls: &[Call],
        which: &[usize],
        load: &[Verb],
    ) -> Result<Vec<RedisResult<Value>>, Error> {
        let mut pipeline = Pipeline::new();
        for &verb in load {
            pipeline.cmd("SCRIPT").arg("LOAD").arg(&self.scripts.get(verb).source);
        }
        for &i in which {
            pipeline.add_command(calls[i].command.clone());
        }
        let answers = line.connection.send_packed_commands(&pipeline, 0, load.len() + which.len()).await;
        self.note_answer(line, answers.as_ref().err());
        let answers = answers.map_err(|error| Error::of_call(&self.address, None, &error))?;
        let mut answers = answers.into_iter().map(Value::extract_error);
        // What could not be loaded is why its calls are not known.
        let unloaded = answers.by_ref().take(load.len()).find_map(Result::err);
        let because = |answer: RedisResult<Value>| match &unloaded {
            Some(error) if is_no_script(&answer) => Err(error.clone()),
            _ => answer.inspect_err(|error| self.note_answer(line, Some(error))),
        };
        Ok(answers.map(because).collect())
    }

    /// The present connection, or a new one. Whoever comes while one is being made waits for it.
    async fn line(&self) -> Result<Line, Error> {
        if let Some(line) = self.current() {
            return Ok(line);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(line) = self.current() {
            return Ok(line);
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.settings.connect_timeout))
            .set_response_timeout(None);
        let connection = self
            .settings
            .client()?
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .map_err(|error| Error::of_connecting(&self.address, &error))?;
        self.silent.store(0, Ordering::Relaxed);
        let line = Line { connection, since: now() };
        *self.slot() = Some(line.clone());
        Ok(line)
    }

    fn current(&self) -> Option<Line> {
        self.slot().clone()
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Line>> {
        self.current.lock().expect("nothing panics while it holds the connection")
    }

    fn note_answer(&self, line: &Line, error: Option<&RedisError>) {
        let Some(error) = error else { return self.silent.store(0, Ordering::Relaxed) };
        match error.code() {
            None => {
                self.give_up(line);
            }
            Some(code) if ELSEWHERE.contains(&code) && line.since.elapsed() >= SHORTEST_LIFE => {
                if self.give_up(line) {
                    tracing::warn!(address = %self.address, code, "this Redis takes no writes: connecting anew");
                    self.moves.send_modify(|moves| *moves = moves.wrapping_add(1));
                }
            }
            Some(_) => {}
        }
    }

    /// Ends the use of a connection; false where another one has taken its place already.
    fn give_up(&self, line: &Line) -> bool {
        let mut current = self.slot();
        let is_current = current.as_ref().is_some_and(|current| current.since == line.since);
        if is_current {
            *current = None;
        }
        is_current
    }

    fn note_silence(&self) {
        if self.silent.fetch_add(1, Ordering::Relaxed) + 1 >= SILENT_CALLS {
            tracing::warn!(address = %self.address, calls = SILENT_CALLS, "Redis does not answer: connecting anew");
            *self.slot() = None;
        }
    }
}

/// What a call answers by its deadline, or has answered by then though nobody has read it yet.
async fn by_deadline<T>(deadline: Duration, call: impl Future<Output = T>) -> Option<T> {
    let mut call = std::pin::pin!(call);
    match timeout(deadline, &mut call).await {
        Ok(answer) => Some(answer),
        Err(_) => timeout(LAST_LOOK, call).await.ok(),
    }
}

#[allow(clippy::disallowed_methods, reason = "tokio's clock, which tests can pause")]
fn now() -> Instant {
    Instant::now()
}

fn is_no_script(answer: &RedisResult<Value>) -> bool {
    matches!(answer, Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{sync::oneshot, task::yield_now};

    #[tokio::test]
    async fn an_answer_that_nobody_could_read_before_the_deadline_counts() {
        let deadline = Duration::from_millis(20);
        let (answer, answered) = oneshot::channel();
        let call = tokio::spawn(by_deadline(deadline, answered));
        yield_now().await;
        // The thread is kept busy, and then the deadline's end is noticed first.
        std::thread::sleep(2 * deadline);
        yield_now().await;
        yield_now().await;
        answer.send("pumped").expect("the call still waits");
        assert_eq!(call.await.expect("it does not panic"), Some(Ok("pumped")));
    }

    #[tokio::test]
    async fn a_call_that_nothing_answers_ends() {
        assert_eq!(by_deadline(Duration::from_millis(1), std::future::pending::<()>()).await, None);
    }
}
