//! Trains dictionaries on pending messages.

use super::{Admin, TimeRange};
use crate::error::Error;
use crate::payloads::FIRST;
use delayq_core::codec::{self, Codec};
use delayq_core::id::Topic;
use delayq_core::policy::Policy;
use delayq_core::verbs::dictionary;
use delayq_core::verbs::list::ListState;

/// A trained dictionary, and the achieved compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trained {
    /// The id.
    pub id: u32,
    /// Number of payloads that the dictionary was trained on.
    pub samples: usize,
    /// Bytes of these payloads uncompressed.
    pub plain_bytes: usize,
    /// Bytes of these payloads compressed with the dictionary.
    pub compressed_bytes: usize,
}

// === impl Admin ===

impl Admin {
    /// Returns the dictionary with this id, as in a backup; `None`: the deployment does not have the dictionary, or the
    /// shard of the dictionaries is left out.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn dictionary(&self, id: u32) -> Result<Option<Vec<u8>>, Error> {
        if self.leaves_out(FIRST) {
            return Ok(None);
        }
        self.client.calls.ask(dictionary::request(id, b""), dictionary::read).await
    }

    /// Keeps a dictionary of another deployment. A dictionary never changes: an existing dictionary with the id stays.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn keep_dictionary(&self, id: u32, bytes: &[u8]) -> Result<(), Error> {
        if let Some(kept) = self.client.calls.ask(dictionary::request(id, bytes), dictionary::read).await? {
            self.client.payloads.keep(id, &kept);
        }
        Ok(())
    }

    /// Trains a dictionary on at most `most` pending payloads of a topic, keeps the dictionary, and compresses the
    /// topic's payloads with the dictionary from now on. Earlier dictionaries stay, for payloads that were compressed
    /// with them.
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
