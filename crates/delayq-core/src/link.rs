//! One connection to one Redis: every call has a deadline, and a connection that no longer answers is thrown away.
//!
//! A connection manager that only reconnects when the peer hangs up stays dead on a connection that is black-holed.
//! So a link counts: three deadlines in a row without an answer between them, or any error of the connection
//! itself, and the next call begins on a new one.

use crate::{
    Error, Password, ShardId,
    keys::Keys,
    script::{Scripts, Verb},
};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, IntoConnectionInfo, Pipeline, ProtocolVersion,
    RedisResult, ServerErrorKind, ToRedisArgs, Value,
    aio::MultiplexedConnection,
    io::tcp::{TcpSettings, socket2::TcpKeepalive},
};
use std::{
    collections::HashSet,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::time::timeout;

/// Deadlines in a row after which a connection is thrown away.
const SILENT_CALLS: u32 = 3;

/// How long a call goes on past its deadline, so that its thread reads what has arrived: it may have been kept busy, or
/// stopped, until then.
const LAST_LOOK: Duration = Duration::from_millis(20);

/// How often scripts are loaded for one call, at most, where Redis forgets them again at once.
const LOADS: usize = 10;

/// Where the layout stands in a call, behind EVALSHA, the script, the number of keys and two keys.
const LAYOUT_AT: usize = 5;

/// Where a Redis is, and how long to wait for it.
#[derive(Clone)]
pub struct LinkSettings {
    /// `redis://host:port/db`, `rediss://…` for TLS, or `redis+unix:///path`.
    pub url: String,
    /// The ACL user; `None`: the default user, or the one in the URL.
    pub username: Option<String>,
    /// Its password, read for each connection; `None`: the one in the URL, or none.
    pub password: Option<Password>,
    /// The certificate authorities to trust with `rediss://`, PEM; `None`: those of the system.
    pub ca_pem: Option<Vec<u8>>,
    /// How long a connection may take to be made. Default 1 s.
    pub connect_timeout: Duration,
    /// How long one call may take, connecting included. Default 2 s.
    pub deadline: Duration,
    /// Silence after which the system probes the connection. Default 5 s.
    pub keepalive: Duration,
}

/// A connection to one Redis, shared by all who call it.
pub(crate) struct Link {
    settings: LinkSettings,
    address: String,
    keys: Keys,
    scripts: Arc<Scripts>,
    current: Mutex<Option<MultiplexedConnection>>,
    connecting: tokio::sync::Mutex<()>,
    silent: AtomicU32,
}

/// One call of a script.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) verb: Verb,
    pub(crate) shard: ShardId,
    /// The layout that it says its caller knows.
    pub(crate) layout: u32,
    command: Cmd,
}

// === impl LinkSettings ===

impl LinkSettings {
    /// The defaults for this address.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            username: None,
            password: None,
            ca_pem: None,
            connect_timeout: Duration::from_secs(1),
            deadline: Duration::from_secs(2),
            keepalive: Duration::from_secs(5),
        }
    }

    /// The address without its secrets.
    pub fn address(&self) -> String {
        match self.url.split_once("://") {
            Some((scheme, rest)) => {
                format!("{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, address)| address))
            }
            None => self.url.rsplit_once('@').map_or(self.url.as_str(), |(_, address)| address).to_owned(),
        }
    }

    pub(crate) fn client(&self) -> Result<Client, Error> {
        let unusable = |error: redis::RedisError| Error::of_connecting(&self.address(), &error);
        let info = self.url.as_str().into_connection_info().map_err(unusable)?;
        let mut redis = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        if let Some(username) = &self.username {
            redis = redis.set_username(username);
        }
        if let Some(password) = &self.password {
            // A file that is being replaced is there again a moment later.
            let unreadable = |why| Error::Unreachable { address: self.address(), why };
            redis = redis.set_password(password.read().map_err(unreadable)?);
        }
        let keepalive = TcpKeepalive::new().with_time(self.keepalive).with_interval(Duration::from_secs(5));
        let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
        let info = info.set_redis_settings(redis).set_tcp_settings(tcp);
        match &self.ca_pem {
            None => Client::open(info).map_err(unusable),
            Some(pem) => {
                let certificates = redis::TlsCertificates { client_tls: None, root_cert: Some(pem.clone()) };
                Client::build_with_tls(info, certificates).map_err(unusable)
            }
        }
    }
}

impl fmt::Debug for LinkSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkSettings")
            .field("address", &self.address())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

// === impl Call ===

impl Call {
    /// One more argument.
    pub(crate) fn arg(mut self, arg: impl ToRedisArgs) -> Self {
        self.command.arg(arg);
        self
    }

    pub(crate) fn push(&mut self, arg: impl ToRedisArgs) {
        self.command.arg(arg);
    }

    /// The same call by a caller that knows another layout.
    pub(crate) fn with_layout(&self, layout: u32) -> Self {
        let mut command = Cmd::new();
        for (place, arg) in self.command.args_iter().enumerate() {
            match arg {
                redis::Arg::Simple(_) if place == LAYOUT_AT => command.arg(layout),
                redis::Arg::Simple(bytes) => command.arg(bytes),
                _ => unreachable!("a script is called with plain arguments alone"),
            };
        }
        Self { verb: self.verb, shard: self.shard, layout, command }
    }
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
        }
    }

    /// Another connection to the same Redis.
    pub(crate) fn another(&self) -> Self {
        Self::new(self.settings.clone(), self.keys.clone(), Arc::clone(&self.scripts))
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
            let mut connection = self.connection().await?;
            let answer = connection.send_packed_command(command).await;
            self.note_answer(answer.as_ref().err());
            answer.and_then(Value::extract_error).map_err(|error| Error::of_call(&self.address, None, &error))
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
        let mut connection = self.connection().await?;
        sent.store(1, Ordering::Relaxed);
        let all: Vec<usize> = (0..calls.len()).collect();
        let mut answers = self.pipeline(&mut connection, calls, &all, &[]).await?;
        // Somebody may flush the scripts again between the loading and the call.
        for _ in 0..LOADS {
            let unknown: Vec<usize> = (0..answers.len()).filter(|&i| is_no_script(&answers[i])).collect();
            if unknown.is_empty() {
                break;
            }
            let verbs: HashSet<Verb> = unknown.iter().map(|&i| calls[i].verb).collect();
            let verbs: Vec<Verb> = verbs.into_iter().collect();
            let again = self.pipeline(&mut connection, calls, &unknown, &verbs).await?;
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
        connection: &mut MultiplexedConnection,
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
        let answers = connection.send_packed_commands(&pipeline, 0, load.len() + which.len()).await;
        self.note_answer(answers.as_ref().err());
        let answers = answers.map_err(|error| Error::of_call(&self.address, None, &error))?;
        let mut answers = answers.into_iter().map(Value::extract_error);
        // What could not be loaded is why its calls are not known.
        let unloaded = answers.by_ref().take(load.len()).find_map(Result::err);
        let because = |answer: RedisResult<Value>| match &unloaded {
            Some(error) if is_no_script(&answer) => Err(error.clone()),
            _ => answer,
        };
        Ok(answers.map(because).collect())
    }

    /// The present connection, or a new one. Whoever comes while one is being made waits for it.
    async fn connection(&self) -> Result<MultiplexedConnection, Error> {
        if let Some(connection) = self.current() {
            return Ok(connection);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(connection) = self.current() {
            return Ok(connection);
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
        *self.slot() = Some(connection.clone());
        Ok(connection)
    }

    fn current(&self) -> Option<MultiplexedConnection> {
        self.slot().clone()
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<MultiplexedConnection>> {
        self.current.lock().expect("nothing panics while it holds the connection")
    }

    fn note_answer(&self, error: Option<&redis::RedisError>) {
        match error {
            None => self.silent.store(0, Ordering::Relaxed),
            Some(error) if error.code().is_none() => *self.slot() = None,
            Some(_) => {}
        }
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
