//! `claim`, `hold`, `configure`, `forget`, `replay`, `purge`: what owners and operators do.

use crate::{
    Client, Error, Layout, MessageId, Policy, ShardId, Topic, UnixMillis,
    client::UnixMicros,
    link::Call,
    policy::{TopicSettings, known_field},
    reply::{Reply, Words, text_of},
    script::Verb,
    verbs::Cursor,
};
use redis::Value;
use std::{collections::BTreeMap, time::Duration};

/// What a claim got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The shard is the caller's, under this epoch.
    Mine {
        /// To be sent with every pump.
        epoch: u64,
        /// Redis's clock.
        now: UnixMicros,
        /// When the shard has to be looked at first; `None`: it holds nothing that has a time.
        next_due: Option<UnixMillis>,
    },
    /// Another owner's lock lasts.
    Owned {
        /// Its name.
        owner: String,
    },
}

/// What a hold got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldAnswer {
    /// As asked.
    Done,
    /// A newer owner has this epoch.
    Fenced(u64),
}

/// What became of dead letters that were to live again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// How many live again.
    pub replayed: u64,
    /// How many stay dead, by the reason: above all those whose own expiry is not after the new due time.
    pub kept: BTreeMap<String, u64>,
}

/// What became of messages that were to be thrown away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// How many are gone.
    pub purged: u64,
    /// How many could not be: they are of a later format, or a key on their way is of the wrong type.
    pub kept: u64,
}

/// What became of a topic in one shard that was to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Forgotten {
    /// It is gone; or, where it was only looked at, it holds nothing.
    Empty,
    /// It is not there.
    Unknown,
    /// It stays as it is, because it holds this.
    Kept(String),
}

// === impl Client ===

impl Client {
    /// Makes the caller the owner of shards, each under a new epoch; all in one round trip. With a `lock`, a claim
    /// is refused while another owner's lock lasts, and renews the caller's own.
    pub async fn claim(
        &self,
        shards: &[ShardId],
        owner: &str,
        lock: Duration,
    ) -> Vec<Result<Claimed, Error>> {
        let claim = |&shard: &ShardId| self.call(Verb::Claim, shard).arg(owner).arg(lock.as_millis() as u64);
        let calls: Vec<_> = shards.iter().map(claim).collect();
        self.send_all(calls).await.into_iter().map(|reply| claimed(reply?)).collect()
    }

    /// Stops a shard from letting anything become ready, or lets it go on.
    pub async fn hold(&self, shard: ShardId, epoch: u64, on: bool) -> Result<HoldAnswer, Error> {
        let call = self.call(Verb::Hold, shard).arg(epoch).arg(if on { "on" } else { "off" });
        let text = text_of(Verb::Hold, self.send(call).await?)?;
        let mut words = Words::new(&text);
        match (words.word(), words.number()) {
            ("held" | "free", _) => Ok(HoldAnswer::Done),
            ("fenced", Some(epoch)) => Ok(HoldAnswer::Fenced(epoch)),
            _ => Err(Error::Protocol { script: "hold", answer: text }),
        }
    }

    /// Sets settings of a topic in shards, all in one round trip.
    pub(crate) async fn configure_call(
        &self,
        shards: &[ShardId],
        topic: &Topic,
        settings: &TopicSettings,
    ) -> Result<(), Error> {
        let configure = |&shard: &ShardId| {
            let mut call = self.call(Verb::Configure, shard).arg(topic.as_str());
            push_settings(&mut call, settings);
            call
        };
        let calls = shards.iter().map(configure).collect();
        self.send_all(calls).await.into_iter().try_for_each(|reply| reply.map(drop))
    }

    /// Sets settings of a topic in shards that a growth adds, under the layout that it leads to: this client does not
    /// know of it yet.
    pub(crate) async fn configure_new(
        &self,
        shards: &[ShardId],
        layout: &Layout,
        topic: &Topic,
        settings: &TopicSettings,
    ) -> Result<(), Error> {
        let configure = |&shard: &ShardId| {
            let mut call = self.link().call(Verb::Configure, shard, layout.number()).arg(topic.as_str());
            push_settings(&mut call, settings);
            call
        };
        let calls: Vec<Call> = shards.iter().map(configure).collect();
        self.link().send_all(&calls).await.into_iter().try_for_each(|reply| reply.map(drop))
    }

    /// The settings of a topic as one shard has them, its name left out; nothing where it is at its defaults.
    pub(crate) async fn settings_call(&self, shard: ShardId, topic: &Topic) -> Result<TopicSettings, Error> {
        let call = self.call(Verb::Describe, shard).arg(topic.as_str());
        let mut reply = Reply::new(Verb::Describe, self.send(call).await?)?;
        let mut settings = Vec::new();
        while !reply.is_empty() {
            let (field, value) = (reply.text()?, reply.bytes()?);
            settings.extend(known_field(&field).map(|known| (known, value)));
        }
        Ok(settings)
    }

    /// The policy of a topic, as its first shard has it; the paused flag and the rate are told by `count`.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn policy(&self, topic: &Topic) -> Result<Policy, Error> {
        let mut policy = Policy::default();
        for (field, value) in self.settings_call(ShardId::new(0), topic).await? {
            policy.read(field, &value)?;
        }
        Ok(policy)
    }

    /// Deletes a topic that holds nothing from one shard; with `look`, tells what would become of it.
    pub(crate) async fn forget_call(
        &self,
        shard: ShardId,
        topic: &Topic,
        look: bool,
    ) -> Result<Forgotten, Error> {
        let what = if look { "look" } else { "forget" };
        let call = self.call(Verb::Forget, shard).arg(topic.as_str()).arg(what);
        let text = text_of(Verb::Forget, self.send(call).await?)?;
        let mut words = Words::new(&text);
        match words.word() {
            "empty" | "forgotten" => Ok(Forgotten::Empty),
            "unknown" => Ok(Forgotten::Unknown),
            "kept" => Ok(Forgotten::Kept(words.rest().to_owned())),
            _ => Err(Error::Protocol { script: "forget", answer: text }),
        }
    }

    /// Keeps a dictionary, or finds one (`bytes` empty); `None`: there is none.
    pub(crate) async fn dictionary_call(&self, id: u32, bytes: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let call = self.call(Verb::Dictionary, ShardId::new(0)).arg(id).arg(bytes);
        let reply = self.send(call).await?;
        let found = Reply::new(Verb::Dictionary, Value::Array(vec![reply]))?.bytes()?;
        Ok(Some(found).filter(|bytes| !bytes.is_empty()))
    }

    /// Gives dead letters of one topic in one shard another life.
    pub(crate) async fn replay_call(
        &self,
        shard: ShardId,
        topic: &Topic,
        delay: Duration,
        ids: &[MessageId],
    ) -> Result<Replayed, Error> {
        let mut call = self.call(Verb::Replay, shard).arg(topic.as_str()).arg(delay.as_millis() as u64);
        ids.iter().for_each(|id| call.push(id.as_bytes()));
        let mut reply = Reply::new(Verb::Replay, self.send(call).await?)?;
        let mut replayed = Replayed::default();
        while !reply.is_empty() {
            let text = reply.text()?;
            let mut words = Words::new(&text);
            match words.word() {
                "ready" | "delayed" => replayed.replayed += 1,
                "refused" | "failed" => *replayed.kept.entry(words.rest().to_owned()).or_default() += 1,
                "not" | "unknown" => {}
                _ => return Err(reply.nonsense(&text)),
            }
        }
        Ok(replayed)
    }

    /// One step of throwing messages away, and where the next one begins; `None`: through.
    pub(crate) async fn purge_step(
        &self,
        shard: ShardId,
        (topic, state, to): (&Topic, &str, UnixMillis),
        cursor: &Cursor,
    ) -> Result<(Purged, Option<Cursor>), Error> {
        let call = self.call(Verb::Purge, shard).arg(topic.as_str()).arg(state).cursor_time(cursor);
        let call = call.arg(to.get()).cursor_entry(cursor).arg(crate::MAX_IDS_A_CALL);
        let mut reply = Reply::new(Verb::Purge, self.send(call).await?)?;
        let more = match reply.text()?.as_str() {
            "more" => true,
            "done" => false,
            other => return Err(reply.nonsense(other)),
        };
        let purged = Purged { purged: reply.number()?, kept: reply.number()? };
        let next = Cursor::read(&mut reply)?;
        Ok((purged, next.filter(|_| more)))
    }
}

// === impl Replayed ===

impl Replayed {
    /// How many stay dead.
    pub fn kept(&self) -> u64 {
        self.kept.values().sum()
    }

    /// Adds those of another call.
    pub(crate) fn add(&mut self, other: Self) {
        self.replayed += other.replayed;
        for (why, count) in other.kept {
            *self.kept.entry(why).or_default() += count;
        }
    }
}

// === impl Purged ===

impl Purged {
    /// Adds those of another step.
    pub(crate) const fn add(&mut self, other: Self) {
        self.purged += other.purged;
        self.kept += other.kept;
    }
}

fn push_settings(call: &mut Call, settings: &TopicSettings) {
    for (field, value) in settings {
        call.push(*field);
        call.push(value);
    }
}

fn claimed(reply: Value) -> Result<Claimed, Error> {
    let mut reply = Reply::new(Verb::Claim, reply)?;
    let word = reply.text()?;
    let (epoch, now, owner) = (reply.number()?, UnixMicros(reply.number()?), reply.text()?);
    let next_due = reply.maybe_number()?.map(UnixMillis::new);
    match word.as_str() {
        "claimed" | "renewed" => Ok(Claimed::Mine { epoch, now, next_due }),
        "owned" => Ok(Claimed::Owned { owner }),
        _ => Err(reply.nonsense(&word)),
    }
}
