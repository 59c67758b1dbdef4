//! The dictionaries of a deployment, which compress payloads: reads, keeps and trains dictionaries.

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

/// Keeps and trains the dictionaries of a deployment. See [`Admin::dictionaries`].
///
/// ```no_run
/// # async fn example(admin: delayq::Admin, topic: delayq::Topic) -> Result<(), delayq::Error> {
/// let trained = admin.dictionaries().train(&topic, 1_000).await?;
/// println!("{} bytes became {}", trained.plain_bytes, trained.compressed_bytes);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DictionariesAdmin<'a> {
    admin: &'a Admin,
}

// === impl Admin ===

impl Admin {
    /// Returns the handle to the dictionaries of the deployment.
    pub const fn dictionaries(&self) -> DictionariesAdmin<'_> {
        DictionariesAdmin { admin: self }
    }
}

// === impl DictionariesAdmin ===

impl DictionariesAdmin<'_> {
    /// Returns the dictionary with this id, as in a backup; `None`: the deployment does not have the dictionary, or the
    /// shard of the dictionaries is left out.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn get(self, id: u32) -> Result<Option<Vec<u8>>, Error> {
        if self.admin.leaves_out(FIRST) {
            return Ok(None);
        }
        self.admin.client.calls.ask(dictionary::request(id, b""), dictionary::read).await
    }

    /// Keeps a dictionary of another deployment. A dictionary never changes: an existing dictionary with the id stays.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn keep(self, id: u32, bytes: &[u8]) -> Result<(), Error> {
        if let Some(kept) =
            self.admin.client.calls.ask(dictionary::request(id, bytes), dictionary::read).await?
        {
            self.admin.client.payloads.keep(id, &kept);
        }
        Ok(())
    }

    /// Trains a dictionary on at most `most` pending payloads of a topic, keeps the dictionary, and compresses the
    /// topic's payloads with the dictionary from now on. Earlier dictionaries stay, for payloads that were compressed
    /// with them.
    ///
    /// # Errors
    /// Too few samples, or samples that have nothing in common; Redis cannot be used.
    pub async fn train(self, topic: &Topic, most: usize) -> Result<Trained, Error> {
        let (mut samples, of_topic) = (Vec::new(), self.admin.topic(topic));
        for state in [ListState::Delayed, ListState::Ready] {
            let left = most - samples.len();
            let listed = of_topic.list(state, TimeRange::ALL, left).await?;
            samples.extend(
                listed.into_iter().filter_map(|listed| listed.envelope.ok()).map(|found| found.payload),
            );
        }
        let (id, bytes) = codec::train(&samples)?;
        self.admin.client.calls.ask(dictionary::request(id, &bytes), dictionary::read).await?;
        let dictionary = self.admin.client.payloads.keep(id, &bytes);
        let compressed = Policy { codec: Some(Codec::ZstdDictionary(id)), ..Policy::default() };
        of_topic.change_policy(&compressed, &[]).await?;
        self.admin.client.payloads.refresh_codecs(std::slice::from_ref(topic)).await?;
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
