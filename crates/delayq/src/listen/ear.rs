//! Listening on one connection to the channels of shards at one Redis.
//!
//! A cluster node refuses the channel of a shard that belongs to another node, and ends the subscription when the shard
//! leaves. The other shards are still followed; the refused subscription is retried until the shard is followed at
//! another node.

use super::followed::Followed;
use crate::clock;
use crate::error::Error;
use crate::link::{Connected, Link, Master};
use delayq_core::fate::Advice;
use delayq_core::id::Topic;
use delayq_core::keys::{Channel, Keys};
use delayq_core::shard::ShardId;
use delayq_core::time::UnixMillis;
use futures_util::future::join_all;
use redis::aio::{AsyncPushSender, MultiplexedConnection};
use redis::{AsyncConnectionConfig, PushInfo, PushKind, Value, from_redis_value};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

/// Interval of the checks that an idle connection is still alive.
const PING_EVERY: Duration = Duration::from_secs(2);
/// Minimum pause before the next attempt to connect, plus up to as much again at random, so that the clients of a lost
/// Redis do not reconnect in step.
const RECONNECT_AFTER: Duration = Duration::from_millis(200);

/// The message of an owner that gives a shard back, in place of a time.
const FREED: &str = "free";

/// A report of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notification {
    /// The shard's next due time has come nearer.
    Wake(ShardId, UnixMillis),
    /// The shard's owner gave the shard back.
    Freed(ShardId),
    /// The ready queue of this topic is no longer empty; `None`: of any topic.
    Ready(ShardId, Option<Topic>),
    /// The connection is new: earlier notifications are lost. Ask every shard.
    Resync,
}

#[derive(Debug)]
pub(super) enum FollowedChange {
    Add(Vec<ShardId>),
    Remove(Vec<ShardId>),
}

/// One connection for the channels of many shards.
pub(super) struct Ear {
    link: Arc<Link>,
    keys: Keys,
    followed: Followed,
    shards: BTreeSet<ShardId>,
    changes: mpsc::UnboundedReceiver<FollowedChange>,
    notify: mpsc::UnboundedSender<Notification>,
    /// Changes when this Redis no longer takes writes, or no longer answers.
    doubts: watch::Receiver<Instant>,
    /// The shards whose channels must stay; only for a cluster node.
    kept: Option<Kept>,
    /// The shards that a cluster node refused as another node's.
    elsewhere: BTreeSet<ShardId>,
}

enum Loss {
    All,
    /// The server ended the subscription.
    Of(ShardId),
}

/// As seen by the connection itself.
type Kept = Arc<Mutex<BTreeSet<ShardId>>>;

// === impl Ear ===

impl Ear {
    pub(super) fn new(
        (link, keys, followed): (Arc<Link>, Keys, Followed),
        shards: impl IntoIterator<Item = ShardId>,
        (changes, notify): (mpsc::UnboundedReceiver<FollowedChange>, mpsc::UnboundedSender<Notification>),
        in_cluster: bool,
    ) -> Self {
        let (doubts, kept) = (link.doubts(), in_cluster.then(Kept::default));
        let (shards, elsewhere) = (shards.into_iter().collect(), BTreeSet::new());
        Self { link, keys, followed, shards, changes, notify, doubts, kept, elsewhere }
    }

    pub(super) async fn run(mut self) {
        let mut refused = false;
        loop {
            match self.connected().await {
                Ok(()) => return,
                Err(error) if error.advice() == Advice::GiveUp && !std::mem::replace(&mut refused, true) => {
                    tracing::warn!(%error, "Redis denies SUBSCRIBE: consumers notice messages late until it \
                                            is allowed");
                }
                Err(error) => tracing::debug!(%error, "listening was interrupted"),
            }
            if self.kept.is_some() {
                self.link.master().doubt();
            }
            sleep(RECONNECT_AFTER.mul_f64(1.0 + fastrand::f64())).await;
        }
    }

    /// `Ok` after the listener is dropped.
    async fn connected(&mut self) -> Result<(), Error> {
        self.doubts.mark_unchanged();
        let (lost, mut losses) = mpsc::unbounded_channel();
        let Connected { mut connection, address, term } =
            connect(self.link.master(), self.receiver(lost)).await?;
        let address = address.to_string();
        let over = async {
            match &term {
                Some(term) => term.over().await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(over);
        // Some shards may have left this node while there was no connection.
        while let Ok(change) = self.changes.try_recv() {
            self.follow(&change);
        }
        let all: Vec<ShardId> = self.shards.iter().copied().collect();
        self.keep(all.iter().copied());
        self.elsewhere.clear();
        self.subscribe(&connection, &all).await?;
        if self.notify.send(Notification::Resync).is_err() {
            return Ok(());
        }
        loop {
            tokio::select! {
                loss = losses.recv() => match loss {
                    Some(Loss::Of(shard)) => self.is_elsewhere(shard),
                    Some(Loss::All) | None => {
                        return Err(Error::NoAnswer { address, why: "the connection broke".to_owned() });
                    }
                },
                () = sleep(RECONNECT_AFTER), if !self.elsewhere.is_empty() => {
                    let all: Vec<ShardId> = std::mem::take(&mut self.elsewhere).into_iter().collect();
                    self.subscribe(&connection, &all).await?;
                    if self.elsewhere.len() < all.len() {
                        let _ = self.notify.send(Notification::Resync);
                    }
                }
                () = &mut over => return Err(succeeded(address)),
                // The sender belongs to the link, which this ear holds.
                Ok(()) = self.doubts.changed() => return Err(succeeded(address)),
                change = self.changes.recv() => match change {
                    None => return Ok(()),
                    Some(change) => self.change(&connection, change).await?,
                },
                () = sleep(PING_EVERY) => self.ping(&mut connection, &address).await?,
            }
        }
    }

    /// Checks that the connection is alive. If the check fails, the link's own connection is in doubt too, unless an
    /// answer has arrived there since.
    async fn ping(&self, connection: &mut MultiplexedConnection, address: &str) -> Result<(), Error> {
        let sent = clock::instant();
        let ping = redis::cmd("PING");
        match timeout(self.link.settings().deadline / 2, ping.query_async::<()>(connection)).await {
            Ok(answer) => answer.map_err(|error| Error::of_call(address, None, &error)),
            Err(_) => {
                self.link.doubt(sent);
                Err(Error::NoAnswer { address: address.to_owned(), why: "no reply to PING".to_owned() })
            }
        }
    }

    async fn change(
        &mut self,
        connection: &MultiplexedConnection,
        change: FollowedChange,
    ) -> Result<(), Error> {
        self.follow(&change);
        self.keep(self.shards.iter().copied());
        match change {
            FollowedChange::Add(shards) => {
                self.subscribe(connection, &shards).await?;
                let _ = self.notify.send(Notification::Resync);
            }
            FollowedChange::Remove(shards) => {
                for (_, answer) in self.send(connection, "SUNSUBSCRIBE", &shards).await {
                    match answer {
                        // The node that gave a shard away has itself ended the subscriptions of the shard.
                        Err(Error::Redis { code, .. }) if code == "MOVED" => {}
                        answer => answer?,
                    }
                }
            }
        }
        Ok(())
    }

    fn follow(&mut self, change: &FollowedChange) {
        match change {
            FollowedChange::Add(shards) => self.shards.extend(shards),
            FollowedChange::Remove(shards) => {
                self.shards.retain(|shard| !shards.contains(shard));
                self.elsewhere.retain(|shard| !shards.contains(shard));
            }
        }
    }

    /// Notes that this node no longer has the shard, or does not have the shard yet, and has the cluster's slot map
    /// refreshed.
    fn is_elsewhere(&mut self, shard: ShardId) {
        if self.shards.contains(&shard) {
            self.elsewhere.insert(shard);
            self.link.master().doubt();
        }
    }

    fn keep(&self, shards: impl IntoIterator<Item = ShardId>) {
        if let Some(kept) = &self.kept {
            *lock(kept) = shards.into_iter().collect();
        }
    }

    /// Subscribes to the channels of shards; a shard that the node refuses as another node's is not followed yet.
    async fn subscribe(
        &mut self,
        connection: &MultiplexedConnection,
        shards: &[ShardId],
    ) -> Result<(), Error> {
        for (shard, answer) in self.send(connection, "SSUBSCRIBE", shards).await {
            match answer {
                Err(Error::Redis { code, .. }) if code == "MOVED" => self.is_elsewhere(shard),
                answer => answer?,
            }
        }
        if shards.iter().any(|shard| shard.get() == 0) && !self.followed.topics.is_empty() {
            self.be_counted(connection).await;
        }
        Ok(())
    }

    /// Messages arrive even if this fails.
    async fn be_counted(&self, connection: &MultiplexedConnection) {
        let (mut command, mut connection) = (redis::cmd("SSUBSCRIBE"), connection.clone());
        self.followed.topics.iter().for_each(|topic| {
            command.arg(self.keys.workers(topic));
        });
        if let Err(error) = command.exec_async(&mut connection).await {
            tracing::debug!(%error, "cannot register as a worker of its topics");
        }
    }

    /// Sends one command for each shard: a cluster takes no channels of several slots in one command, and a Redis
    /// behind a plain URL may turn into a cluster node.
    async fn send(
        &self,
        connection: &MultiplexedConnection,
        verb: &str,
        shards: &[ShardId],
    ) -> Vec<(ShardId, Result<(), Error>)> {
        let calls = shards.iter().map(|&shard| {
            let (mut command, mut connection) = (redis::cmd(verb), connection.clone());
            command.arg(self.keys.channel(shard, self.followed.channel));
            async move {
                let answer = command.exec_async(&mut connection).await;
                (shard, answer.map_err(|error| Error::of_call(self.link.address(), None, &error)))
            }
        });
        join_all(calls).await
    }

    /// Runs in the connection itself for each push: no task in between delays a waiting caller.
    fn receiver(
        &self,
        lost: mpsc::UnboundedSender<Loss>,
    ) -> impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + 'static {
        let (keys, notify, kept) = (self.keys.clone(), self.notify.clone(), self.kept.clone());
        move |push| match push.kind {
            PushKind::SMessage => match understand(&keys, &push) {
                Some(notification) => notify.send(notification).map_err(drop),
                None => Ok(()),
            },
            PushKind::Disconnection => lost.send(Loss::All).map_err(drop),
            PushKind::SUnsubscribe => match kept.as_ref().and_then(|kept| taken(&keys, kept, &push)) {
                Some(shard) => lost.send(Loss::Of(shard)).map_err(drop),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

fn understand(keys: &Keys, push: &PushInfo) -> Option<Notification> {
    let (channel, message) = (text(push.data.first())?, text(push.data.get(1))?);
    match keys.parse_channel(&channel)? {
        (shard, Channel::Wake) if message == FREED => Some(Notification::Freed(shard)),
        (shard, Channel::Wake) => Some(Notification::Wake(shard, UnixMillis::new(message.parse().ok()?))),
        (shard, Channel::Ready) => Some(Notification::Ready(shard, Topic::new(message).ok())),
    }
}

fn taken(keys: &Keys, kept: &Kept, push: &PushInfo) -> Option<ShardId> {
    let (shard, _) = keys.parse_channel(&text(push.data.first())?)?;
    lock(kept).contains(&shard).then_some(shard)
}

fn text(value: Option<&Value>) -> Option<String> {
    from_redis_value(value?.clone()).ok()
}

fn lock(kept: &Kept) -> MutexGuard<'_, BTreeSet<ShardId>> {
    kept.lock().expect("no code panics while holding the lock")
}

fn succeeded(address: String) -> Error {
    Error::Unreachable { address, why: "a connection to the same Redis was replaced".to_owned() }
}

async fn connect(master: &Master, receiver: impl AsyncPushSender) -> Result<Connected, Error> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(master.settings().connect_timeout))
        .set_response_timeout(Some(master.settings().deadline))
        .set_push_sender(receiver);
    master.connect(&config).await
}

/// Uses a separate connection, to check the user's permission.
pub(crate) async fn try_listening(master: &Master, keys: &Keys, shard: ShardId) -> Result<(), Error> {
    let Connected { mut connection, address, .. } = connect(master, |_: PushInfo| Ok::<(), ()>(())).await?;
    let channels = [Channel::Wake, Channel::Ready].map(|kind| keys.channel(shard, kind));
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
