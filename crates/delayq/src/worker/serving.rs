//! Topics that share a concurrency: one consumer, and the running handlers.

use super::handling::{Handler, handle};
use crate::client::Client;
use crate::consumer::{Consumer, ConsumerOptions};
use delayq_core::id::Topic;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// In order of preference.
pub(super) struct Serving {
    pub(super) handlers: Vec<(Topic, Handler)>,
    pub(super) concurrency: usize,
    /// True: the consumer also pumps.
    pub(super) pump: bool,
}

// === impl Serving ===

impl Serving {
    /// At the stop, gives back the messages that no handler has finished within `grace`.
    pub(super) async fn run(
        self,
        client: Client,
        lease: Option<Duration>,
        stopping: CancellationToken,
        grace: Duration,
    ) {
        let mut consumer = Consumer::start(client, self.options(lease))
            .expect("a worker checks the options before it serves");
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = stopping.cancelled() => break,
                Some(ended) = running.join_next(), if !running.is_empty() => ended.expect("a panic of a \
                     handler is caught"),
                Some(delivery) = consumer.next() => {
                    let handler = self.handler(&delivery.topic);
                    running.spawn(handle(handler, delivery));
                }
                else => break,
            }
        }
        tokio::join!(consumer.stop(), end(running, grace));
    }

    pub(super) fn options(&self, lease: Option<Duration>) -> ConsumerOptions {
        let topics: Vec<Topic> = self.handlers.iter().map(|(topic, _)| topic.clone()).collect();
        ConsumerOptions {
            lease,
            pump: self.pump,
            ..ConsumerOptions::new(topics).concurrency(self.concurrency)
        }
    }

    fn handler(&self, topic: &Topic) -> Handler {
        let own = self.handlers.iter().find(|(known, _)| known == topic);
        own.expect("only topics that have a handler are reserved").1.clone()
    }
}

/// Handlers that exceed `grace` are dropped, and the drop gives the messages back.
async fn end(mut running: JoinSet<()>, grace: Duration) {
    let all = async { while running.join_next().await.is_some() {} };
    if timeout(grace, all).await.is_err() {
        tracing::warn!(left = running.len(), "handlers did not finish in time: returning their messages");
        running.shutdown().await;
    }
}
