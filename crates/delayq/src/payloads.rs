//! Payloads on the way in and out: compressed under the policy of the topic, restored when read.

use crate::calls::Calls;
use crate::clock;
use crate::codecs::{Codecs, Compression};
use crate::error::Error;
use delayq_core::codec::{self, Codec, CodecError, Dictionaries, Dictionary, Unrestored};
use delayq_core::envelope::Envelope;
use delayq_core::id::Topic;
use delayq_core::message::Message;
use delayq_core::policy::{Policy, TopicSettings};
use delayq_core::shard::ShardId;
use delayq_core::verbs::{dictionary, settings};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard};

/// The shard that has the dictionaries; policies are in every shard.
pub(crate) const FIRST: ShardId = ShardId::new(0);

/// The codecs and dictionaries that a client knows. Cheap to clone: all clones share the same state.
#[derive(Clone)]
pub(crate) struct Payloads(Arc<Inner>);

struct Inner {
    calls: Calls,
    codecs: Mutex<Codecs>,
    dictionaries: Dictionaries,
}

/// The dictionaries of one batch; a missing dictionary has a reason instead.
type Fetched = HashMap<u32, Result<Arc<Dictionary>, Unrestored>>;

// === impl Payloads ===

impl Payloads {
    pub(crate) fn new(calls: Calls) -> Self {
        Self(Arc::new(Inner { calls, codecs: Mutex::default(), dictionaries: Dictionaries::default() }))
    }

    /// A codec that is unknown or outdated is read in the background: no put waits for this.
    pub(crate) fn stored(&self, message: &Message) -> Envelope {
        let (compression, asks) = self.codecs().of(&message.topic, clock::instant());
        if asks {
            tokio::spawn(self.clone().ask());
        }
        match compression.compress(&message.payload) {
            Some(payload) => Envelope::of(message, payload, true),
            None => Envelope::of(message, message.payload.clone(), false),
        }
    }

    /// Ends when no topic is left to ask about.
    async fn ask(self) {
        loop {
            let page = self.codecs().next_page();
            if page.is_empty() {
                return;
            }
            if let Err(error) = self.refresh_codecs(&page).await {
                tracing::debug!(%error, topics = page.len(), "cannot read the codec of a topic");
            }
        }
    }

    /// At most 500 topics. Returns the first fault after all topics were read.
    pub(crate) async fn refresh_codecs(&self, topics: &[Topic]) -> Result<(), Error> {
        let described = self.0.calls.ask(settings::describe(FIRST, topics), settings::read).await?;
        let mut fault = None;
        for (topic, settings) in topics.iter().zip(described) {
            match self.compression(&settings).await {
                Ok(compression) => self.codecs().learn(topic, compression, clock::instant()),
                Err(error) => fault = fault.or(Some(error)),
            }
        }
        fault.map_or(Ok(()), Err)
    }

    async fn compression(&self, settings: &TopicSettings) -> Result<Compression, Error> {
        Ok(match policy_of(settings)?.codec.unwrap_or_default() {
            Codec::None => Compression::None,
            Codec::Zstd => Compression::Zstd,
            Codec::ZstdDictionary(id) => Compression::With(self.dictionary(id).await?),
        })
    }

    async fn dictionary(&self, id: u32) -> Result<Arc<Dictionary>, Error> {
        if let Some(dictionary) = self.0.dictionaries.get(id) {
            return Ok(dictionary);
        }
        let bytes = self
            .0
            .calls
            .ask(dictionary::request(id, b""), dictionary::read)
            .await?
            .ok_or(CodecError::NoDictionary(id))?;
        Ok(self.keep(id, &bytes))
    }

    pub(crate) fn keep(&self, id: u32, bytes: &[u8]) -> Arc<Dictionary> {
        self.0.dictionaries.keep(id, bytes)
    }

    fn codecs(&self) -> MutexGuard<'_, Codecs> {
        self.0.codecs.lock().expect("no code panics while holding the lock")
    }

    /// Returns the failure for each payload that cannot be restored; that payload stays unchanged, and is
    /// still marked `zstd`. A dictionary that cannot be fetched is asked for once.
    pub(crate) async fn restore_all(
        &self,
        envelopes: impl Iterator<Item = &mut Envelope>,
    ) -> Vec<Option<Unrestored>> {
        let (mut fetched, mut answers) = (HashMap::new(), Vec::new());
        for envelope in envelopes {
            answers.push(match envelope.zstd {
                true => self.restore(envelope, &mut fetched).await.err(),
                false => None,
            });
        }
        answers
    }

    async fn restore(&self, envelope: &mut Envelope, fetched: &mut Fetched) -> Result<(), Unrestored> {
        let dictionary = match codec::dictionary_of(&envelope.payload) {
            Some(id) => {
                if let Entry::Vacant(first) = fetched.entry(id) {
                    first.insert(self.dictionary(id).await.map_err(Unrestored::from));
                }
                Some(fetched[&id].clone()?)
            }
            None => None,
        };
        envelope.payload = codec::restore(&envelope.payload, dictionary.as_deref())?;
        envelope.zstd = false;
        Ok(())
    }
}

pub(crate) async fn policy(calls: &Calls, shard: ShardId, topic: &Topic) -> Result<Policy, Error> {
    let described = calls.ask(settings::describe(shard, [topic]), settings::read).await?;
    policy_of(&described.concat())
}

fn policy_of(settings: &TopicSettings) -> Result<Policy, Error> {
    let mut policy = Policy::default();
    for (field, value) in settings {
        policy.read(field, value)?;
    }
    Ok(policy)
}

// === impl Unrestored ===

impl From<Error> for Unrestored {
    fn from(error: Error) -> Self {
        match error {
            Error::Codec(error) => Self::Never(error),
            error => Self::NotNow(error.to_string()),
        }
    }
}
