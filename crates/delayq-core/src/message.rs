//! A message as its producer hands it over.

use crate::{
    Backoff, Group, MessageId, NameError, OwnId, ShardId, Topic, UnixMillis,
    envelope::{Envelope, State},
};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// A message to be delivered at its due time.
///
/// ```
/// use delayq_core::{Message, Topic};
/// use std::time::Duration;
///
/// let message = Message::new(Topic::new("orders")?, "{\"order\":17}")
///     .after(Duration::from_secs(30 * 60))
///     .id("order-17")?
///     .group("user-5")?;
/// # Ok::<(), delayq_core::NameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub(crate) topic: Topic,
    pub(crate) id: Option<MessageId>,
    pub(crate) payload: Vec<u8>,
    pub(crate) due: Due,
    pub(crate) group: Option<Group>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) expires: Option<UnixMillis>,
    pub(crate) max_attempts: u16,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) replace: bool,
    pub(crate) tried: Option<UnixMillis>,
}

/// When a message is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// At this time on Redis's clock.
    At(UnixMillis),
    /// This long after the put, on Redis's clock; fractions of a millisecond are dropped.
    After(Duration),
}

/// A message that breaks a limit. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The payload is too large.
    #[error("the payload has {0} bytes; at most {1} are allowed")]
    PayloadTooLarge(usize, usize),
    /// The headers are too large.
    #[error("the headers have {0} bytes; at most {1} are allowed")]
    HeadersTooLarge(usize, usize),
    /// A header's name is empty, too long, or not plain.
    #[error("the header name {0:?} is not 1 to 255 printable ASCII characters without spaces")]
    HeaderName(String),
    /// A due time that cannot be.
    #[error("the due time {0} ms is not between 1 and {max} ms since the epoch", max = UnixMillis::MAX)]
    DueTime(u64),
    /// An expiry that comes before the due time.
    #[error("it expires at {expires} ms, which is not after its due time {due} ms")]
    ExpiryBeforeDue {
        /// The expiry.
        expires: UnixMillis,
        /// The due time.
        due: UnixMillis,
    },
    /// A generated id that carries another shard than its group's: it could not be found again.
    #[error(
        "the generated id is of shard {id}, its group of shard {group}; a message of a group takes its id from the put"
    )]
    IdOutsideGroup {
        /// The id's shard.
        id: ShardId,
        /// The group's shard.
        group: ShardId,
    },
    /// A back-off that is too long, or a list of none or more than 32.
    #[error("a back-off is 1 ms to 49 days; a list has 1 to 32 of them")]
    Backoff,
}

/// The most bytes of headers: names and values, and 3 bytes for each.
pub const MAX_HEADER_BYTES: usize = 16 * 1024;

/// The most bytes of a payload that any deployment can allow.
pub const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;

/// The most bytes of a payload unless the deployment says otherwise.
pub const DEFAULT_PAYLOAD_BYTES: usize = 256 * 1024;

// === impl Message ===

impl Message {
    /// A message that is due at once; say when it is to be with [`Message::at`] or [`Message::after`].
    pub fn new(topic: Topic, payload: impl Into<Vec<u8>>) -> Self {
        Self {
            topic,
            id: None,
            payload: payload.into(),
            due: Due::After(Duration::ZERO),
            group: None,
            headers: Vec::new(),
            expires: None,
            max_attempts: 0,
            backoff: None,
            replace: false,
            tried: None,
        }
    }

    /// Due at this time, on Redis's clock. A time that is past makes it ready at once.
    pub fn at(mut self, due: UnixMillis) -> Self {
        self.due = Due::At(due);
        self
    }

    /// Due then: [`Self::at`] or [`Self::after`], where the caller has either.
    pub fn due(mut self, due: Due) -> Self {
        self.due = due;
        self
    }

    /// Due this long after the put, on Redis's clock, in whole milliseconds.
    pub fn after(mut self, delay: Duration) -> Self {
        self.due = Due::After(delay);
        self
    }

    /// Under an id of the producer's own: a repeated put is then recognised, and the message can be found by it.
    ///
    /// # Errors
    /// Empty, longer than 128 bytes, or with control characters.
    pub fn id(self, id: impl Into<String>) -> Result<Self, NameError> {
        Ok(self.with_id(OwnId::new(id)?.into()))
    }

    /// Under this id, own or generated (a generated one says the shard).
    pub fn with_id(mut self, id: MessageId) -> Self {
        self.id = Some(id);
        self
    }

    /// In a group, by which pending messages are listed, moved and cancelled together. It also says the shard.
    ///
    /// # Errors
    /// Empty, longer than 128 bytes, or with control characters.
    pub fn group(self, group: impl Into<String>) -> Result<Self, NameError> {
        Ok(self.with_group(Group::new(group)?))
    }

    /// In this group.
    pub fn with_group(mut self, group: Group) -> Self {
        self.group = Some(group);
        self
    }

    /// With one more header, delivered beside the payload.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Not to be delivered any more from this time on, on Redis's clock.
    pub fn expires(mut self, at: UnixMillis) -> Self {
        self.expires = Some(at);
        self
    }

    /// Tried at most so often before it goes to the dead letters; 0: as its topic says.
    pub fn max_attempts(mut self, attempts: u16) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// With a back-off of its own.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = Some(backoff);
        self
    }

    /// Takes the place of a message with the same id that is pending, dead or over. Without it such a put answers
    /// *exists* or *conflict*. A leased message is never replaced.
    pub fn replace(mut self) -> Self {
        self.replace = true;
        self
    }

    /// A repeat of a put whose fate is unknown, first tried at this time of this host's clock. Where nothing is known of
    /// it any more it is delivered, or answered *stale*, as its topic says ([`crate::Repeats`]). Where it is to replace,
    /// it is answered *exists* if the same message was over since then.
    pub fn first_tried(mut self, at: UnixMillis) -> Self {
        self.tried = Some(at);
        self
    }

    /// The topic.
    pub fn topic(&self) -> &Topic {
        &self.topic
    }

    /// About how many bytes it takes in a call: payload and headers, and 512 for its names and all else, which they can
    /// hardly exceed.
    pub(crate) fn bytes(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len() + 3).sum();
        self.payload.len() + headers + 512
    }

    /// The id, where it has one already.
    pub fn message_id(&self) -> Option<&MessageId> {
        self.id.as_ref()
    }

    /// Checks all that can be checked before Redis sees it.
    pub(crate) fn check(&self, most_payload_bytes: usize) -> Result<(), MessageError> {
        if self.payload.len() > most_payload_bytes {
            return Err(MessageError::PayloadTooLarge(self.payload.len(), most_payload_bytes));
        }
        for (name, _) in &self.headers {
            if name.is_empty() || name.len() > 255 || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(MessageError::HeaderName(name.chars().take(40).collect()));
            }
        }
        let header_bytes = self.headers.iter().map(|(name, value)| name.len() + value.len() + 3).sum();
        if header_bytes > MAX_HEADER_BYTES {
            return Err(MessageError::HeadersTooLarge(header_bytes, MAX_HEADER_BYTES));
        }
        if let Due::At(due) = self.due {
            if due.get() == 0 || due > UnixMillis::MAX {
                return Err(MessageError::DueTime(due.get()));
            }
            if let Some(expires) = self.expires.filter(|&expires| expires <= due) {
                return Err(MessageError::ExpiryBeforeDue { expires, due });
            }
        }
        if self.backoff.as_ref().is_some_and(|backoff| !backoff.is_valid()) {
            return Err(MessageError::Backoff);
        }
        Ok(())
    }

    /// The envelope to be put; `payload` is the payload as it is to be stored.
    pub(crate) fn envelope(&self, payload: Vec<u8>, zstd: bool) -> Envelope {
        let own = matches!(self.id, Some(MessageId::Own(_)));
        Envelope {
            state: State::Delayed,
            generation: 0,
            due: UnixMillis::new(0),
            at: UnixMillis::new(0),
            delivery: 0,
            attempt: 0,
            max_attempts: self.max_attempts,
            doomed: false,
            hash: own.then(|| self.hash()),
            expires: self.expires,
            backoff: self.backoff.clone(),
            group: self.group.clone(),
            headers: self.headers.clone(),
            payload,
            zstd,
            reason: None,
        }
    }

    /// The first 8 bytes of the SHA-256 of topic, group, headers and payload as the producer gave it, each with
    /// its length (4 bytes, big-endian) before it. The due time is left out: a repeat may come with another.
    fn hash(&self) -> [u8; 8] {
        let mut hasher = Sha256::new();
        let mut field = |bytes: &[u8]| {
            hasher.update(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
            hasher.update(bytes);
        };
        field(self.topic.as_str().as_bytes());
        field(self.group.as_ref().map_or("", Group::as_str).as_bytes());
        for (name, value) in &self.headers {
            field(name.as_bytes());
            field(value.as_bytes());
        }
        field(&self.payload);
        let digest = hasher.finalize();
        let mut hash = [0; 8];
        hash.copy_from_slice(&digest[..8]);
        hash
    }
}

// === impl Due ===

impl Due {
    /// As the scripts read it.
    pub(crate) fn argument(self) -> String {
        match self {
            Self::At(due) => due.to_string(),
            Self::After(delay) => format!("+{}", delay.as_millis()),
        }
    }
}
