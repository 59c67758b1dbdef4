//! A message as its producer creates it.

use crate::again::{Again, DueRule, Expectation};
use crate::backoff::Backoff;
use crate::envelope::{ContentHash, Envelope, State};
use crate::id::{Group, HEADER_NAME, MessageId, NameError, OwnId, Topic};
use crate::record::RecordId;
use crate::shard::ShardId;
use crate::time::{OddTime, UnixMillis, offset};
#[cfg(feature = "jiff")]
use crate::time::{OddWindow, Window};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// A message to be delivered at its due time.
///
/// ```
/// use delayq_core::{id::Topic, message::Message};
/// use std::time::Duration;
///
/// let message = Message::new(Topic::new("orders")?, "{\"order\":17}")
///     .after(Duration::from_secs(30 * 60))
///     .id("order-17")?
///     .group("user-5")?;
/// # Ok::<(), delayq_core::id::NameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a message does nothing until it is put"]
pub struct Message {
    /// The topic.
    pub topic: Topic,
    /// The id; if missing, the put generates an id.
    pub id: Option<MessageId>,
    /// The producer's bytes.
    pub payload: Vec<u8>,
    /// The due time.
    pub due: Due,
    /// The group.
    pub group: Option<Group>,
    /// Names and values, delivered with the payload.
    pub headers: Vec<(String, String)>,
    /// Expiry, on Redis's clock.
    pub expires: Option<UnixMillis>,
    /// Time from the due time to the expiry, in place of `expires`.
    pub expire_after: Option<Duration>,
    /// Maximum attempts before the message becomes a dead letter; 0: the topic's.
    pub max_attempts: u16,
    /// The message's back-off; `None`: the topic's.
    pub backoff: Option<Backoff>,
    /// True to replace a message with the same id.
    pub replace: bool,
    /// With `replace`: the treatment of a pending message with the same id.
    pub again: Again,
    /// Time of the first try of a put of unknown fate, on this host's clock.
    pub tried: Option<UnixMillis>,
    /// True if the times are intended, although they look like seconds or microseconds.
    pub any_time: bool,
    /// The record of this put: a repeat gets the answer of the first call.
    pub record: Option<RecordId>,
}

/// A due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// At this time on Redis's clock.
    At(UnixMillis),
    /// This long after the put, on Redis's clock; fractions of a millisecond are dropped.
    After(Duration),
}

/// A message that breaks a limit. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The payload is too large.
    #[error("the payload has {0} bytes; at most {1} are allowed")]
    PayloadTooLarge(usize, usize),
    /// The headers are too large.
    #[error("the headers have {0} bytes; at most {1} are allowed")]
    HeadersTooLarge(usize, usize),
    /// A header's name is empty, too long, or has invalid characters.
    #[error("the header name {0:?} is not 1 to 255 printable ASCII characters without spaces")]
    HeaderName(String),
    /// An invalid due time.
    #[error("the due time {0} ms is not between 1 and {max} ms since the epoch", max = UnixMillis::MAX)]
    DueTime(u64),
    /// A due time or an expiry in another unit than milliseconds; [`Message::any_time`] accepts such times.
    #[error(transparent)]
    Time(#[from] OddTime),
    /// An expiry before the due time.
    #[error("the expiry {expires} ms is not after the due time {due} ms")]
    ExpiryBeforeDue {
        /// The expiry.
        expires: UnixMillis,
        /// The due time.
        due: UnixMillis,
    },
    /// A time from the due time to the expiry that is too short or too long, or beside an absolute expiry.
    #[error("expire_after is 1 ms to {max} ms, without an absolute expiry", max = UnixMillis::MAX)]
    ExpireAfter,
    /// A generated id of another shard than its group's: the message could not be found again.
    #[error(
        "the generated id belongs to shard {id}, the group to shard {group}; for a message of a group, let the put generate the id"
    )]
    IdOutsideGroup {
        /// The id's shard.
        id: ShardId,
        /// The group's shard.
        group: ShardId,
    },
    /// A debounce without a longest wait, or with a wait beyond every due time.
    #[error("the longest wait of a debounce is 1 ms to {max} ms", max = UnixMillis::MAX)]
    LongestWait,
    /// A throttle without a window, or with a window beyond every due time.
    #[error("the window of a throttle is 1 ms to {max} ms, and to the topic's remember_own", max = UnixMillis::MAX)]
    Window,
    /// A throttle of a message without an own id.
    #[error("a throttle needs an id of your own: a generated id meets no earlier message")]
    ThrottledWithoutId,
    /// A message that cannot be put at several dates ([`Message::series`]).
    #[error("a series {0}")]
    Series(&'static str),
    /// A next message that an ack cannot put ([`crate::leased::Leased::next`]).
    #[error("a next message {0}")]
    Next(&'static str),
    /// A back-off that is too long, or a list of 0 or more than 32 delays.
    #[error("a back-off is 1 ms to 49 days; a list has 1 to 32 of them")]
    Backoff,
}

/// Maximum bytes of headers: names and values, and 3 bytes for each.
pub const MAX_HEADER_BYTES: usize = 16 * 1024;

/// Maximum bytes of a payload that any deployment can allow.
pub const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;

/// Maximum bytes of a payload unless the deployment configures another limit.
pub const DEFAULT_PAYLOAD_BYTES: usize = 256 * 1024;

// === impl Message ===

impl Message {
    /// A message that is due at once; [`Message::at`] and [`Message::after`] set another due time.
    pub fn new(topic: Topic, payload: impl Into<Vec<u8>>) -> Self {
        Self {
            topic,
            id: None,
            payload: payload.into(),
            due: Due::After(Duration::ZERO),
            group: None,
            headers: Vec::new(),
            expires: None,
            expire_after: None,
            max_attempts: 0,
            backoff: None,
            replace: false,
            again: Again::default(),
            tried: None,
            any_time: false,
            record: None,
        }
    }

    /// Due at this time, on Redis's clock. A past time means ready at once.
    pub fn at(mut self, due: UnixMillis) -> Self {
        self.due = Due::At(due);
        self
    }

    /// Due at a time or after a delay, as [`Self::at`] or [`Self::after`].
    pub fn due(mut self, due: Due) -> Self {
        self.due = due;
        self
    }

    /// Due this long after the put, on Redis's clock, in whole milliseconds.
    pub fn after(mut self, delay: Duration) -> Self {
        self.due = Due::After(delay);
        self
    }

    /// Sets an own id, which together with the group identifies repeated puts and finds the message.
    ///
    /// # Errors
    /// The id is empty, longer than 128 bytes, or contains control characters.
    pub fn id(self, id: impl Into<String>) -> Result<Self, NameError> {
        Ok(self.with_id(OwnId::new(id)?.into()))
    }

    /// Sets the id, own or generated (a generated id names the shard).
    pub fn with_id(mut self, id: MessageId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets the group, by which pending messages are listed, moved and cancelled together. The group determines the
    /// shard, and is part of the name of a message with an own id: the same id is a different message in each group.
    ///
    /// # Errors
    /// The id is empty, longer than 128 bytes, or contains control characters.
    pub fn group(self, group: impl Into<String>) -> Result<Self, NameError> {
        Ok(self.with_group(Group::new(group)?))
    }

    /// Sets the group.
    pub fn with_group(mut self, group: Group) -> Self {
        self.group = Some(group);
        self
    }

    /// Adds a header, delivered with the payload.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Expires at this time, on Redis's clock.
    pub fn expires(mut self, at: UnixMillis) -> Self {
        self.expires = Some(at);
        self
    }

    /// Expires this long after its due time, in whole milliseconds, instead of as its topic says. A reschedule, or a shift of the
    /// group, moves the expiry too; an attempt that failed does not.
    pub fn expire_after(mut self, lifetime: Duration) -> Self {
        self.expire_after = Some(lifetime);
        self
    }

    /// Maximum attempts before the message becomes a dead letter; 0: the topic's.
    pub fn max_attempts(mut self, attempts: u16) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// Sets the message's own back-off.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = Some(backoff);
        self
    }

    /// Replaces a message with the same id and group that is pending, dead or finished. Without this, such a put
    /// answers *exists* or *conflict*. A leased message is never replaced.
    pub fn replace(mut self) -> Self {
        self.replace = true;
        self
    }

    /// Debounces: a pending message with the same id and group is replaced and due again at the time of this put, but
    /// at most `longest_wait` after its first put, whatever was rescheduled since. A message put without a debounce
    /// waits since its last put or reschedule. The answer is *again*, with the due time in force; anything but a pending
    /// message is treated as by [`Self::replace`].
    pub fn debounce(mut self, longest_wait: Duration) -> Self {
        (self.replace, self.again.due) = (true, DueRule::Within(longest_wait));
        self
    }

    /// Throttles: the first put is delivered as it says, usually at once, and later ones at most once in `window`; the last put is
    /// never lost. A put behind a delivery is due at least `window` after the due time of what was delivered; so is a put that
    /// meets a leased message, and waits behind it. A put that meets a pending message replaces its content and leaves its due
    /// time. The answer is then *again*, with the due time in force. The window is at most the topic's time for which it
    /// remembers own ids ([`crate::policy::Policy::remember_own`]).
    pub fn throttle(mut self, window: Duration) -> Self {
        (self.replace, self.again.due) = (true, DueRule::Throttle(window));
        self
    }

    /// Throttles as [`Self::throttle`], but later puts in `window` are dropped: while a message with the same id and group is
    /// pending or leased, and until `window` after the due time of what was delivered, the answer is *exists*, and nothing is
    /// stored or changed.
    pub fn swallow(mut self, window: Duration) -> Self {
        (self.replace, self.again.due) = (true, DueRule::Swallow(window));
        self
    }

    /// Replaces as [`Self::replace`], but a pending message keeps its due time if that is later. The answer for a
    /// pending message is *again*.
    pub fn only_later(mut self) -> Self {
        (self.replace, self.again.due) = (true, DueRule::Later);
        self
    }

    /// Replaces as [`Self::replace`], but a pending message keeps its due time if that is sooner. The answer for a
    /// pending message is *again*.
    pub fn only_sooner(mut self) -> Self {
        (self.replace, self.again.due) = (true, DueRule::Sooner);
        self
    }

    /// Edits: replaces as [`Self::replace`], but a pending message keeps its due time. The answer for a pending message is
    /// *again*. With [`Self::expecting`], only the expected message is edited, and a missing message stays missing.
    pub fn only_content(mut self) -> Self {
        (self.replace, self.again.due) = (true, DueRule::Content);
        self
    }

    /// Replaces as [`Self::replace`], but only a pending message that is due at this time, or has this content
    /// ([`Envelope::hash`]). Two calls expect both. With a gen, a dead letter or a finished message is replaced, too, if it
    /// has the gen. Otherwise the answer is *changed* or *unknown*, and nothing is stored.
    pub fn expecting(mut self, what: impl Into<Expectation>) -> Self {
        self.replace = true;
        match what.into() {
            Expectation::Due(due) => self.again.expected = Some(due),
            Expectation::Content(hash) => self.again.content = Some(hash),
            Expectation::Gen(generation) => self.again.generation = Some(generation),
        }
        self
    }

    /// Replaces as [`Self::replace`], but a pending message keeps its payload, headers and options: only its due time
    /// changes. The answer for a pending message is *again*.
    pub fn keep_content(mut self) -> Self {
        (self.replace, self.again.keep) = (true, true);
        self
    }

    /// Marks a repeat of a put of unknown fate, first tried at this time on this host's clock. If the message is no
    /// longer known, the topic decides between delivery and *stale* ([`crate::policy::Repeats`]). A replacing put
    /// answers *exists* if the same message has finished since then.
    pub fn first_tried(mut self, at: UnixMillis) -> Self {
        self.tried = Some(at);
        self
    }

    /// Accepts the times unchanged, although they look like seconds or microseconds ([`UnixMillis::check`]).
    pub fn any_time(mut self) -> Self {
        self.any_time = true;
        self
    }

    /// The first 8 bytes of the SHA-256 of topic, group, headers and the producer's payload, each preceded by its
    /// length (4 bytes, big-endian). The due time is excluded: a repeat may carry another due time.
    fn hash(&self) -> ContentHash {
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
        ContentHash(hash)
    }
}

// === impl Envelope ===

impl Envelope {
    /// The envelope of a message to put; `payload` is the stored form.
    pub fn of(message: &Message, payload: Vec<u8>, zstd: bool) -> Self {
        let own = matches!(message.id, Some(MessageId::Own(_)));
        Self {
            state: State::Delayed,
            generation: 0,
            due: UnixMillis::new(0),
            at: UnixMillis::new(0),
            delivery: 0,
            attempt: 0,
            max_attempts: message.max_attempts,
            doomed: false,
            relative: false,
            lifetime: message.expire_after,
            hash: own.then(|| message.hash()),
            expires: message.expires,
            backoff: message.backoff.clone(),
            group: message.group.clone(),
            first: None,
            headers: message.headers.clone(),
            payload,
            zstd,
            blocks: false,
            held: false,
            has_successor: false,
            paused: false,
            blocked: false,
            reason: None,
        }
    }
}

// === impl Due ===

impl Due {
    /// Refuses a time that is most likely in seconds or microseconds.
    ///
    /// # Errors
    /// As [`UnixMillis::check`].
    pub fn check(self) -> Result<(), OddTime> {
        match self {
            Self::At(due) => due.check("the due time"),
            Self::After(_) => Ok(()),
        }
    }

    /// Later by a delay from zero up to `longest`, which is the same for each repeat with this id.
    pub fn jitter(self, id: &str, longest: Duration) -> Self {
        let delay = offset(id, longest);
        match self {
            Self::At(due) => Self::At(due + delay),
            Self::After(after) => Self::After(after.saturating_add(delay)),
        }
    }

    /// The first time, from `earliest` on, at which the id's turn comes in a daily window such as
    /// `09:00-10:00 Europe/Berlin`. A window whose end is before its start crosses midnight. Each id has its own offset
    /// in the window, so many ids are spread evenly, and a repeat before that time returns the same time.
    ///
    /// # Errors
    /// The text is not a window, the window is empty, or its zone is unknown.
    #[cfg(feature = "jiff")]
    pub fn between(window: &str, id: &str, earliest: UnixMillis) -> Result<Self, OddWindow> {
        window.parse::<Window>()?.due(id, earliest).map(Self::At)
    }

    /// The script argument.
    pub fn argument(self) -> String {
        match self {
            Self::At(due) => due.to_string(),
            Self::After(delay) => format!("+{}", delay.as_millis()),
        }
    }
}

/// Checks everything that can be checked without Redis.
pub fn check(message: &Message, max_payload_bytes: usize) -> Result<(), MessageError> {
    if message.payload.len() > max_payload_bytes {
        return Err(MessageError::PayloadTooLarge(message.payload.len(), max_payload_bytes));
    }
    for (name, _) in &message.headers {
        if HEADER_NAME.check(name).is_err() {
            return Err(MessageError::HeaderName(name.chars().take(40).collect()));
        }
    }
    let header_bytes = message.headers.iter().map(|(name, value)| name.len() + value.len() + 3).sum();
    if header_bytes > MAX_HEADER_BYTES {
        return Err(MessageError::HeadersTooLarge(header_bytes, MAX_HEADER_BYTES));
    }
    if !message.any_time {
        message.due.check()?;
        message.expires.map_or(Ok(()), |expires| expires.check("the expiry"))?;
    }
    if let Due::At(due) = message.due {
        if due.get() == 0 || due > UnixMillis::MAX {
            return Err(MessageError::DueTime(due.get()));
        }
        if let Some(expires) = message.expires.filter(|&expires| expires <= due) {
            return Err(MessageError::ExpiryBeforeDue { expires, due });
        }
    }
    if message.expire_after.is_some_and(|lifetime| {
        let ms = lifetime.as_millis();
        message.expires.is_some() || ms == 0 || ms > u128::from(UnixMillis::MAX.get())
    }) {
        return Err(MessageError::ExpireAfter);
    }
    if message.backoff.as_ref().is_some_and(|backoff| !backoff.is_valid()) {
        return Err(MessageError::Backoff);
    }
    let is_throttled = matches!(message.again.due, DueRule::Throttle(_) | DueRule::Swallow(_));
    if !message.again.is_valid() {
        return Err(if is_throttled { MessageError::Window } else { MessageError::LongestWait });
    }
    if is_throttled && !matches!(message.id, Some(MessageId::Own(_))) {
        return Err(MessageError::ThrottledWithoutId);
    }
    Ok(())
}
