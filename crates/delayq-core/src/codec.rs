//! Compression of payloads: none, zstd, or zstd with a dictionary trained on a topic's own payloads.
//!
//! Small, similar payloads shrink several-fold with a dictionary, and hardly without one. The frame names the
//! dictionary that it needs; dictionaries are stored in Redis by id and never change, so a reader fetches each one
//! once. A payload that does not shrink is stored uncompressed.

use crate::message::MAX_PAYLOAD_BYTES;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard};
use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};

/// The fastest level: higher levels gain little on small payloads and cost several times as much.
const LEVEL: i32 = 1;

/// The size of a trained dictionary, in bytes: larger sizes gain nothing on payloads of a few KiB.
pub const DICTIONARY_BYTES: usize = 16 * 1024;

/// The minimum number of samples to train a dictionary.
pub const FEWEST_SAMPLES: usize = 100;

/// The compression of a topic's payloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Codec {
    /// Uncompressed.
    #[default]
    None,
    /// Each payload on its own.
    Zstd,
    /// With the dictionary of this id.
    ZstdDictionary(u32),
}

/// Errors of compressing or restoring a payload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// A codec that this version does not support.
    #[error("{0:?} is not a codec: use none, zstd or zstd:<dictionary id>")]
    Unknown(String),
    /// The dictionary is not in Redis.
    #[error("this deployment has no dictionary {0}")]
    NoDictionary(u32),
    /// Not a zstd frame, damaged, or larger than any payload may be.
    #[error("the payload cannot be restored: {0}")]
    Damaged(String),
    /// These samples cannot train a dictionary.
    #[error("cannot train a dictionary: {0}")]
    Untrainable(String),
}

/// Why a payload could not be restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unrestored {
    /// Damaged, or with a dictionary that this deployment does not have. Never restorable: bury the message.
    #[error(transparent)]
    Never(CodecError),
    /// The dictionary could not be fetched this time. Release the message without counting the attempt.
    #[error("the dictionary cannot be fetched now: {0}")]
    NotNow(String),
}

/// The dictionaries fetched so far.
#[derive(Default)]
pub struct Dictionaries(Mutex<HashMap<u32, Arc<Dictionary>>>);

/// A dictionary, ready for use.
pub struct Dictionary {
    encoder: EncoderDictionary<'static>,
    decoder: DecoderDictionary<'static>,
}

// === impl Codec ===

impl FromStr for Codec {
    type Err = CodecError;

    fn from_str(text: &str) -> Result<Self, CodecError> {
        match text.split_once(':') {
            None if text.is_empty() || text == "none" => Ok(Self::None),
            None if text == "zstd" => Ok(Self::Zstd),
            Some(("zstd", id)) => match id.parse() {
                Ok(id) => Ok(Self::ZstdDictionary(id)),
                Err(_) => Err(CodecError::Unknown(text.to_owned())),
            },
            _ => Err(CodecError::Unknown(text.to_owned())),
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Zstd => f.write_str("zstd"),
            Self::ZstdDictionary(id) => write!(f, "zstd:{id}"),
        }
    }
}

// === impl Unrestored ===

impl From<CodecError> for Unrestored {
    fn from(error: CodecError) -> Self {
        Self::Never(error)
    }
}

// === impl Dictionaries ===

impl Dictionaries {
    /// The dictionary of this id, if already fetched.
    pub fn get(&self, id: u32) -> Option<Arc<Dictionary>> {
        self.known().get(&id).cloned()
    }

    /// Keeps a dictionary under its id.
    pub fn keep(&self, id: u32, bytes: &[u8]) -> Arc<Dictionary> {
        let dictionary = Arc::new(Dictionary {
            encoder: EncoderDictionary::copy(bytes, LEVEL),
            decoder: DecoderDictionary::copy(bytes),
        });
        self.known().insert(id, Arc::clone(&dictionary));
        dictionary
    }

    fn known(&self) -> MutexGuard<'_, HashMap<u32, Arc<Dictionary>>> {
        self.0.lock().expect("no code panics while holding the lock")
    }
}

/// Trains a dictionary, which contains its own id.
///
/// # Errors
/// There are fewer than [`FEWEST_SAMPLES`] samples, or the samples have nothing in common.
pub fn train(samples: &[Vec<u8>]) -> Result<(u32, Vec<u8>), CodecError> {
    if samples.len() < FEWEST_SAMPLES {
        return Err(CodecError::Untrainable(format!(
            "{} samples, at least {FEWEST_SAMPLES} are needed",
            samples.len()
        )));
    }
    let bytes = zstd::dict::from_samples(samples, DICTIONARY_BYTES)
        .map_err(|error| CodecError::Untrainable(error.to_string()))?;
    let id = zstd::zstd_safe::get_dict_id_from_dict(&bytes).ok_or_else(|| {
        CodecError::Untrainable("the trainer returned a dictionary without an id".to_owned())
    })?;
    Ok((id.get(), bytes))
}

/// The compressed payload; `None` if compression would not save space.
pub fn compress(payload: &[u8], dictionary: Option<&Dictionary>) -> Option<Vec<u8>> {
    let mut compressor = match dictionary {
        Some(dictionary) => Compressor::with_prepared_dictionary(&dictionary.encoder),
        None => Compressor::new(LEVEL),
    }
    .ok()?;
    compressor.compress(payload).ok().filter(|compressed| compressed.len() < payload.len())
}

/// The dictionary that a frame needs, if any.
pub fn dictionary_of(frame: &[u8]) -> Option<u32> {
    zstd::zstd_safe::get_dict_id_from_frame(frame).map(std::num::NonZeroU32::get)
}

/// The payload of a frame; never larger than the largest payload of any deployment.
pub fn restore(frame: &[u8], dictionary: Option<&Dictionary>) -> Result<Vec<u8>, CodecError> {
    let damaged = |error: std::io::Error| CodecError::Damaged(error.to_string());
    let mut decompressor = match dictionary {
        Some(dictionary) => Decompressor::with_prepared_dictionary(&dictionary.decoder),
        None => Decompressor::new(),
    }
    .map_err(damaged)?;
    decompressor.decompress(frame, MAX_PAYLOAD_BYTES).map_err(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(n: usize) -> Vec<u8> {
        format!(
            "{{\"order\":{n},\"customer\":\"c-{}\",\"event\":\"payment-timeout\",\"currency\":\"EUR\"}}",
            n * 7
        )
        .into_bytes()
    }

    #[test]
    fn a_trained_dictionary_shrinks_small_payloads_that_resemble_each_other() {
        let samples: Vec<_> = (0..2_000).map(order).collect();
        let (id, bytes) = train(&samples).unwrap();
        let dictionary = Dictionaries::default().keep(id, &bytes);
        let payload = order(123_456);
        let frame = compress(&payload, Some(&dictionary)).unwrap();
        assert!(frame.len() * 2 < payload.len(), "{} of {}", frame.len(), payload.len());
        assert_eq!(dictionary_of(&frame), Some(id));
        assert_eq!(restore(&frame, Some(&dictionary)).unwrap(), payload);
        assert!(restore(&frame, None).is_err());
    }

    #[test]
    fn what_does_not_shrink_is_left_alone() {
        let noise: Vec<u8> = (0..200).map(|_| fastrand::u8(..)).collect();
        assert_eq!(compress(&noise, None), None);
        assert_eq!(compress(b"", None), None);
    }

    #[test]
    fn a_frame_larger_than_any_payload_is_refused() {
        let bomb = zstd::bulk::compress(&vec![0; MAX_PAYLOAD_BYTES + 1], LEVEL).unwrap();
        assert!(matches!(restore(&bomb, None), Err(CodecError::Damaged(_))));
        assert!(matches!(restore(b"no frame", None), Err(CodecError::Damaged(_))));
    }

    #[test]
    fn a_codec_is_read_as_it_is_written() {
        for codec in [Codec::None, Codec::Zstd, Codec::ZstdDictionary(7)] {
            assert_eq!(codec.to_string().parse(), Ok(codec));
        }
        assert!("gzip".parse::<Codec>().is_err());
        assert!("zstd:x".parse::<Codec>().is_err());
    }
}
