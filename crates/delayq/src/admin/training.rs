//! Training dictionaries on what is pending.

use super::{Admin, TimeRange};
use crate::error::Error;
use crate::payloads::FIRST;
use delayq_core::codec::{self, Codec};
use delayq_core::id::Topic;
use delayq_core::policy::Policy;
use delayq_core::verbs::dictionary;
use delayq_core::verbs::list::ListState;

/// A dictionary that was trained, and what it brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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

// === impl Admin ===

impl Admin {
    /// The dictionary of this id, as a backup carries it; `None`: the deployment does not have it, or the shard that has the
    /// dictionaries is left out.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn dictionary(&self, id: u32) -> Result<Option<Vec<u8>>, Error> {
        if self.leaves_out(FIRST) {
            return Ok(None);
        }
        self.client.calls.ask(dictionary::request(id, b""), dictionary::read).await
    }

    /// Keeps a dictionary of another deployment. A dictionary never changes: one that is there already stays.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn keep_dictionary(&self, id: u32, bytes: &[u8]) -> Result<(), Error> {
        if let Some(kept) = self.client.calls.ask(dictionary::request(id, bytes), dictionary::read).await? {
            self.client.payloads.keep(id, &kept);
        }
        Ok(())
    }

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
        self.client.calls.ask(dictionary::request(id, &bytes), dictionary::read).await?;
        let dictionary = self.client.payloads.keep(id, &bytes);
        let compressed = Policy { codec: Some(Codec::ZstdDictionary(id)), ..Policy::default() };
        self.change_policy(topic, &compressed, &[]).await?;
        self.client.payloads.refresh_codecs(std::slice::from_ref(topic)).await?;
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
