//! Payloads on their way in and out: compressed as their topic's policy says, restored when they are read.

use crate::calls::Calls;
use crate::error::Error;
use delayq_core::codec::{self, Codec, CodecError, Dictionaries, Dictionary, Unrestored};
use delayq_core::envelope::Envelope;
use delayq_core::id::Topic;
use delayq_core::message::Message;
use delayq_core::policy::Policy;
use delayq_core::shard::ShardId;
use delayq_core::verbs::{dictionary, settings};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;

/// How long a topic's codec is believed before it is read again.
const BELIEVED: Duration = Duration::from_secs(10);

/// The shard that has the dictionaries; policies are in every shard.
pub(crate) const FIRST: ShardId = ShardId::new(0);

/// The codecs and dictionaries that a client knows. Cheap to clone: all clones share them.
#[derive(Clone)]
pub(crate) struct Payloads(Arc<Inner>);

struct Inner {
    calls: Calls,
    codecs: Mutex<HashMap<Topic, KnownCodec>>,
    dictionaries: Dictionaries,
}

/// How a topic's payloads are compressed, as far as it is known, and until when that is believed.
#[derive(Clone)]
struct KnownCodec {
    codec: Codec,
    dictionary: Option<Arc<Dictionary>>,
    until: Instant,
}

/// The dictionaries of one batch, or why there is none.
type Fetched = HashMap<u32, Result<Arc<Dictionary>, Unrestored>>;

// === impl Payloads ===

impl Payloads {
    pub(crate) fn new(calls: Calls) -> Self {
        Self(Arc::new(Inner { calls, codecs: Mutex::default(), dictionaries: Dictionaries::default() }))
    }

    /// A message as it is stored. A codec that is not known, or not any more, is read in the background: no put waits
    /// for it.
    pub(crate) fn stored(&self, message: &Message) -> Envelope {
        let compressed = match self.codec_of(&message.topic) {
            KnownCodec { codec: Codec::None, .. } => None,
            KnownCodec { codec: Codec::Zstd, .. } => codec::compress(&message.payload, None),
            KnownCodec { dictionary: Some(dictionary), .. } => {
                codec::compress(&message.payload, Some(&dictionary))
            }
            KnownCodec { dictionary: None, .. } => None,
        };
        match compressed {
            Some(payload) => message.envelope(payload, true),
            None => message.envelope(message.payload.clone(), false),
        }
    }

    fn codec_of(&self, topic: &Topic) -> KnownCodec {
        let now = now();
        let mut all = self.codecs();
        if let Some(known) = all.get(topic).filter(|known| known.until > now) {
            return known.clone();
        }
        let known = all.entry(topic.clone()).or_insert(KnownCodec {
            codec: Codec::None,
            dictionary: None,
            until: now,
        });
        known.until = now + BELIEVED;
        let (payloads, topic) = (self.clone(), topic.clone());
        tokio::spawn(async move {
            if let Err(error) = payloads.refresh_codec(&topic).await {
                tracing::debug!(%error, %topic, "the topic's codec could not be read");
            }
        });
        known.clone()
    }

    /// Reads a topic's codec, and its dictionary.
    pub(crate) async fn refresh_codec(&self, topic: &Topic) -> Result<(), Error> {
        let codec = policy(&self.0.calls, FIRST, topic).await?.codec.unwrap_or_default();
        let dictionary = match codec {
            Codec::ZstdDictionary(id) => Some(self.dictionary(id).await?),
            Codec::None | Codec::Zstd => None,
        };
        let known = KnownCodec { codec, dictionary, until: now() + BELIEVED };
        self.codecs().insert(topic.clone(), known);
        Ok(())
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

    /// Takes in a dictionary.
    pub(crate) fn keep(&self, id: u32, bytes: &[u8]) -> Arc<Dictionary> {
        self.0.dictionaries.keep(id, bytes)
    }

    fn codecs(&self) -> MutexGuard<'_, HashMap<Topic, KnownCodec>> {
        self.0.codecs.lock().expect("nothing panics while it holds the codecs")
    }

    /// Restores compressed payloads, and says of each why it could not: such a one stays as it is, and still says
    /// `zstd`. A dictionary that cannot be fetched is asked for once.
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

/// The policy of a topic, as this shard has it.
pub(crate) async fn policy(calls: &Calls, shard: ShardId, topic: &Topic) -> Result<Policy, Error> {
    let mut policy = Policy::default();
    for (field, value) in calls.ask(settings::describe(shard, topic), settings::read).await? {
        policy.read(field, &value)?;
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

#[allow(clippy::disallowed_methods, reason = "tokio's clock, which tests can pause")]
fn now() -> Instant {
    Instant::now()
}
