//! One connection to one Redis: every call has a deadline, and a connection that no longer answers is replaced.
//!
//! A connection manager that only reconnects when the peer hangs up stays dead on a connection that is black-holed.
//! So a link notes answers: a call whose deadline passes on a connection that has answered nothing for half of it, or
//! any error of the connection itself, and the next call uses a new one. Calls that still wait for the old one keep it until
//! they end. Where one connection to a Redis is silent, the others that have answered nothing since are not used again either,
//! calls do not wait for them beyond half of their deadline, and listeners reconnect: an idle connection does not notice by
//! itself.
//!
//! A Redis that answers that it is no longer the master is well, and yet of no use: behind an address that moves, a new
//! connection leads to the present master. So such an answer ends the connection too, and listeners reconnect.
//!
//! A Redis that closes idle connections (`timeout`), or a network that forgets them, is no fault: a connection notes that it
//! was closed, and the next call uses a new one.
//!
//! Where several Redises keep a deployment, each has a link. So has each node of a cluster, and whatever makes it doubt that
//! node has the cluster asked again who has which slot.
//!
//! Where sentinels say which Redis is the master, a connection lasts as long as its *term* at most: when they name
//! another one, nothing more is sent over it, and what it has not answered is unknown. Any doubt has them asked again.

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

/// How long a call continues past its deadline, so that its thread reads what has arrived: it may have been kept busy, or
/// stopped, until then.
const LAST_LOOK: Duration = Duration::from_millis(20);

/// Minimum life of a connection, whatever Redis answers on it: one that stays a replica is not connected to again for
/// each call.
const SHORTEST_LIFE: Duration = Duration::from_millis(200);

/// Answers of a Redis that has been succeeded by another one, or whose password has changed: a new connection may reach
/// the right one.
const ELSEWHERE: [&str; 3] = ["MASTERDOWN", "NOAUTH", "READONLY"];

/// A connection to one Redis, made on first use and shared by all who call it.
pub struct Link {
    master: Arc<Master>,
    current: Mutex<Option<Line>>,
    /// When the last try to connect failed, and why.
    connecting: tokio::sync::Mutex<Option<(Instant, Error)>>,
    /// Connections that have answered nothing since then are not used again; shared by all links of a client to one Redis,
    /// or to one node.
    doubted: watch::Sender<Instant>,
}

/// A connection, and when it was made.
#[derive(Clone)]
pub(crate) struct Line {
    connected: Connected,
    since: Instant,
    /// When it answered last, in milliseconds after `since`.
    answered: Arc<AtomicU64>,
    /// Whether its other end closed it.
    is_closed: Arc<AtomicBool>,
}

// === impl Link ===

impl Link {
    /// A link that connects on first use.
    pub fn new(settings: LinkSettings) -> Self {
        Self::marked(settings, Marks::default())
    }

    /// A link to the Redis of a deployment, which these marks tell from others.
    pub(crate) fn marked(settings: LinkSettings, marks: Marks) -> Self {
        Self::to(Arc::new(Master::new(settings, marks)), watch::Sender::new(now()))
    }

    fn to(master: Arc<Master>, doubted: watch::Sender<Instant>) -> Self {
        Self { master, current: Mutex::new(None), connecting: tokio::sync::Mutex::new(None), doubted }
    }

    /// A link to one of several Redises.
    pub(crate) fn named(name: &NodeName, settings: LinkSettings, marks: Marks) -> Self {
        Self::to(Arc::new(Master::named(name, settings, marks)), watch::Sender::new(now()))
    }

    /// A link to a node of a cluster, of which all links share the doubts.
    pub(crate) fn of_node(
        node: NodeOfCluster,
        doubted: impl FnOnce(Instant) -> watch::Sender<Instant>,
    ) -> Self {
        Self::to(Arc::new(Master::of_node(node)), doubted(now()))
    }

    /// Another connection to the same Redis.
    pub(crate) fn another(&self) -> Self {
        Self::to(Arc::clone(&self.master), self.doubted.clone())
    }

    /// Changes when a connection was given up because its Redis no longer takes writes, or no longer answers on it.
    pub(crate) fn doubts(&self) -> watch::Receiver<Instant> {
        self.doubted.subscribe()
    }

    /// Connections that have answered nothing since then are not used again, and listeners reconnect.
    pub(crate) fn doubt(&self, since: Instant) {
        self.doubted.send_modify(|doubted| *doubted = since.max(*doubted));
    }

    /// What it connects to.
    pub(crate) fn master(&self) -> &Arc<Master> {
        &self.master
    }

    pub(crate) fn settings(&self) -> &LinkSettings {
        self.master.settings()
    }

    /// The Redis's address, without secrets; of one that sentinels name, theirs. Behind its name, if it has one.
    pub fn address(&self) -> &str {
        self.master.address()
    }

    /// What it is called among several Redises; `None`: there is one, or it is a node of a cluster.
    pub(crate) fn name(&self) -> Option<&NodeName> {
        self.master.name()
    }

    /// What tells it from the other nodes: its name, or its address.
    pub(crate) fn label(&self) -> &str {
        self.name().map_or(self.address(), NodeName::as_str)
    }

    /// What each sentinel of the Redis says now; `None`: it is named by none.
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

    /// Runs one command, whose answer has this type.
    pub(crate) async fn query<T: FromRedisValue>(&self, name: &str, command: &Cmd) -> Result<T, Error> {
        self.query_within(name, command, self.settings().deadline).await
    }

    /// As [`Self::query`], within another deadline.
    pub(crate) async fn query_within<T: FromRedisValue>(
        &self,
        name: &str,
        command: &Cmd,
        deadline: Duration,
    ) -> Result<T, Error> {
        let odd = |error| Error::Unfit(format!("{name} answers what no Redis answers: {error}"));
        from_redis_value(self.run_within(command, deadline).await?).map_err(odd)
    }

    async fn run_within(&self, command: &Cmd, deadline: Duration) -> Result<Value, Error> {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.add_command(command.clone());
        self.pipeline_within(&pipeline, deadline).await?.pop().expect("one answer for one command")
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

    /// Gives round trips a connection, and their deadline.
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
            let _ = sent.set((line.clone(), now()));
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
            true => format!("nothing was answered for {half:?}, nor on another connection"),
            // Of which an attempt may have had the rest alone.
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

    /// One round trip.
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

    /// The present connection, or a new one. Callers that arrive while it is made wait for it, or for why it is not.
    async fn line(&self) -> Result<Line, Error> {
        if let Some(line) = self.current() {
            return Ok(line);
        }
        let asked = now();
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
                let line = Line { connected, since: now(), answered: Arc::default(), is_closed };
                *self.slot() = Some(line.clone());
                Ok(line)
            }
            Err(error) => {
                *failed = Some((now(), error.clone()));
                Err(error)
            }
        }
    }

    /// How to connect. That its other end closes it can only be noted over RESP3.
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

    /// A connection that was closed while nobody used it puts its Redis in doubt like one that breaks during a call.
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
        self.current.lock().expect("nothing panics while it holds the connection")
    }

    fn note_answer(&self, line: &Line, error: Option<&RedisError>) {
        let Some(error) = error else { return };
        match error.code() {
            None => {
                self.give_up(line);
            }
            Some(code) if ELSEWHERE.contains(&code) && line.since.elapsed() >= SHORTEST_LIFE => {
                if self.give_up(line) {
                    tracing::warn!(address = %line.connected.address, code, "this Redis takes no writes: reconnecting");
                    self.doubt(line.since);
                }
            }
            Some("CLUSTERDOWN" | "MOVED") => self.master.doubt(),
            Some(_) => {}
        }
    }

    /// Stops using a connection; false if another one has taken its place already.
    fn give_up(&self, line: &Line) -> bool {
        let mut current = self.slot();
        let is_current = current.as_ref().is_some_and(|current| current.since == line.since);
        if is_current {
            *current = None;
            self.master.doubt();
        }
        is_current
    }

    /// A connection that has answered other calls meanwhile is slow, and not lost; and a call that was left little of its
    /// deadline says nothing.
    fn note_silence(&self, line: &Line, sent: Instant) {
        self.master.doubt();
        let since = line.answered().max(sent);
        if since.elapsed() >= self.settings().deadline / 2 && self.give_up(line) {
            tracing::warn!(address = %line.connected.address, "Redis does not answer: reconnecting");
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

    /// When it answered last: as it was made, at least.
    fn answered(&self) -> Instant {
        self.since + Duration::from_millis(self.answered.load(Ordering::Relaxed))
    }

    /// The answer of a round trip, unless the term of its Redis ends before: what a former master answers then may be
    /// lost with it.
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

/// The answer of a call by its deadline, even if nobody has read it by then.
async fn by_deadline<T>(deadline: Duration, call: impl Future<Output = T>) -> Option<T> {
    let mut call = pin!(call);
    match timeout(deadline, &mut call).await {
        Ok(answer) => Some(answer),
        Err(_) => timeout(LAST_LOOK, call).await.ok(),
    }
}

#[allow(clippy::disallowed_methods, reason = "tokio's clock, which tests can pause")]
fn now() -> Instant {
    Instant::now()
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
