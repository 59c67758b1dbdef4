//! The envelope: the stored form of a message. `docs/protocol.md` describes every byte.
//!
//! ```text
//! 0   1  format (1)              16  8  at: start of the state, ms; a lease: the end
//! 1   1  state                   24  4  delivery: number of leases
//! 2   2  flags                   28  2  attempt: number of tries since the last reset
//! 4   4  gen                     30  2  maximum attempts (0: unlimited; at put: the topic's)
//! 8   8  due, ms                 32     optional fields in the order of their flags, then the payload
//! ```
//! All numbers are big-endian. The first 32 bytes are the same in every future format.

use crate::backoff::Backoff;
use crate::id::Group;
use crate::time::UnixMillis;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Size of the fixed head.
pub const HEAD_BYTES: usize = 32;

/// The format that this version writes, and the newest that it reads.
pub const FORMAT: u8 = 1;

/// The flags of an envelope by name.
pub const FLAGS: [(&str, u16); 15] = [
    ("hash", HASH),
    ("expires", EXPIRES),
    ("backoff", BACKOFF),
    ("group", GROUP),
    ("headers", HEADERS),
    ("zstd", ZSTD),
    ("doomed", DOOMED),
    ("reason", REASON),
    ("relative", RELATIVE),
    ("lifetime", LIFETIME),
    ("first", FIRST),
    ("held", HELD),
    ("paused", PAUSED),
    ("blocks", BLOCKS),
    ("blocked", BLOCKED),
];

/// Every flag of this version. Further flags come from a later version, which may put fields before the payload.
pub const KNOWN_FLAGS: u16 = {
    let (mut known, mut at) = (0, 0);
    while at < FLAGS.len() {
        known |= FLAGS[at].1;
        at += 1;
    }
    known
};

const HASH: u16 = 1;
const EXPIRES: u16 = 2;
const BACKOFF: u16 = 4;
const GROUP: u16 = 8;
const HEADERS: u16 = 16;
const ZSTD: u16 = 32;
const DOOMED: u16 = 64;
const REASON: u16 = 128;
const RELATIVE: u16 = 256;
const FIRST: u16 = 512;
const HELD: u16 = 1024;
const PAUSED: u16 = 2048;
const LIFETIME: u16 = 4096;
const BLOCKS: u16 = 16384;
const BLOCKED: u16 = 32768;

/// The state of a message; a finished message (the last four) leaves only a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum State {
    /// In its bucket, waiting for its due time. When stored, this state means any pending message: the pump reads no
    /// envelope, so only the bucket shows whether a message is still delayed.
    Delayed = 1,
    /// In the ready queue; only in answers.
    Ready = 2,
    /// Reserved until settled, or until the lease runs out.
    Leased = 3,
    /// A dead letter.
    Dead = 4,
    /// Finished: delivered and acked.
    Delivered = 5,
    /// Finished: cancelled.
    Cancelled = 6,
    /// Finished: expired before delivery.
    Expired = 7,
    /// Finished: purged by an operator.
    Purged = 8,
}

/// Tells messages of different content apart. As text: 16 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentHash(pub [u8; 8]);

/// Text that is not a [`ContentHash`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a content hash has 16 hex digits")]
pub struct OddContentHash;

/// A stored message, or the marker of a finished message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The state.
    pub state: State,
    /// Number of the current life in the current place.
    pub generation: u32,
    /// Due time, on Redis's clock.
    pub due: UnixMillis,
    /// Time of entering the state; if leased, end of the lease.
    pub at: UnixMillis,
    /// Number of leases so far.
    pub delivery: u32,
    /// Number of attempts, out of `max_attempts`.
    pub attempt: u16,
    /// Maximum attempts; 0: unlimited.
    pub max_attempts: u16,
    /// Cancelled while leased: no further attempt.
    pub doomed: bool,
    /// The content hash, which distinguishes a repeated put from another message with the same id.
    pub hash: Option<ContentHash>,
    /// Expiry.
    pub expires: Option<UnixMillis>,
    /// True if the expiry comes from the topic or from `lifetime`, and moves with the due time.
    pub relative: bool,
    /// The message's own time from its due time to its expiry, in whole milliseconds.
    pub lifetime: Option<Duration>,
    /// The message's back-off; `None`: the topic's.
    pub backoff: Option<Backoff>,
    /// The group.
    pub group: Option<Group>,
    /// Time of the first put, if puts again must not wait longer than some time from then on.
    pub first: Option<UnixMillis>,
    /// The producer's headers.
    pub headers: Vec<(String, String)>,
    /// The stored payload, compressed if `zstd` is set.
    pub payload: Vec<u8>,
    /// True if the payload is a zstd frame.
    pub zstd: bool,
    /// True if the message failed, and blocks its group.
    pub blocks: bool,
    /// True if a ready message has to wait: other messages of the group come first, or the group is paused or blocked; only in
    /// answers.
    pub held: bool,
    /// True if a throttled put waits behind a leased message, and takes its place when the lease ends; only in answers.
    pub has_successor: bool,
    /// True if the group of a ready message is paused; only in answers.
    pub paused: bool,
    /// True if a failed message blocks the group of a ready message; only in answers.
    pub blocked: bool,
    /// The reason of a dead letter.
    pub reason: Option<String>,
}

/// Errors of reading bytes as an envelope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// Written by a later version.
    #[error("format {0} is newer than this version knows ({FORMAT}); upgrade delayq here first")]
    Newer(u8),
    /// From a later version, with these flags.
    #[error("flags {0:#06x} that this version does not know; upgrade delayq here first")]
    NewerFlags(u16),
    /// Truncated, or with invalid fields.
    #[error("malformed envelope: {0}")]
    Malformed(&'static str),
}

/// Writes the stored form; callers keep lengths within the range of their prefix.
struct Writer<'a>(&'a mut Vec<u8>);

struct Reader<'a>(&'a [u8]);

// === impl State ===

impl State {
    /// Every state, in the order of the stored numbers, from 1 on.
    pub const ALL: [Self; 8] = [
        Self::Delayed,
        Self::Ready,
        Self::Leased,
        Self::Dead,
        Self::Delivered,
        Self::Cancelled,
        Self::Expired,
        Self::Purged,
    ];

    /// The state's word in the answers of scripts.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Delayed => "delayed",
            Self::Ready => "ready",
            Self::Leased => "leased",
            Self::Dead => "dead",
            Self::Delivered => "delivered",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Purged => "purged",
        }
    }

    /// True if only a marker remains.
    pub const fn is_over(self) -> bool {
        self as u8 > Self::Dead as u8
    }

    /// The state with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

// === impl ContentHash ===

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentHash({self})")
    }
}

impl FromStr for ContentHash {
    type Err = OddContentHash;

    fn from_str(text: &str) -> Result<Self, OddContentHash> {
        let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = is_hex.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        number.map(|number| Self(number.to_be_bytes())).ok_or(OddContentHash)
    }
}

/// For a pending message, from the first [`HEAD_BYTES`] of its stored form: the due time, the generation at the end of
/// its bucket entry, and whether no other index holds it. `None` for any other message.
pub fn if_delayed(head: &[u8]) -> Option<(UnixMillis, [u8; 4], bool)> {
    let head: &[u8; HEAD_BYTES] = head.try_into().ok()?;
    let [format, state, flags @ ..] = head.first_chunk::<4>()?;
    let is_alone = u16::from_be_bytes(*flags) & (EXPIRES | GROUP) == 0;
    if *format != FORMAT || *state != State::Delayed as u8 {
        return None;
    }
    let due = u64::from_be_bytes(*head[8..].first_chunk()?);
    Some((UnixMillis::new(due), *head[4..].first_chunk()?, is_alone))
}

/// True if a message is finished, by the first [`HEAD_BYTES`] of its stored form.
pub fn is_over(head: &[u8]) -> bool {
    let state = head.get(1).and_then(|&state| State::ALL.get(usize::from(state).wrapping_sub(1)));
    state.is_some_and(|state| state.is_over())
}

// === impl Envelope ===

impl Envelope {
    /// The stored form.
    ///
    /// # Panics
    /// If a header name exceeds 255 bytes, or the headers 65,535: a [`crate::message::Message`] refuses both earlier.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + 16 + self.payload.len());
        self.encode_to(&mut out);
        out
    }

    /// Appends the stored form.
    ///
    /// # Panics
    /// As [`Self::encode`].
    pub fn encode_to(&self, out: &mut Vec<u8>) {
        let mut out = Writer(out);
        out.0.extend([FORMAT, self.state as u8]);
        out.0.extend(self.flags().to_be_bytes());
        out.0.extend(self.generation.to_be_bytes());
        out.0.extend(self.due.get().to_be_bytes());
        out.0.extend(self.at.get().to_be_bytes());
        out.0.extend(self.delivery.to_be_bytes());
        out.0.extend(self.attempt.to_be_bytes());
        out.0.extend(self.max_attempts.to_be_bytes());
        if let Some(hash) = self.hash {
            out.0.extend(hash.0);
        }
        if let Some(expires) = self.expires {
            out.0.extend(expires.get().to_be_bytes());
        }
        if let Some(backoff) = &self.backoff {
            out.short(&backoff.encode());
        }
        if let Some(group) = &self.group {
            out.short(group.as_str().as_bytes());
        }
        if let Some(lifetime) = self.lifetime {
            out.0.extend(whole_ms(lifetime).to_be_bytes());
        }
        if let Some(first) = self.first {
            out.0.extend(first.get().to_be_bytes());
        }
        if !self.headers.is_empty() {
            out.headers(&self.headers);
        }
        out.0.extend(&self.payload);
        if let Some(reason) = &self.reason {
            let length = u16::try_from(reason.len()).expect("a reason has at most 1,000 bytes");
            out.0.extend(reason.as_bytes());
            out.0.extend(length.to_be_bytes());
        }
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// The envelope has a newer format or newer flags, or is malformed.
    pub fn decode(bytes: &[u8]) -> Result<Self, EnvelopeError> {
        let mut input = Reader(bytes);
        let format = input.number::<1>()? as u8;
        if format > FORMAT {
            return Err(EnvelopeError::Newer(format));
        }
        let state = input.number::<1>()? as usize;
        let state =
            *State::ALL.get(state.wrapping_sub(1)).ok_or(EnvelopeError::Malformed("no such state"))?;
        let flags = input.number::<2>()? as u16;
        if flags & !KNOWN_FLAGS > 0 {
            return Err(EnvelopeError::NewerFlags(flags & !KNOWN_FLAGS));
        }
        let mut envelope = Self {
            state,
            generation: input.number::<4>()? as u32,
            due: UnixMillis::new(input.number::<8>()?),
            at: UnixMillis::new(input.number::<8>()?),
            delivery: input.number::<4>()? as u32,
            attempt: input.number::<2>()? as u16,
            max_attempts: input.number::<2>()? as u16,
            doomed: flags & DOOMED > 0,
            relative: flags & RELATIVE > 0,
            lifetime: None,
            hash: None,
            expires: None,
            backoff: None,
            group: None,
            first: None,
            headers: Vec::new(),
            payload: Vec::new(),
            zstd: flags & ZSTD > 0,
            blocks: flags & BLOCKS > 0,
            held: flags & HELD > 0 && state != State::Leased,
            has_successor: flags & HELD > 0 && state == State::Leased,
            paused: flags & PAUSED > 0,
            blocked: flags & BLOCKED > 0,
            reason: None,
        };
        envelope.decode_fields(flags, &mut input)?;
        Ok(envelope)
    }

    fn decode_fields(&mut self, flags: u16, input: &mut Reader<'_>) -> Result<(), EnvelopeError> {
        if flags & HASH > 0 {
            self.hash = Some(ContentHash(input.number::<8>()?.to_be_bytes()));
        }
        if self.state.is_over() {
            return Ok(());
        }
        if flags & EXPIRES > 0 {
            self.expires = Some(UnixMillis::new(input.number::<8>()?));
        }
        if flags & BACKOFF > 0 {
            let spec = input.short()?;
            self.backoff = Some(Backoff::decode(spec).ok_or(EnvelopeError::Malformed("back-off"))?);
        }
        if flags & GROUP > 0 {
            let group = Group::new(input.short_text()?);
            self.group = Some(group.map_err(|_| EnvelopeError::Malformed("group"))?);
        }
        if flags & LIFETIME > 0 {
            self.lifetime = Some(Duration::from_millis(input.number::<8>()?));
        }
        if flags & FIRST > 0 {
            self.first = Some(UnixMillis::new(input.number::<8>()?));
        }
        if flags & HEADERS > 0 {
            self.headers = input.headers()?;
        }
        if flags & REASON > 0 {
            self.reason = Some(input.reason()?);
        }
        self.payload = input.0.to_vec();
        Ok(())
    }

    fn flags(&self) -> u16 {
        let flag = |is: bool, flag: u16| if is { flag } else { 0 };
        flag(self.hash.is_some(), HASH)
            | flag(self.expires.is_some(), EXPIRES)
            | flag(self.backoff.is_some(), BACKOFF)
            | flag(self.group.is_some(), GROUP)
            | flag(!self.headers.is_empty(), HEADERS)
            | flag(self.zstd, ZSTD)
            | flag(self.doomed, DOOMED)
            | flag(self.relative, RELATIVE)
            | flag(self.reason.is_some(), REASON)
            | flag(self.lifetime.is_some(), LIFETIME)
            | flag(self.first.is_some(), FIRST)
            | flag(self.blocks, BLOCKS)
            | flag(self.held || self.has_successor, HELD)
            | flag(self.paused, PAUSED)
            | flag(self.blocked, BLOCKED)
    }
}

// === impl Writer ===

impl Writer<'_> {
    fn short(&mut self, bytes: &[u8]) {
        self.0.push(u8::try_from(bytes.len()).expect("names and back-offs have at most 255 bytes"));
        self.0.extend(bytes);
    }

    /// 2 bytes of length, then each header's name (1 byte of length) and value (2 bytes of length).
    fn headers(&mut self, headers: &[(String, String)]) {
        let start = self.0.len();
        self.0.extend([0, 0]);
        for (name, value) in headers {
            self.short(name.as_bytes());
            let length = u16::try_from(value.len()).expect("a message's headers have at most 65,535 bytes");
            self.0.extend(length.to_be_bytes());
            self.0.extend(value.as_bytes());
        }
        let length =
            u16::try_from(self.0.len() - start - 2).expect("a message's headers have at most 65,535 bytes");
        self.0[start..start + 2].copy_from_slice(&length.to_be_bytes());
    }
}

// === impl Reader ===

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], EnvelopeError> {
        let (head, rest) = self.0.split_at_checked(n).ok_or(EnvelopeError::Malformed("cut short"))?;
        self.0 = rest;
        Ok(head)
    }

    fn number<const N: usize>(&mut self) -> Result<u64, EnvelopeError> {
        Ok(self.take(N)?.iter().fold(0, |n, &byte| n << 8 | u64::from(byte)))
    }

    fn short(&mut self) -> Result<&'a [u8], EnvelopeError> {
        let length = self.number::<1>()? as usize;
        self.take(length)
    }

    fn short_text(&mut self) -> Result<&'a str, EnvelopeError> {
        text(self.short()?)
    }

    fn headers(&mut self) -> Result<Vec<(String, String)>, EnvelopeError> {
        let length = self.number::<2>()? as usize;
        let mut block = Reader(self.take(length)?);
        let mut headers = Vec::new();
        while !block.0.is_empty() {
            let name = block.short_text()?;
            let length = block.number::<2>()? as usize;
            headers.push((name.to_owned(), text(block.take(length)?)?.to_owned()));
        }
        Ok(headers)
    }

    /// The reason is at the very end, followed by its length.
    fn reason(&mut self) -> Result<String, EnvelopeError> {
        let cut = EnvelopeError::Malformed("cut short");
        let (rest, length) = self.0.split_last_chunk::<2>().ok_or(cut.clone())?;
        let at = rest.len().checked_sub(usize::from(u16::from_be_bytes(*length))).ok_or(cut)?;
        self.0 = &rest[..at];
        Ok(String::from_utf8_lossy(&rest[at..]).into_owned())
    }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn text(bytes: &[u8]) -> Result<&str, EnvelopeError> {
    std::str::from_utf8(bytes).map_err(|_| EnvelopeError::Malformed("text that is not UTF-8"))
}
