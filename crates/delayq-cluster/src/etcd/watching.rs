//! Watching keys from a revision on, several ranges on one stream.

use super::keyspace::Entry;
use super::link::{EtcdError, EtcdLink};
use etcd_client::{EventType, WatchOptions, WatchResponse, WatchStream};
use tokio::time::timeout;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchRange {
    pub(crate) key: String,
    pub(crate) prefix: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Put(Entry),
    Deleted(Vec<u8>, i64),
}

pub(crate) struct Watch {
    stream: WatchStream,
    /// Changes of one range that arrived before etcd had confirmed the other ranges.
    early: Vec<Change>,
}

// === impl WatchRange ===

impl WatchRange {
    pub(crate) const fn key(key: String) -> Self {
        Self { key, prefix: false }
    }
}

// === impl EtcdLink ===

impl EtcdLink {
    /// Starts after the revision `read_at`; returns once etcd has confirmed every range.
    pub(crate) async fn watch(&self, ranges: &[WatchRange], read_at: i64) -> Result<Watch, EtcdError> {
        let turn = self.turn();
        let first = ranges.first().cloned().expect("a watch has at least one range");
        let rest = ranges[1..].to_vec();
        let open = |mut client: etcd_client::Client| async move {
            let mut stream = client.watch(first.key.as_str(), Some(options(&first, 1, read_at))).await?;
            for (id, range) in (2..).zip(&rest) {
                stream.watch(range.key.as_str(), Some(options(range, id, read_at))).await?;
            }
            Ok(stream)
        };
        let mut watch = Watch { stream: self.ask(open).await?, early: Vec::new() };
        let confirmed = async {
            let mut waiting = ranges.len();
            while waiting > 0 {
                let message = watch.message().await?;
                waiting -= usize::from(message.created());
                watch.early.extend(message.events().iter().filter_map(change));
            }
            Ok(())
        };
        let deadline = *self.config().call_deadline;
        let confirmed = timeout(deadline, confirmed)
            .await
            .unwrap_or_else(|_| Err(EtcdError::Silent(format!("cannot start a watch within {deadline:?}"))));
        match confirmed {
            Ok(()) => Ok(watch),
            Err(EtcdError::Compacted) => Err(EtcdError::Compacted),
            Err(error) => {
                // A stale token shows here as a refusal; a new connection brings a new token.
                self.turn_away(turn, &error).await;
                Err(error)
            }
        }
    }
}

// === impl Watch ===

impl Watch {
    /// Empty for a message without changes. Has no deadline: a quiet cluster is silent, and the probes or the
    /// keep-alive find a dead connection. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Vec<Change>, EtcdError> {
        if !self.early.is_empty() {
            return Ok(std::mem::take(&mut self.early));
        }
        let message = self.message().await?;
        Ok(message.events().iter().filter_map(change).collect())
    }

    async fn message(&mut self) -> Result<WatchResponse, EtcdError> {
        let message = match self.stream.message().await {
            Ok(Some(message)) => message,
            Ok(None) => return Err(EtcdError::Silent("etcd closed the watch".into())),
            Err(error) => return Err(EtcdError::of(&error)),
        };
        match (message.canceled(), message.compact_revision()) {
            (false, _) => Ok(message),
            (true, 0) => {
                Err(EtcdError::Silent(format!("etcd cancelled the watch: {}", message.cancel_reason())))
            }
            (true, _) => Err(EtcdError::Compacted),
        }
    }
}

fn options(range: &WatchRange, id: i64, read_at: i64) -> WatchOptions {
    let mut options = WatchOptions::new().with_watch_id(id).with_start_revision(read_at + 1);
    if range.prefix {
        options = options.with_prefix();
    }
    options
}

fn change(event: &etcd_client::Event) -> Option<Change> {
    let kv = event.kv()?;
    Some(match event.event_type() {
        EventType::Put => Change::Put(Entry::from(kv)),
        EventType::Delete => Change::Deleted(kv.key().to_vec(), kv.mod_revision()),
    })
}
