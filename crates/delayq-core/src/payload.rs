//! Payloads on their way in and out: compressed as their topic says, restored when they are read.

use crate::{
    Admin, Client, Codec, CodecError, Error, ListState, Message, Policy, TimeRange, Topic,
    codec::{self, Dictionary},
    envelope::Envelope,
};
use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::time::Instant;

/// How long a topic's codec is believed before it is read anew.
const BELIEVED: Duration = Duration::from_secs(10);

/// What is known of the topics' codecs.
#[derive(Default)]
pub(crate) struct Codecs(Mutex<HashMap<Topic, Known>>);

#[derive(Clone)]
struct Known {
    codec: Codec,
    dictionary: Option<Arc<Dictionary>>,
    until: Instant,
}

/// Why a payload is not as it was put.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unrestored {
    /// It never will be: it is damaged, or its dictionary is not in this deployment. Bury it.
    #[error(transparent)]
    Never(CodecError),
    /// Its dictionary could not be fetched this time. Release it, and keep its attempt.
    #[error("its dictionary cannot be fetched now: {0}")]
    NotNow(String),
}

/// The dictionaries of one batch, or why there is none.
type Fetched = HashMap<u32, Result<Arc<Dictionary>, Unrestored>>;

/// A dictionary that was trained, and what it brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trained {
    /// Its id.
    pub id: u32,
    /// How many payloads it was trained on.
    pub samples: usize,
    /// Their bytes as they are.
    pub plain_bytes: usize,
    /// Their bytes compressed with it.
    pub compressed_bytes: usize,
}

// === impl Codecs ===

impl Codecs {
    fn known(&self) -> MutexGuard<'_, HashMap<Topic, Known>> {
        self.0.lock().expect("nothing panics while it holds the codecs")
    }
}

// === impl Client ===

impl Client {
    /// A message as it is stored. A topic whose codec is not known yet, or not any more, is read in the background:
    /// no put waits for it.
    pub(crate) fn stored(&self, message: &Message) -> Envelope {
        let compressed = match self.codec_of(&message.topic) {
            Known { codec: Codec::None, .. } => None,
            Known { codec: Codec::Zstd, .. } => codec::compress(&message.payload, None),
            Known { dictionary: Some(dictionary), .. } => {
                codec::compress(&message.payload, Some(&dictionary))
            }
            Known { dictionary: None, .. } => None,
        };
        match compressed {
            Some(payload) => message.envelope(payload, true),
            None => message.envelope(message.payload.clone(), false),
        }
    }

    fn codec_of(&self, topic: &Topic) -> Known {
        let now = now();
        let mut all = self.codecs().known();
        if let Some(known) = all.get(topic).filter(|known| known.until > now) {
            return known.clone();
        }
        let known =
            all.entry(topic.clone()).or_insert(Known { codec: Codec::None, dictionary: None, until: now });
        known.until = now + BELIEVED;
        let (client, topic) = (self.clone(), topic.clone());
        tokio::spawn(async move {
            if let Err(error) = client.refresh_codec(&topic).await {
                tracing::debug!(%error, %topic, "the topic's codec could not be read");
            }
        });
        known.clone()
    }

    /// Reads a topic's codec, and its dictionary.
    pub(crate) async fn refresh_codec(&self, topic: &Topic) -> Result<(), Error> {
        let codec = self.policy(topic).await?.codec.unwrap_or_default();
        let dictionary = match codec {
            Codec::ZstdDictionary(id) => Some(self.dictionary(id).await?),
            Codec::None | Codec::Zstd => None,
        };
        let known = Known { codec, dictionary, until: now() + BELIEVED };
        self.codecs().known().insert(topic.clone(), known);
        Ok(())
    }

    async fn dictionary(&self, id: u32) -> Result<Arc<Dictionary>, Error> {
        if let Some(dictionary) = self.dictionaries().get(id) {
            return Ok(dictionary);
        }
        let bytes = self.dictionary_call(id, b"").await?.ok_or(CodecError::NoDictionary(id))?;
        Ok(self.dictionaries().keep(id, &bytes))
    }

    /// Restores compressed payloads, and says of each why it could not: such a one stays as it is, and still says
    /// `zstd`. A dictionary that cannot be fetched is asked for once.
    pub(crate) async fn restore_payloads(
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

// === impl Unrestored ===

impl From<CodecError> for Unrestored {
    fn from(error: CodecError) -> Self {
        Self::Never(error)
    }
}

impl From<Error> for Unrestored {
    fn from(error: Error) -> Self {
        match error {
            Error::Codec(error) => Self::Never(error),
            error => Self::NotNow(error.to_string()),
        }
    }
}

// === impl Admin ===

impl Admin {
    /// Trains a dictionary on at most `most` pending payloads of a topic, keeps it, and compresses the topic's
    /// payloads with it from now on. Earlier dictionaries stay, for what was compressed with them.
    ///
    /// # Errors
    /// Too few samples, or samples that have nothing in common; Redis cannot be used.
    pub async fn train_dictionary(&self, topic: &Topic, most: usize) -> Result<Trained, Error> {
        let mut samples = Vec::new();
        for state in [ListState::Delayed, ListState::Ready] {
            let left = most - samples.len();
            let listed = self.list(topic, state, TimeRange::ALL, left).await?;
            samples.extend(
                listed.into_iter().filter_map(|listed| listed.envelope.ok()).map(|found| found.payload),
            );
        }
        let (id, bytes) = codec::train(&samples)?;
        self.client().dictionary_call(id, &bytes).await?;
        let dictionary = self.client().dictionaries().keep(id, &bytes);
        let compressed = Policy { codec: Some(Codec::ZstdDictionary(id)), ..Policy::default() };
        self.change_policy(topic, &compressed, &[]).await?;
        self.client().refresh_codec(topic).await?;
        let length =
            |sample: &Vec<u8>| codec::compress(sample, Some(&dictionary)).map_or(sample.len(), |c| c.len());
        Ok(Trained {
            id,
            samples: samples.len(),
            plain_bytes: samples.iter().map(Vec::len).sum(),
            compressed_bytes: samples.iter().map(length).sum(),
        })
    }
}

#[allow(clippy::disallowed_methods, reason = "tokio's clock, which tests can pause")]
fn now() -> Instant {
    Instant::now()
}
