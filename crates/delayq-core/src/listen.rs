//! Listening to the channels of shards: wake-ups for timers, ready queues for those who reserve.
//!
//! Pub/sub loses what is said while nobody is connected. So whoever listens is told when the connection is new
//! ([`Heard::Resync`]): from then on nothing is missed, and what happened before has to be looked up.
//!
//! A Redis that was replaced may keep the connection and say nothing any more. Whoever writes learns that first, and has
//! the listener connect anew.

use crate::{
    Advice, Client, Error, ShardId, Topic, UnixMillis,
    keys::{Channel, Keys},
    link::{Link, LinkSettings},
};
use redis::{AsyncConnectionConfig, PushInfo, PushKind, Value, aio::MultiplexedConnection, from_redis_value};
use std::time::Duration;
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

/// How often an idle connection is asked whether it is still there.
const PING_EVERY: Duration = Duration::from_secs(5);
/// How long to rest at least before the next try to connect, and as much again by chance: all who lost a Redis would
/// come back to it in step.
const RECONNECT_AFTER: Duration = Duration::from_millis(200);
/// Channels in one SSUBSCRIBE.
const CHANNELS_A_CALL: usize = 64;

/// Something a listener learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The shard's next due time has come nearer.
    Wake(ShardId, UnixMillis),
    /// The ready queue of this topic was empty and is not any more; `None`: any topic may be.
    Ready(ShardId, Option<Topic>),
    /// The connection is new: what was said before it is lost. Look at every shard.
    Resync,
}

/// A running listener; it ends when dropped.
#[derive(Debug)]
pub struct Listener {
    shards: mpsc::UnboundedSender<Change>,
    heard: mpsc::UnboundedReceiver<Heard>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Debug)]
enum Change {
    Add(Vec<ShardId>),
    Remove(Vec<ShardId>),
}

struct Task {
    settings: LinkSettings,
    keys: Keys,
    channel: Channel,
    shards: Vec<ShardId>,
    changes: mpsc::UnboundedReceiver<Change>,
    heard: mpsc::UnboundedSender<Heard>,
    /// Changes when this Redis is not the one to write to any more.
    moves: watch::Receiver<u32>,
}

// === impl Listener ===

impl Listener {
    /// Starts to listen to one channel of these shards, on a connection of its own.
    pub(crate) fn start(link: &Link, keys: Keys, channel: Channel, shards: Vec<ShardId>) -> Self {
        let (settings, moves) = (link.settings().clone(), link.moves());
        let (shards_tx, changes) = mpsc::unbounded_channel();
        let (heard_tx, heard) = mpsc::unbounded_channel();
        let task = Task { settings, keys, channel, shards, changes, heard: heard_tx, moves };
        Self { shards: shards_tx, heard, _task: AbortOnDropHandle::new(tokio::spawn(task.run())) }
    }

    /// Listens to more shards. A [`Heard::Resync`] follows when it does.
    pub fn add(&self, shards: Vec<ShardId>) {
        let _ = self.shards.send(Change::Add(shards));
    }

    /// Listens to fewer shards.
    pub fn remove(&self, shards: Vec<ShardId>) {
        let _ = self.shards.send(Change::Remove(shards));
    }

    /// The next thing that is heard. Safe to drop.
    pub async fn next(&mut self) -> Heard {
        match self.heard.recv().await {
            Some(heard) => heard,
            // The task ends only with its listener.
            None => std::future::pending().await,
        }
    }

    /// What has been heard already, without waiting.
    pub fn try_next(&mut self) -> Option<Heard> {
        self.heard.try_recv().ok()
    }
}

// === impl Client ===

impl Client {
    /// Listens and stops listening once, on a connection of its own: whether this user may.
    ///
    /// # Errors
    /// Redis cannot be reached, or denies it.
    pub(crate) async fn try_listening(&self) -> Result<(), Error> {
        let settings = self.link().settings();
        let address = settings.address();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(settings.connect_timeout))
            .set_response_timeout(Some(settings.deadline))
            .set_push_sender(|_: PushInfo| Ok::<(), ()>(()));
        let mut connection = settings
            .client()?
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .map_err(|error| Error::of_connecting(&address, &error))?;
        let channels = [Channel::Wake, Channel::Ready].map(|kind| self.keys().channel(ShardId::new(0), kind));
        for verb in ["PING", "SSUBSCRIBE", "SUNSUBSCRIBE"] {
            let mut command = redis::cmd(verb);
            if verb != "PING" {
                command.arg(&channels);
            }
            let answer = command.exec_async(&mut connection).await;
            answer.map_err(|error| match Error::of_call(&address, None, &error) {
                Error::Redis { code, detail } => Error::Redis { code, detail: format!("{verb}: {detail}") },
                error => error,
            })?;
        }
        Ok(())
    }
}

// === impl Task ===

impl Task {
    async fn run(mut self) {
        let mut refused = false;
        loop {
            match self.connected().await {
                Ok(()) => return,
                Err(error) if error.advice() == Advice::GiveUp && !std::mem::replace(&mut refused, true) => {
                    tracing::warn!(%error, "Redis refuses listening: messages are noticed late until it allows it");
                }
                Err(error) => tracing::debug!(%error, "listening was interrupted"),
            }
            sleep(RECONNECT_AFTER.mul_f64(1.0 + fastrand::f64())).await;
        }
    }

    /// Listens on one connection until it breaks; `Ok` when nobody wants to listen any more.
    async fn connected(&mut self) -> Result<(), Error> {
        self.moves.mark_unchanged();
        let (broke, mut broken) = mpsc::unbounded_channel();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.settings.connect_timeout))
            .set_response_timeout(Some(self.settings.deadline))
            .set_push_sender(self.ears(broke));
        let address = self.settings.address();
        let mut connection = self
            .settings
            .client()?
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .map_err(|error| Error::of_connecting(&address, &error))?;
        let all = self.shards.clone();
        self.subscribe(&mut connection, "SSUBSCRIBE", &all).await?;
        if self.heard.send(Heard::Resync).is_err() {
            return Ok(());
        }
        loop {
            tokio::select! {
                _ = broken.recv() => {
                    return Err(Error::NoAnswer { address, why: "the connection broke".to_owned() });
                }
                // The sender is gone where the client is; then nobody writes any more.
                Ok(()) = self.moves.changed() => {
                    return Err(Error::Unreachable { address, why: "it is no master any more".to_owned() });
                }
                change = self.changes.recv() => match change {
                    None => return Ok(()),
                    Some(change) => self.change(&mut connection, change).await?,
                },
                () = sleep(PING_EVERY) => {
                    let ping = redis::cmd("PING");
                    match timeout(self.settings.deadline, ping.query_async::<()>(&mut connection)).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => return Err(Error::of_call(&address, None, &error)),
                        Err(_) => return Err(Error::NoAnswer { address, why: "PING was not answered".to_owned() }),
                    }
                }
            }
        }
    }

    async fn change(&mut self, connection: &mut MultiplexedConnection, change: Change) -> Result<(), Error> {
        match change {
            Change::Add(shards) => {
                self.shards.retain(|shard| !shards.contains(shard));
                self.shards.extend(&shards);
                self.subscribe(connection, "SSUBSCRIBE", &shards).await?;
                let _ = self.heard.send(Heard::Resync);
            }
            Change::Remove(shards) => {
                self.shards.retain(|shard| !shards.contains(shard));
                self.subscribe(connection, "SUNSUBSCRIBE", &shards).await?;
            }
        }
        Ok(())
    }

    async fn subscribe(
        &self,
        connection: &mut MultiplexedConnection,
        verb: &str,
        shards: &[ShardId],
    ) -> Result<(), Error> {
        for some in shards.chunks(CHANNELS_A_CALL) {
            let mut command = redis::cmd(verb);
            for &shard in some {
                command.arg(self.keys.channel(shard, self.channel));
            }
            command
                .exec_async(connection)
                .await
                .map_err(|error| Error::of_call(&self.settings.address(), None, &error))?;
        }
        Ok(())
    }

    /// What the connection itself does with what is pushed: no task in between makes whoever waits wait longer.
    fn ears(
        &self,
        broke: mpsc::UnboundedSender<()>,
    ) -> impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + 'static {
        let (keys, heard) = (self.keys.clone(), self.heard.clone());
        move |push| match push.kind {
            PushKind::SMessage => match understand(&keys, &push) {
                Some(what) => heard.send(what).map_err(drop),
                None => Ok(()),
            },
            PushKind::Disconnection => broke.send(()).map_err(drop),
            _ => Ok(()),
        }
    }
}

fn understand(keys: &Keys, push: &PushInfo) -> Option<Heard> {
    let text = |value: Option<&Value>| value.and_then(|value| from_redis_value::<String>(value.clone()).ok());
    let (channel, said) = (text(push.data.first())?, text(push.data.get(1))?);
    match keys.parse_channel(&channel)? {
        (shard, Channel::Wake) => Some(Heard::Wake(shard, UnixMillis::new(said.parse().ok()?))),
        (shard, Channel::Ready) => Some(Heard::Ready(shard, Topic::new(said).ok())),
    }
}
