//! One connection to one Redis. Every call has a deadline, and a connection that stops answering is replaced.
//!
//! A connection manager that only reconnects when the peer hangs up stays dead on a connection that is black-holed. A
//! link therefore notes answers. A connection is replaced for the next call after any error of the connection itself. A
//! connection is also replaced when the deadline of a call passes and the connection has answered nothing for half of
//! that deadline. Calls in flight stay on the old connection. When one connection to a Redis is silent, the other
//! connections that have answered nothing since are not used again either. Calls wait for these connections for at most
//! half of the deadline, and listeners reconnect: an idle connection does not notice a silent Redis.
//!
//! A Redis that answers as a former master is healthy but useless: behind an address that moves, a new connection leads
//! to the present master. The answer of a former master therefore ends the connection too, and listeners reconnect.
//!
//! A Redis that closes idle connections (`timeout`), or a network that forgets idle connections, is no fault: a
//! connection notes that the peer closed, and the next call uses a new connection.
//!
//! If several Redises keep a deployment, each Redis has a link. Each node of a cluster has a link too, and any doubt
//! about the node makes the cluster refresh the slot map.
//!
//! If sentinels name the master, a connection lasts as long as its *term* at most: once the sentinels name another
//! master, nothing more is sent over the connection, and the fate of unanswered calls is unknown. Any doubt has the
//! sentinels asked again.

mod address;
mod any_url;
mod cluster_url;
mod greeting;
mod hosts;
mod identity;
mod marks;
mod master;
mod node;
mod sentinel_url;
mod sentinels;
mod settings;
mod single_url;
mod term;

pub(crate) use marks::Marks;
pub(crate) use master::{Connected, Master, NodeOfCluster};
pub(crate) use node::Node;

pub use address::mask_query;
pub use any_url::AnyUrl;
pub use cluster_url::ClusterUrl;
pub use identity::{Identity, of_certificate};
pub use sentinel_url::SentinelUrl;
pub use sentinels::{SentinelFacts, SentinelReport, sentinel_rule};
pub use settings::{LinkSettings, SentinelSettings};

use crate::clock;
use crate::error::Error;
use delayq_core::id::NodeName;
use redis::aio::SendError;
use redis::{
    AsyncConnectionConfig, Cmd, FromRedisValue, Pipeline, PushInfo, PushKind, RedisError, RedisResult, Value,
    from_redis_value,
};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;
use term::Term;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// Extra time after a call's deadline to read answers that have already arrived: the thread may have been busy or
/// stopped until then.
const LAST_LOOK: Duration = Duration::from_millis(20);

/// Minimum life of a connection, whatever Redis answers: a Redis that stays a replica is not reconnected to on every
/// call.
const SHORTEST_LIFE: Duration = Duration::from_millis(200);

/// Answers of a Redis that was succeeded by another Redis, or that has a new password: a new connection may reach the
/// right Redis.
const ELSEWHERE: [&str; 3] = ["MASTERDOWN", "NOAUTH", "READONLY"];

/// A connection to one Redis, made on first use and shared by all callers.
pub struct Link {
    master: Arc<Master>,
    current: Mutex<Option<Line>>,
    /// Time and reason of the last failed attempt to connect.
    connecting: tokio::sync::Mutex<Option<(Instant, Error)>>,
    /// Connections that have answered nothing since this time are not used again. All links of a client to one Redis,
    /// or to one node, share this value.
    doubted: watch::Sender<Instant>,
}

#[derive(Clone)]
pub(crate) struct Line {
    connected: Connected,
    since: Instant,
    /// Time of the last answer, in milliseconds after `since`.
    answered: Arc<AtomicU64>,
    is_closed: Arc<AtomicBool>,
}

// === impl Link ===

impl Link {
    /// A link that connects on first use.
    pub fn new(settings: LinkSettings) -> Self {
        Self::marked(settings, Marks::default())
    }

    pub(crate) fn marked(settings: LinkSettings, marks: Marks) -> Self {
        Self::to(Arc::new(Master::new(settings, marks)), watch::Sender::new(clock::instant()))
    }

    fn to(master: Arc<Master>, doubted: watch::Sender<Instant>) -> Self {
        Self { master, current: Mutex::new(None), connecting: tokio::sync::Mutex::new(None), doubted }
    }

    pub(crate) fn named(name: &NodeName, settings: LinkSettings, marks: Marks) -> Self {
        Self::to(Arc::new(Master::named(name, settings, marks)), watch::Sender::new(clock::instant()))
    }

    /// All links to the node share the doubts.
    pub(crate) fn of_node(
        node: NodeOfCluster,
        doubted: impl FnOnce(Instant) -> watch::Sender<Instant>,
    ) -> Self {
        Self::to(Arc::new(Master::of_node(node)), doubted(clock::instant()))
    }

    pub(crate) fn another(&self) -> Self {
        Self::to(Arc::clone(&self.master), self.doubted.clone())
    }

    /// Changes when a connection is given up because the Redis no longer takes writes or no longer answers on that
    /// connection.
    pub(crate) fn doubts(&self) -> watch::Receiver<Instant> {
        self.doubted.subscribe()
    }

    /// Retires connections that have answered nothing since this time, and makes listeners reconnect.
    pub(crate) fn doubt(&self, since: Instant) {
        self.doubted.send_modify(|doubted| *doubted = since.max(*doubted));
    }

    pub(crate) fn master(&self) -> &Arc<Master> {
        &self.master
    }

    pub(crate) fn settings(&self) -> &LinkSettings {
        self.master.settings()
    }

    /// The Redis's address without secrets, or the sentinels' addresses if the Redis has sentinels; a named Redis has
    /// its name in front.
    pub fn address(&self) -> &str {
        self.master.address()
    }

    pub(crate) fn name(&self) -> Option<&NodeName> {
        self.master.name()
    }

    /// The name, or the address.
    pub(crate) fn label(&self) -> &str {
        self.name().map_or(self.address(), NodeName::as_str)
    }

    /// `None` if there are no sentinels.
    pub(crate) async fn sentinels(&self) -> Option<Vec<SentinelReport>> {
        self.master.sentinels().await
    }

    /// Runs one command.
    ///
    /// # Errors
    /// Redis cannot be reached, does not answer within the deadline, or answers with an error.
    pub async fn run(&self, command: &Cmd) -> Result<Value, Error> {
        self.run_within(command, self.settings().deadline).await
    }

    pub(crate) async fn query<T: FromRedisValue>(&self, name: &str, command: &Cmd) -> Result<T, Error> {
        self.query_within(name, command, self.settings().deadline).await
    }

    pub(crate) async fn query_within<T: FromRedisValue>(
        &self,
        name: &str,
        command: &Cmd,
        deadline: Duration,
    ) -> Result<T, Error> {
        let odd = |error| Error::Unfit(format!("unexpected reply to {name}: {error}"));
        from_redis_value(self.run_within(command, deadline).await?).map_err(odd)
    }

    async fn run_within(&self, command: &Cmd, deadline: Duration) -> Result<Value, Error> {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.add_command(command.clone());
        self.pipeline_within(&pipeline, deadline).await?.pop().expect("each command has one answer")
    }

    /// Runs commands in one pipeline: one answer each, in order.
    ///
    /// # Errors
    /// Redis cannot be reached, or does not answer within the deadline. With fate *unknown*, the commands may have been
    /// carried out.
    pub async fn pipeline(&self, pipeline: &Pipeline) -> Result<Vec<Result<Value, Error>>, Error> {
        self.pipeline_within(pipeline, self.settings().deadline).await
    }

    async fn pipeline_within(
        &self,
        pipeline: &Pipeline,
        deadline: Duration,
    ) -> Result<Vec<Result<Value, Error>>, Error> {
        let trip = |line| async move { self.exchange(&line, pipeline).await };
        let answers = Box::pin(self.by_deadline(deadline, trip)).await?;
        let read =
            |answer: RedisResult<Value>| answer.map_err(|error| Error::of_call(self.address(), None, &error));
        Ok(answers.into_iter().map(read).collect())
    }

    pub(crate) async fn by_deadline<T, F>(
        &self,
        deadline: Duration,
        trips: impl FnOnce(Line) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let sent = OnceLock::new();
        let run = async {
            let line = self.line().await?;
            let _ = sent.set((line.clone(), clock::instant()));
            trips(line).await
        };
        let mut run = pin!(run);
        let half = deadline / 2;
        let mut answer = by_deadline(half, &mut run).await;
        let is_lost = answer.is_none() && sent.get().is_some_and(|(line, _)| self.is_in_doubt(line));
        if answer.is_none() && !is_lost {
            answer = by_deadline(deadline - half, run).await;
        }
        if let Some(answer) = answer {
            return answer;
        }
        let why = match is_lost {
            true => format!("no reply for {half:?}, nor on a second connection"),
            // An attempt may have had only the rest of this deadline.
            false => format!("deadline of {:?} passed", self.settings().deadline),
        };
        let address = self.address().to_owned();
        Err(match sent.get() {
            None => {
                self.master.doubt();
                Error::Unreachable { address, why }
            }
            Some((line, at)) => {
                self.note_silence(line, *at);
                Error::NoAnswer { address, why }
            }
        })
    }

    pub(crate) async fn exchange(
        &self,
        line: &Line,
        pipeline: &Pipeline,
    ) -> Result<Vec<RedisResult<Value>>, Error> {
        let count = pipeline.cmd_iter().count();
        let mut connection = line.connected.connection.clone();
        let answers = line.in_its_term(connection.send_packed_commands(pipeline, 0, count)).await?;
        if answers.is_ok() {
            line.note_answer();
        }
        self.note_answer(line, answers.as_ref().err());
        let answers = answers.map_err(|error| Error::of_call(&line.connected.address, None, &error))?;
        let answers = answers.into_iter().map(Value::extract_error);
        Ok(answers.map(|answer| answer.inspect_err(|error| self.note_answer(line, Some(error)))).collect())
    }

    /// Callers that arrive during a connect wait for that connection, or for the reason of the failure.
    async fn line(&self) -> Result<Line, Error> {
        if let Some(line) = self.current() {
            return Ok(line);
        }
        let asked = clock::instant();
        let mut failed = self.connecting.lock().await;
        if let Some(line) = self.current() {
            return Ok(line);
        }
        if let Some((at, error)) = &*failed
            && *at > asked
        {
            return Err(error.clone());
        }
        self.forget_closed();
        let is_closed = Arc::<AtomicBool>::default();
        match self.master.connect(&self.noting(&is_closed)).await {
            Ok(connected) => {
                let line = Line { connected, since: clock::instant(), answered: Arc::default(), is_closed };
                *self.slot() = Some(line.clone());
                Ok(line)
            }
            Err(error) => {
                *failed = Some((clock::instant(), error.clone()));
                Err(error)
            }
        }
    }

    /// A close by the peer can only be noted over RESP3.
    fn noting(&self, is_closed: &Arc<AtomicBool>) -> AsyncConnectionConfig {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.settings().connect_timeout))
            .set_response_timeout(None);
        if self.settings().resp2 {
            return config;
        }
        let noted = Arc::clone(is_closed);
        config.set_push_sender(move |push: PushInfo| {
            noted.fetch_or(push.kind == PushKind::Disconnection, Ordering::Relaxed);
            Ok::<(), SendError>(())
        })
    }

    /// A connection that closed while idle counts like a connection that breaks during a call: the Redis is in doubt.
    fn forget_closed(&self) {
        let closed = self.slot().clone().filter(|line| line.is_closed.load(Ordering::Relaxed));
        if let Some(line) = closed {
            self.give_up(&line);
        }
    }

    fn current(&self) -> Option<Line> {
        self.slot().clone().filter(|line| !line.is_over() && !self.is_in_doubt(line))
    }

    fn is_in_doubt(&self, line: &Line) -> bool {
        line.answered() < *self.doubted.borrow()
    }

    fn slot(&self) -> MutexGuard<'_, Option<Line>> {
        self.current.lock().expect("no code panics while holding the lock")
    }

    fn note_answer(&self, line: &Line, error: Option<&RedisError>) {
        let Some(error) = error else { return };
        match error.code() {
            None => {
                self.give_up(line);
            }
            Some(code) if ELSEWHERE.contains(&code) && line.since.elapsed() >= SHORTEST_LIFE => {
                if self.give_up(line) {
                    tracing::warn!(address = %line.connected.address, code, "Redis accepts no writes: \
                                                                             reconnecting");
                    self.doubt(line.since);
                }
            }
            Some("CLUSTERDOWN" | "MOVED") => self.master.doubt(),
            Some(_) => {}
        }
    }

    /// False if the connection was already replaced.
    fn give_up(&self, line: &Line) -> bool {
        let mut current = self.slot();
        let is_current = current.as_ref().is_some_and(|current| current.since == line.since);
        if is_current {
            *current = None;
            self.master.doubt();
        }
        is_current
    }

    /// A connection that has answered other calls meanwhile is slow, not lost; and a call that had little of its
    /// deadline left proves nothing.
    fn note_silence(&self, line: &Line, sent: Instant) {
        self.master.doubt();
        let since = line.answered().max(sent);
        if since.elapsed() >= self.settings().deadline / 2 && self.give_up(line) {
            tracing::warn!(address = %line.connected.address, "no reply from Redis: reconnecting");
            self.doubt(since);
        }
    }
}

// === impl Line ===

impl Line {
    fn is_over(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed) || self.connected.term.as_ref().is_some_and(Term::is_over)
    }

    fn note_answer(&self) {
        self.answered.store(self.since.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// The connection's creation if there was no answer.
    fn answered(&self) -> Instant {
        self.since + Duration::from_millis(self.answered.load(Ordering::Relaxed))
    }

    /// Gives up when the term of the Redis ends: an answer of a former master may be lost with that master.
    async fn in_its_term<T>(&self, trip: impl Future<Output = T>) -> Result<T, Error> {
        let Some(term) = &self.connected.term else { return Ok(trip.await) };
        let address = self.connected.address.to_string();
        let why = "the sentinels name another master".to_owned();
        if term.is_over() {
            return Err(Error::Unreachable { address, why });
        }
        tokio::select! {
            biased;
            () = term.over() => Err(Error::NoAnswer { address, why }),
            answer = trip => Ok(answer),
        }
    }
}

/// Includes an answer that arrived in time but is read late.
async fn by_deadline<T>(deadline: Duration, call: impl Future<Output = T>) -> Option<T> {
    let mut call = pin!(call);
    match timeout(deadline, &mut call).await {
        Ok(answer) => Some(answer),
        Err(_) => timeout(LAST_LOOK, call).await.ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;
    use tokio::task::yield_now;

    #[tokio::test]
    async fn an_answer_that_nobody_could_read_before_the_deadline_counts() {
        let deadline = Duration::from_millis(20);
        let (answer, answered) = oneshot::channel();
        let call = tokio::spawn(by_deadline(deadline, answered));
        yield_now().await;
        // The thread is busy, so the end of the deadline is noticed first.
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
