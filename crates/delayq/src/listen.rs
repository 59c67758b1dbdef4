//! Listening to the channels of shards: wake-ups for owners, ready queues for holders.
//!
//! Pub/sub loses what is published while nobody is connected. So each new connection begins with a
//! [`Notification::Resync`]: from then on nothing is missed, and what happened before has to be asked for.
//!
//! A Redis that was replaced may keep the connection and stay silent. A writer notices that first, and makes the
//! listener reconnect.

use crate::error::Error;
use crate::link::{Connected, Link, Master};
use delayq_core::fate::Advice;
use delayq_core::id::Topic;
use delayq_core::keys::{Channel, Keys};
use delayq_core::shard::ShardId;
use delayq_core::time::UnixMillis;
use redis::aio::{AsyncPushSender, MultiplexedConnection};
use redis::{AsyncConnectionConfig, PushInfo, PushKind, Value, from_redis_value};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

/// How often an idle connection is asked whether it is still there.
const PING_EVERY: Duration = Duration::from_secs(5);
/// Minimum rest before the next try to connect, plus up to as much again at random, so that the clients of a lost Redis do
/// not reconnect in step.
const RECONNECT_AFTER: Duration = Duration::from_millis(200);
/// Channels in one SSUBSCRIBE.
const CHANNELS_A_CALL: usize = 64;

/// What a listener reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notification {
    /// The shard's next due time has come nearer.
    Wake(ShardId, UnixMillis),
    /// The ready queue of this topic was empty and is not any more; `None`: any topic may be.
    Ready(ShardId, Option<Topic>),
    /// The connection is new: notifications before it are lost. Ask every shard.
    Resync,
}

/// A running listener; it ends when dropped.
#[derive(Debug)]
#[must_use = "it ends when dropped"]
pub struct Listener {
    shards: mpsc::UnboundedSender<Change>,
    notified: mpsc::UnboundedReceiver<Notification>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Debug)]
enum Change {
    Add(Vec<ShardId>),
    Remove(Vec<ShardId>),
}

struct Task {
    master: Arc<Master>,
    keys: Keys,
    channel: Channel,
    shards: Vec<ShardId>,
    changes: mpsc::UnboundedReceiver<Change>,
    notify: mpsc::UnboundedSender<Notification>,
    /// Changes when this Redis no longer takes writes.
    moves: watch::Receiver<u32>,
}

// === impl Listener ===

impl Listener {
    /// Starts to listen to one channel of these shards, on a connection of its own.
    pub(crate) fn start(link: &Link, keys: Keys, channel: Channel, shards: Vec<ShardId>) -> Self {
        let (master, moves) = (Arc::clone(link.master()), link.moves());
        let (shards_tx, changes) = mpsc::unbounded_channel();
        let (notify, notified) = mpsc::unbounded_channel();
        let task = Task { master, keys, channel, shards, changes, notify, moves };
        Self { shards: shards_tx, notified, _task: AbortOnDropHandle::new(tokio::spawn(task.run())) }
    }

    /// Listens to more shards. A [`Notification::Resync`] follows when it does.
    pub fn add(&self, shards: Vec<ShardId>) {
        let _ = self.shards.send(Change::Add(shards));
    }

    /// Listens to fewer shards.
    pub fn remove(&self, shards: Vec<ShardId>) {
        let _ = self.shards.send(Change::Remove(shards));
    }

    /// The next notification. Cancel safe.
    pub async fn next(&mut self) -> Notification {
        match self.notified.recv().await {
            Some(notification) => notification,
            // The task ends only with its listener.
            None => std::future::pending().await,
        }
    }

    /// The next notification that has arrived already.
    pub fn try_next(&mut self) -> Option<Notification> {
        self.notified.try_recv().ok()
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
        let Connected { mut connection, address, term } = connect(&self.master, self.receiver(broke)).await?;
        let address = address.to_string();
        let over = async {
            match &term {
                Some(term) => term.over().await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(over);
        let all = self.shards.clone();
        self.subscribe(&mut connection, "SSUBSCRIBE", &all).await?;
        if self.notify.send(Notification::Resync).is_err() {
            return Ok(());
        }
        loop {
            tokio::select! {
                _ = broken.recv() => {
                    return Err(Error::NoAnswer { address, why: "the connection broke".to_owned() });
                }
                () = &mut over => return Err(succeeded(address)),
                // The sender goes with the client; then nobody writes any more.
                Ok(()) = self.moves.changed() => return Err(succeeded(address)),
                change = self.changes.recv() => match change {
                    None => return Ok(()),
                    Some(change) => self.change(&mut connection, change).await?,
                },
                () = sleep(PING_EVERY) => {
                    let ping = redis::cmd("PING");
                    match timeout(self.master.settings().deadline, ping.query_async::<()>(&mut connection)).await {
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
                let _ = self.notify.send(Notification::Resync);
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
                .map_err(|error| Error::of_call(self.master.address(), None, &error))?;
        }
        Ok(())
    }

    /// Runs in the connection itself for each push: no task in between delays a waiting caller.
    fn receiver(
        &self,
        broke: mpsc::UnboundedSender<()>,
    ) -> impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + 'static {
        let (keys, notify) = (self.keys.clone(), self.notify.clone());
        move |push| match push.kind {
            PushKind::SMessage => match understand(&keys, &push) {
                Some(notification) => notify.send(notification).map_err(drop),
                None => Ok(()),
            },
            PushKind::Disconnection => broke.send(()).map_err(drop),
            _ => Ok(()),
        }
    }
}

fn understand(keys: &Keys, push: &PushInfo) -> Option<Notification> {
    let text = |value: Option<&Value>| value.and_then(|value| from_redis_value::<String>(value.clone()).ok());
    let (channel, message) = (text(push.data.first())?, text(push.data.get(1))?);
    match keys.parse_channel(&channel)? {
        (shard, Channel::Wake) => Some(Notification::Wake(shard, UnixMillis::new(message.parse().ok()?))),
        (shard, Channel::Ready) => Some(Notification::Ready(shard, Topic::new(message).ok())),
    }
}

fn succeeded(address: String) -> Error {
    Error::Unreachable { address, why: "it is no longer the master".to_owned() }
}

/// A connection of which each push is handed to `receiver`.
async fn connect(master: &Master, receiver: impl AsyncPushSender) -> Result<Connected, Error> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(master.settings().connect_timeout))
        .set_response_timeout(Some(master.settings().deadline))
        .set_push_sender(receiver);
    master.connect(&config).await
}

/// Subscribes and unsubscribes once, on its own connection: whether this user may.
///
/// # Errors
/// Redis cannot be reached, or denies it.
pub(crate) async fn try_listening(master: &Master, keys: &Keys) -> Result<(), Error> {
    let Connected { mut connection, address, .. } = connect(master, |_: PushInfo| Ok::<(), ()>(())).await?;
    let channels = [Channel::Wake, Channel::Ready].map(|kind| keys.channel(ShardId::new(0), kind));
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
