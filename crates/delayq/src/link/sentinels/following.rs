//! Following one sentinel, with a question at each doubt, after each reported failover, and at regular intervals.

use super::election::Election;
use super::views::{Said, SentinelFacts};
use crate::link::node::Node;
use crate::link::settings::LinkSettings;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, PushInfo, PushKind, RedisError, cmd};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

/// Interval between regular questions, plus up to as much again at random: the safety net below the notifications.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Minimum time between two questions, regardless of the number of doubts.
const ASK_PAUSE: Duration = Duration::from_millis(50);
/// Maximum pause before the next attempt to connect, plus up to as much again at random; a doubt shortens the pause.
const RECONNECT_AFTER: Duration = Duration::from_millis(250);

/// The channels on which sentinels report another master: the first on all sentinels; the second, earlier, on the
/// sentinel that leads the failover.
const CHANNELS: [&str; 2] = ["+switch-master", "+promoted-slave"];

/// The ACL line of the least privileged sentinel user: `>PASSWORD` is a placeholder for the password.
pub fn sentinel_rule(user: &str) -> String {
    let channels = CHANNELS.map(|channel| format!("&{channel}")).join(" ");
    format!(
        "user {user} on >PASSWORD {channels} -@all +auth +hello +sentinel|get-master-addr-by-name +sentinel|master \
         +subscribe"
    )
}

pub(super) struct Following {
    index: usize,
    node: Node,
    settings: LinkSettings,
    election: Arc<Election>,
    rounds: watch::Receiver<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Failover,
    Broken,
}

// === impl Following ===

impl Following {
    pub(super) fn new(index: usize, node: Node, settings: LinkSettings, election: Arc<Election>) -> Self {
        let rounds = election.rounds();
        Self { index, node, settings, election, rounds }
    }

    pub(super) async fn run(mut self) {
        loop {
            self.rounds.mark_unchanged();
            let why = match self.connected().await {
                Err(why) => why,
                Ok(never) => match never {},
            };
            // Questions raised meanwhile went into the broken connection.
            self.election.note(self.index, self.election.round(), Err(why));
            sleep(ASK_PAUSE).await;
            let _ = timeout(RECONNECT_AFTER.mul_f64(1.0 + fastrand::f64()), self.rounds.changed()).await;
        }
    }

    /// Returns when the connection breaks, with the reason.
    async fn connected(&mut self) -> Result<std::convert::Infallible, String> {
        let (notify, mut notified) = mpsc::unbounded_channel();
        let connect = self.connect(notify);
        let mut connection =
            timeout(self.settings.connect_timeout, connect).await.map_err(|_| "no reply".to_owned())??;
        loop {
            let round = *self.rounds.borrow_and_update();
            let said = timeout(self.settings.connect_timeout, self.ask(&mut connection))
                .await
                .map_err(|_| "no reply".to_owned())??;
            self.election.note(self.index, round, said);
            sleep(ASK_PAUSE).await;
            tokio::select! {
                news = notified.recv() => if news != Some(News::Failover) {
                    return Err("the connection broke".to_owned());
                },
                _ = self.rounds.changed() => {}
                () = sleep(ASK_EVERY.mul_f64(1.0 + fastrand::f64())) => {}
            }
        }
    }

    async fn connect(&self, notify: mpsc::UnboundedSender<News>) -> Result<MultiplexedConnection, String> {
        let receiver = move |push: PushInfo| match push.kind {
            PushKind::Message => notify.send(News::Failover).map_err(drop),
            PushKind::Disconnection => notify.send(News::Broken).map_err(drop),
            _ => Ok(()),
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_push_sender(receiver);
        let client = self.settings.sentinel_client(&self.node)?;
        let connection = client.get_multiplexed_async_connection_with_config(&config).await;
        let mut connection = connection.map_err(|error| self.unconnected(&error))?;
        let subscribed = cmd("SUBSCRIBE").arg(&CHANNELS).exec_async(&mut connection).await;
        subscribed.map_err(|error| format!("SUBSCRIBE: {}", said_by(&error)))?;
        Ok(connection)
    }

    fn unconnected(&self, error: &RedisError) -> String {
        match error.code() {
            Some(_) => said_by(error),
            None => self.settings.sentinel_unconnected(said_by(error)),
        }
    }

    /// An error means that the connection is unusable.
    async fn ask(&self, connection: &mut MultiplexedConnection) -> Result<Result<Said, String>, String> {
        let service = self.election.service();
        let mut questions = redis::Pipeline::with_capacity(2);
        // While the sentinel leads a failover, only the first command names the new master, and the second its epoch.
        questions.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(service);
        questions.cmd("SENTINEL").arg("MASTER").arg(service);
        type Answers = (Option<(String, u16)>, HashMap<String, String>);
        match questions.query_async::<Answers>(connection).await {
            Ok((Some((host, port)), fields)) => Ok(Ok(read(Node::new(host, port), &fields))),
            Ok((None, _)) => Ok(Err(format!("no master named {service}"))),
            Err(error) if error.code() == Some("ERR") => {
                Ok(Err(format!("{} (SENTINEL MASTER {service})", said_by(&error))))
            }
            Err(error) => Err(said_by(&error)),
        }
    }
}

fn read(master: Node, fields: &HashMap<String, String>) -> Said {
    let text = |name: &str| fields.get(name).map_or("", String::as_str);
    let number = |name: &str| text(name).parse().unwrap_or(0);
    let facts = SentinelFacts {
        quorum: number("quorum"),
        sentinels: number("num-other-sentinels") + 1,
        replicas: number("num-slaves"),
        flags: text("flags").to_owned(),
    };
    Said { master, epoch: number("config-epoch"), facts }
}

fn said_by(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    }
}
