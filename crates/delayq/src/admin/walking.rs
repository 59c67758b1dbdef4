//! A walk over every message of a deployment, while it is in use.
//!
//! It goes by the keys of Redis, not by time or state: a message has one key from its put to its end, whatever state it is
//! in. So whatever moves meanwhile, SCAN shows every message that is there from the first step to the last, and no page of
//! an index can pass one over. One that comes or goes in between may be shown or not; one may be shown twice.

use super::Admin;
use super::paced::Paced;
use crate::error::Error;
use crate::link::Link;
use delayq_core::codec::Unrestored;
use delayq_core::id::{Group, MessageId, Topic};
use delayq_core::shard::ShardId;
use delayq_core::verbs::list::{self, Listed};
use futures_util::{StreamExt, TryStreamExt, stream};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Keys that Redis walks over in one step: about so many messages are in memory at a time.
const A_STEP: usize = 250;
/// Messages that a script reads in one call.
const BODIES_A_CALL: usize = 8;
/// Calls under way at the same time: 4 MiB with payloads of 256 KiB, the default limit, which cross an ordinary network
/// within the deadline of a call.
const AT_ONCE: usize = 2;

/// A walk over every message, step by step.
#[derive(Debug)]
pub struct Walk {
    admin: Admin,
    at: WalkCursor,
    through: bool,
    only: BTreeSet<Topic>,
    /// The topics of the numbers that were met.
    topics: HashMap<(ShardId, Vec<u8>), Option<Topic>>,
}

/// Where a walk continues. It holds as long as the same process of Redis runs: another one orders its keys otherwise. As
/// text it has no spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkCursor {
    run_id: String,
    cursor: u64,
}

// === impl Walk ===

impl Walk {
    /// Shows messages of these topics alone; without any, of all.
    #[must_use]
    pub fn only(mut self, topics: impl IntoIterator<Item = Topic>) -> Self {
        self.only.extend(topics);
        self
    }

    /// The messages of the next step: pending, leased and dead ones, with their payloads restored where that is
    /// possible; some steps have none. `None`: every message was shown. Safe to repeat after an error.
    ///
    /// # Errors
    /// Redis cannot be used; or [`Error::Walk`]: it was restarted or replaced meanwhile, so that some may be missing.
    pub async fn step(&mut self) -> Result<Option<Vec<Listed>>, Error> {
        if self.through {
            return Ok(None);
        }
        let (next, keys) = self.scan().await?;
        let mut wanted: BTreeMap<(ShardId, Topic), BTreeSet<MessageId>> = BTreeMap::new();
        for key in keys {
            if let Some((shard, topic, id)) = self.named(&key).await?
                && (self.only.is_empty() || self.only.contains(&topic))
            {
                wanted.entry((shard, topic)).or_default().insert(id);
            }
        }
        let messages = self.read(wanted).await?;
        if next == 0 {
            let run_id = self.admin.run_id().await?;
            self.at.check(&run_id)?;
            self.through = true;
        } else {
            self.at.cursor = next;
        }
        Ok(Some(messages))
    }

    /// Behind what was shown so far; once the walk is through, before its last step.
    pub fn cursor(&self) -> &WalkCursor {
        &self.at
    }

    async fn scan(&self) -> Result<(u64, Vec<Vec<u8>>), Error> {
        let calls = &self.admin.client.calls;
        let mut scan = redis::cmd("SCAN");
        scan.arg(self.at.cursor).arg("MATCH").arg(format!("{{{}:*}}:m:*", calls.keys().namespace()));
        self.admin.only()?.query("SCAN", scan.arg("COUNT").arg(A_STEP)).await
    }

    /// Whose key it is; `None` where it is no message's, or that of a topic without a name.
    async fn named(&mut self, key: &[u8]) -> Result<Option<(ShardId, Topic, MessageId)>, Error> {
        let keys = self.admin.client.calls.keys();
        let parts = keys.parse(key).and_then(|(shard, name)| Some((shard, name.strip_prefix(b"m:")?)));
        let Some((shard, name)) = parts else { return Ok(None) };
        let Some(colon) = name.iter().position(|&byte| byte == b':') else { return Ok(None) };
        let known = (shard, name[..colon].to_vec());
        if !self.topics.contains_key(&known) {
            let number = String::from_utf8_lossy(&name[..colon]);
            let mut redis = Paced::new(self.admin.client.clone(), 1.0);
            let topic = redis.topic_name(shard, &number).await?.and_then(|name| Topic::new(name).ok());
            self.topics.insert(known.clone(), topic);
        }
        let (topic, id) = (self.topics[&known].clone(), MessageId::from_bytes(&name[colon + 1..]));
        Ok(topic.zip(id).map(|(topic, id)| (shard, topic, id)))
    }

    async fn read(
        &self,
        wanted: BTreeMap<(ShardId, Topic), BTreeSet<MessageId>>,
    ) -> Result<Vec<Listed>, Error> {
        let client = &self.admin.client;
        let mut calls = Vec::new();
        for ((shard, topic), ids) in wanted {
            let ids: Vec<MessageId> = ids.into_iter().collect();
            calls.extend(ids.chunks(BODIES_A_CALL).map(|some| {
                let (topic, ids) = (topic.clone(), some.to_vec());
                async move {
                    let ids: Vec<&MessageId> = ids.iter().collect();
                    let read = |reply| list::read_peek(reply, shard, &topic, &ids);
                    client.calls.ask(list::peek(shard, &topic, &ids), read).await
                }
            }));
        }
        let found: Vec<_> = stream::iter(calls).buffer_unordered(AT_ONCE).try_collect().await?;
        let is_over = |listed: &Listed| listed.envelope.as_ref().is_ok_and(|found| found.state.is_over());
        let mut messages: Vec<Listed> = found.into_iter().flatten().flatten().collect();
        messages.retain(|listed| !is_over(listed));
        let envelopes = messages.iter_mut().filter_map(|listed| listed.envelope.as_mut().ok());
        let answers = client.payloads.restore_all(envelopes).await;
        let not_now = answers.into_iter().flatten().find_map(|answer| match answer {
            Unrestored::NotNow(why) => Some(why),
            Unrestored::Never(_) => None,
        });
        match not_now {
            Some(why) => Err(Error::NoAnswer { address: client.address(), why }),
            None => Ok(messages),
        }
    }
}

// === impl WalkCursor ===

impl WalkCursor {
    fn check(&self, run_id: &str) -> Result<(), Error> {
        if self.run_id == run_id {
            return Ok(());
        }
        let why = "Redis was restarted or replaced since it began, and orders its keys otherwise now";
        Err(Error::Walk(format!("{why}: begin again")))
    }
}

impl fmt::Display for WalkCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.run_id, self.cursor)
    }
}

impl FromStr for WalkCursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':');
        let parsed = parts.and_then(|(run_id, cursor)| {
            Some(Self { run_id: run_id.to_owned(), cursor: cursor.parse().ok()? })
        });
        parsed.ok_or_else(|| format!("{text:?} is not where a walk continues"))
    }
}

// === impl Admin ===

impl Admin {
    /// Begins a walk over every message of the deployment, or continues one.
    ///
    /// # Errors
    /// [`Error::Walk`]: the cursor is of another process of Redis, or it is a Redis Cluster. Redis cannot be used, or the deployment is not there.
    pub async fn walk(&self, from: Option<&WalkCursor>) -> Result<Walk, Error> {
        self.client.calls.layout().await?;
        let run_id = self.run_id().await?;
        let at = match from {
            Some(cursor) => {
                cursor.check(&run_id)?;
                cursor.clone()
            }
            None => WalkCursor { run_id, cursor: 0 },
        };
        let (through, only, topics) = (false, BTreeSet::new(), HashMap::new());
        Ok(Walk { admin: self.clone(), at, through, only, topics })
    }

    /// The id under which a message of another deployment is put into this one: its own, unless it is a generated one
    /// that names a shard where this deployment would not find it. The same id gives the same answer as long as this
    /// deployment does not grow. Ask [`Admin::layout`] before: until then the configured shards count.
    pub fn id_here(&self, id: &MessageId, group: Option<&Group>) -> MessageId {
        let Some(shard) = id.shard() else { return id.clone() };
        let layout = self.client.calls.known().layout;
        match group.map(|group| layout.placement(group.as_str())) {
            Some(places) if places.newest_first().any(|place| place == shard) => id.clone(),
            Some(places) => id.with_shard(places.home),
            None if layout.shards().contains(shard) => id.clone(),
            None => id.with_shard(ShardId::new(shard.get() % layout.shards().get())),
        }
    }

    /// The one Redis: of a cluster, whose shards may move while it is walked over, messages would be passed over; and a cursor
    /// is of one Redis.
    fn only(&self) -> Result<&Link, Error> {
        let only = self.client.calls.nodes().only().map(Arc::as_ref);
        only.ok_or_else(|| {
            Error::Walk(
                "this version does not walk over a Redis Cluster, nor over several Redises: back up its nodes instead"
                    .to_owned(),
            )
        })
    }

    /// What tells one process of Redis from every other.
    async fn run_id(&self) -> Result<String, Error> {
        let mut info = redis::cmd("INFO");
        let text: String = self.only()?.query("INFO", info.arg("server")).await?;
        let run_id = text.lines().find_map(|line| line.trim().strip_prefix("run_id:"));
        run_id.map(str::to_owned).ok_or_else(|| Error::Unfit("INFO names no run_id".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_and_holds_for_its_process_alone() {
        let cursor = WalkCursor { run_id: "ab12".to_owned(), cursor: u64::MAX };
        assert_eq!(cursor.to_string().parse(), Ok(cursor.clone()));
        assert!(cursor.check("ab12").is_ok());
        assert!(matches!(cursor.check("ab13"), Err(Error::Walk(_))));
        for bad in ["", "ab12", "ab12:", "ab12:-1", "ab12:x"] {
            assert!(bad.parse::<WalkCursor>().is_err(), "{bad}");
        }
    }
}
