//! One record of a spool: a put, a cancel, a reschedule or a change of a group that could not reach Redis, and its bytes.
//!
//! ```text
//! 0  1  format: 1 of a message, 2 of a group
//! 1  4  CRC-32 (IEEE) of all that follows
//! 5  1  kind: 1 put, 2 cancel, 3 reschedule; 4 cancel_group, 5 shift_group
//! 6  1  flags: 1 fate unknown, 2 replace, 4 the caller's own time of its first try, 8 how it meets a pending message
//! 7  8  when it was tried, ms on this host's clock
//! 15    of a message: [8 the caller's time of its first try], topic, id, group (each 1 byte of length), then by kind:
//!       put: [how it meets a pending message, in the words of a put's options (1 byte of length)], due, envelope · reschedule: 1 to, 2 to if due, 3 by; due or difference; expected, ms
//!       of a group: the group, topic or nothing (each 1 byte of length), then by kind: shift_group: difference, ms; token, to the end
//! ```
//! All numbers are big-endian; a due time is 1 byte (0 at, 1 after) and 8 bytes of ms.

use delayq_core::again::Again;
use delayq_core::envelope::Envelope;
use delayq_core::fate::Fate;
use delayq_core::id::{Group, MessageId, Topic};
use delayq_core::message::{Due, MAX_PAYLOAD_BYTES, Message, MessageError, check as check_message};
use delayq_core::spool::{AnyRecord, GroupChange, GroupRecord, SpoolAction, SpoolRecord};
use delayq_core::target::Target;
use delayq_core::time::{Shift, UnixMillis};
use delayq_core::verbs::reschedule::Reschedule;
use std::time::Duration;

const OF_MESSAGE: u8 = 1;
/// The newest format that this version reads.
const OF_GROUP: u8 = 2;

const UNKNOWN: u8 = 1;
const REPLACE: u8 = 2;
const FIRST_TRIED: u8 = 4;
const AGAIN: u8 = 8;

/// Why bytes cannot be read as a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Written by a later version.
    #[error("record format {0} is newer than this version knows")]
    Newer(u8),
    /// The checksum does not match.
    #[error("the record is damaged")]
    Damaged,
    /// The checksum matches, but the content is invalid.
    #[error("the record is malformed: {0}")]
    Malformed(&'static str),
}

struct Reader<'a>(&'a [u8]);

/// Finds values that the stored form cannot hold.
pub(crate) fn check(record: &SpoolRecord) -> Result<(), MessageError> {
    match &record.action {
        SpoolAction::Put(message) => check_message(message, MAX_PAYLOAD_BYTES),
        _ => Ok(()),
    }
}

pub(crate) fn encode(record: &AnyRecord) -> Vec<u8> {
    let mut out = Vec::new();
    match record {
        AnyRecord::Message(record) => encode_message(record, &mut out),
        AnyRecord::Group(record) => encode_group(record, &mut out),
    }
    out
}

pub(crate) fn encode_group(record: &GroupRecord, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend([OF_GROUP, 0, 0, 0, 0]);
    let kind = match record.change {
        GroupChange::Cancel => 4,
        GroupChange::Shift { .. } => 5,
    };
    out.extend([kind, if record.fate == Fate::Unknown { UNKNOWN } else { 0 }]);
    out.extend(record.tried_at.get().to_be_bytes());
    push_name(out, record.group.as_str().as_bytes());
    push_name(out, record.topic.as_ref().map_or("", Topic::as_str).as_bytes());
    if let GroupChange::Shift { by, token } = &record.change {
        out.extend(by.millis().to_be_bytes());
        out.extend(token.as_bytes());
    }
    seal(&mut out[start..]);
}

pub(crate) fn encode_message(record: &SpoolRecord, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend([OF_MESSAGE, 0, 0, 0, 0]);
    let (kind, replace, again, first) = match &record.action {
        SpoolAction::Put(message) => (1, message.replace, message.again, message.tried),
        SpoolAction::Cancel => (2, false, Again::default(), None),
        SpoolAction::Reschedule(_) => (3, false, Again::default(), None),
    };
    let flag = |is: bool, flag: u8| if is { flag } else { 0 };
    let flags =
        flag(record.fate == Fate::Unknown, UNKNOWN) | flag(replace, REPLACE) | flag(!again.is_plain(), AGAIN);
    out.extend([kind, flags | flag(first.is_some(), FIRST_TRIED)]);
    out.extend(record.tried_at.get().to_be_bytes());
    out.extend(first.into_iter().flat_map(|first| first.get().to_be_bytes()));
    let group = record.target.group.as_ref().map_or("", Group::as_str);
    for name in [record.topic.as_str().as_bytes(), record.target.id.as_bytes(), group.as_bytes()] {
        push_name(out, name);
    }
    match &record.action {
        SpoolAction::Cancel => {}
        SpoolAction::Put(message) => {
            if !again.is_plain() {
                push_name(out, again.to_string().as_bytes());
            }
            push_due(out, message.due);
            Envelope::of(message, Vec::new(), false).encode_to(out);
            out.extend(&message.payload);
        }
        SpoolAction::Reschedule(change) => push_change(out, *change),
    }
    seal(&mut out[start..]);
}

fn seal(record: &mut [u8]) {
    let crc = crc32fast::hash(&record[5..]);
    record[1..5].copy_from_slice(&crc.to_be_bytes());
}

pub(crate) fn decode(bytes: &[u8]) -> Result<AnyRecord, RecordError> {
    let mut input = Reader(bytes);
    let format = match input.byte()? {
        0 => return Err(RecordError::Damaged),
        format @ (OF_MESSAGE | OF_GROUP) => format,
        format => return Err(RecordError::Newer(format)),
    };
    if input.number::<4>()? != u64::from(crc32fast::hash(input.0)) {
        return Err(RecordError::Damaged);
    }
    match format {
        OF_GROUP => input.group_record().map(AnyRecord::Group),
        _ => input.message_record().map(AnyRecord::Message),
    }
}

fn push_name(out: &mut Vec<u8>, name: &[u8]) {
    out.push(u8::try_from(name.len()).expect("names have at most 128 bytes"));
    out.extend(name);
}

fn fate(flags: u8) -> Fate {
    if flags & UNKNOWN > 0 { Fate::Unknown } else { Fate::NotApplied }
}

fn push_due(out: &mut Vec<u8>, due: Due) {
    let (tag, ms) = match due {
        Due::At(due) => (0, due.get()),
        Due::After(delay) => (1, u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)),
    };
    out.push(tag);
    out.extend(ms.to_be_bytes());
}

fn push_change(out: &mut Vec<u8>, change: Reschedule) {
    match change {
        Reschedule::To(due) => {
            out.push(1);
            push_due(out, due);
        }
        Reschedule::ToIfDue(due, expected) => {
            out.push(2);
            push_due(out, due);
            out.extend(expected.get().to_be_bytes());
        }
        Reschedule::By(by, expected) => {
            out.push(3);
            out.extend(by.millis().to_be_bytes());
            out.extend(expected.get().to_be_bytes());
        }
    }
}

// === impl Reader ===

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], RecordError> {
        let (head, rest) = self.0.split_at_checked(n).ok_or(RecordError::Damaged)?;
        self.0 = rest;
        Ok(head)
    }

    fn byte(&mut self) -> Result<u8, RecordError> {
        Ok(self.take(1)?[0])
    }

    fn number<const N: usize>(&mut self) -> Result<u64, RecordError> {
        Ok(self.take(N)?.iter().fold(0, |n, &byte| n << 8 | u64::from(byte)))
    }

    fn short(&mut self) -> Result<&'a [u8], RecordError> {
        let length = self.byte()?;
        self.take(length.into())
    }

    fn text(&mut self) -> Result<&'a str, RecordError> {
        std::str::from_utf8(self.short()?).map_err(|_| RecordError::Malformed("text"))
    }

    fn due(&mut self) -> Result<Due, RecordError> {
        match (self.byte()?, self.number::<8>()?) {
            (0, ms) => Ok(Due::At(UnixMillis::new(ms))),
            (1, ms) => Ok(Due::After(Duration::from_millis(ms))),
            _ => Err(RecordError::Malformed("due time")),
        }
    }

    /// Only as it is written: for a replacing put, and never without a word.
    fn again(&mut self) -> Result<Again, RecordError> {
        let text = self.text()?;
        let again: Again = text.parse().map_err(|_| RecordError::Malformed("again"))?;
        if again.is_plain() || again.to_string() != text {
            return Err(RecordError::Malformed("again"));
        }
        Ok(again)
    }

    fn change(&mut self) -> Result<Reschedule, RecordError> {
        match self.byte()? {
            1 => Ok(Reschedule::To(self.due()?)),
            2 => Ok(Reschedule::ToIfDue(self.due()?, UnixMillis::new(self.number::<8>()?))),
            3 => {
                let by = Shift::from_millis(self.number::<8>()?.cast_signed());
                Ok(Reschedule::By(by, UnixMillis::new(self.number::<8>()?)))
            }
            _ => Err(RecordError::Malformed("reschedule")),
        }
    }

    fn message_record(&mut self) -> Result<SpoolRecord, RecordError> {
        let (kind, flags) = (self.byte()?, self.byte()?);
        let tried_at = UnixMillis::new(self.number::<8>()?);
        let first = if flags & FIRST_TRIED > 0 { Some(UnixMillis::new(self.number::<8>()?)) } else { None };
        let topic = Topic::new(self.text()?).map_err(|_| RecordError::Malformed("topic"))?;
        let id = MessageId::from_bytes(self.short()?).ok_or(RecordError::Malformed("id"))?;
        let group = Some(self.text()?).filter(|group| !group.is_empty()).map(Group::new).transpose();
        let group = group.map_err(|_| RecordError::Malformed("group"))?;
        let target = Target { id, group };
        let action = match kind {
            1 => SpoolAction::Put(self.message(&topic, &target, flags, first)?.into()),
            2 => SpoolAction::Cancel,
            3 => SpoolAction::Reschedule(self.change()?),
            _ => return Err(RecordError::Malformed("kind")),
        };
        Ok(SpoolRecord { topic, target, tried_at, fate: fate(flags), action })
    }

    fn group_record(&mut self) -> Result<GroupRecord, RecordError> {
        let (kind, flags) = (self.byte()?, self.byte()?);
        let tried_at = UnixMillis::new(self.number::<8>()?);
        let group = Group::new(self.text()?).map_err(|_| RecordError::Malformed("group"))?;
        let topic = Some(self.text()?).filter(|topic| !topic.is_empty()).map(Topic::new).transpose();
        let topic = topic.map_err(|_| RecordError::Malformed("topic"))?;
        let change = match kind {
            4 => GroupChange::Cancel,
            5 => {
                let by = Shift::from_millis(self.number::<8>()?.cast_signed());
                let token = std::str::from_utf8(self.0).map_err(|_| RecordError::Malformed("token"))?;
                GroupChange::Shift { by, token: token.to_owned() }
            }
            _ => return Err(RecordError::Malformed("kind")),
        };
        Ok(GroupRecord { group, topic, tried_at, fate: fate(flags), change })
    }

    fn message(
        &mut self,
        topic: &Topic,
        target: &Target,
        flags: u8,
        tried: Option<UnixMillis>,
    ) -> Result<Message, RecordError> {
        let again = if flags & AGAIN > 0 { self.again()? } else { Again::default() };
        let due = self.due()?;
        let envelope = Envelope::decode(self.0).map_err(|_| RecordError::Malformed("envelope"))?;
        let Envelope { payload, headers, expires, max_attempts, backoff, .. } = envelope;
        let (id, group) = (Some(target.id.clone()), target.group.clone());
        let mut message = Message::new(topic.clone(), payload).due(due);
        (message.id, message.group, message.headers) = (id, group, headers);
        (message.expires, message.max_attempts, message.backoff) = (expires, max_attempts, backoff);
        (message.replace, message.again, message.tried) = (flags & REPLACE > 0, again, tried);
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    mod hostile;

    use super::*;
    use delayq_core::again::{DueRule, ExpectedGen};
    use delayq_core::backoff::Backoff;
    use delayq_core::envelope::ContentHash;
    use delayq_core::shard::ShardId;
    use proptest::prelude::*;

    fn due() -> impl Strategy<Value = Due> {
        prop_oneof![
            (1..=UnixMillis::MAX.get()).prop_map(|ms| Due::At(UnixMillis::new(ms))),
            any::<u32>().prop_map(|ms| Due::After(Duration::from_millis(ms.into()))),
        ]
    }

    fn id() -> impl Strategy<Value = MessageId> {
        prop_oneof![
            "[ -~é]{1,60}".prop_map(|text| MessageId::own(text).unwrap()),
            (0_u16..4096, any::<u64>()).prop_map(|(shard, ms)| MessageId::generate(ShardId::new(shard), ms)),
        ]
    }

    fn backoff() -> impl Strategy<Value = Backoff> {
        let delay = || (1..=u32::MAX).prop_map(|ms| Duration::from_millis(ms.into()));
        prop_oneof![
            delay().prop_map(Backoff::Fixed),
            (delay(), delay()).prop_map(|(one, other)| Backoff::Exponential {
                first: one.min(other),
                longest: one.max(other)
            }),
            proptest::collection::vec(delay(), 1..=32).prop_map(Backoff::List),
        ]
    }

    fn again() -> impl Strategy<Value = Again> {
        let span = || (1_u64..1 << 53).prop_map(Duration::from_millis);
        let due = prop_oneof![
            Just(DueRule::New),
            Just(DueRule::Later),
            Just(DueRule::Sooner),
            Just(DueRule::Content),
            span().prop_map(DueRule::Within),
            span().prop_map(DueRule::Throttle),
            span().prop_map(DueRule::Swallow),
        ];
        let expected = proptest::option::of((1_u64..1 << 53).prop_map(UnixMillis::new));
        let content = proptest::option::of(any::<[u8; 8]>().prop_map(ContentHash));
        let generation = prop_oneof![Just(ExpectedGen::Any), any::<u32>().prop_map(ExpectedGen::Is)];
        let all = (due, any::<bool>(), expected, content, proptest::option::of(generation));
        all.prop_map(|(due, keep, expected, content, generation)| Again {
            due,
            keep,
            expected,
            content,
            generation,
        })
    }

    prop_compose! {
        fn message()(
            id in id(), due in due(), payload in proptest::collection::vec(any::<u8>(), 0..300),
            group in proptest::option::of("[ -~ü]{1,60}"),
            headers in proptest::collection::vec(("[!-~]{1,20}", "[ -~é]{0,40}"), 0..5),
            expires in proptest::option::of(1_u64..1 << 53), max_attempts in any::<u16>(),
            backoff in proptest::option::of(backoff()), replace in any::<bool>(),
            tried in proptest::option::of(any::<u64>()), again in again(),
        ) -> Message {
            let mut message = Message::new(Topic::new("tenant/orders").unwrap(), payload).with_id(id).due(due);
            message.group = group.map(|group| Group::new(group).unwrap());
            message.headers = headers;
            message.expires = expires.map(UnixMillis::new);
            (message.max_attempts, message.backoff, message.replace) = (max_attempts, backoff, replace);
            (message.tried, message.again) = (tried.map(UnixMillis::new), again);
            message
        }
    }

    fn record() -> impl Strategy<Value = AnyRecord> {
        prop_oneof![message_record().prop_map(AnyRecord::Message), group_record().prop_map(AnyRecord::Group)]
    }

    fn group_record() -> impl Strategy<Value = GroupRecord> {
        let shift = (any::<i64>(), "[ -~é]{0,300}")
            .prop_map(|(by, token)| GroupChange::Shift { by: Shift::from_millis(by), token });
        let change = prop_oneof![Just(GroupChange::Cancel), shift];
        let topic = proptest::option::of("[a-z/]{1,60}");
        ("[ -~ü]{1,60}", topic, change, any::<bool>(), any::<u64>()).prop_map(
            |(group, topic, change, unknown, at)| {
                let fate = if unknown { Fate::Unknown } else { Fate::NotApplied };
                let (group, topic) =
                    (Group::new(group).unwrap(), topic.map(|topic| Topic::new(topic).unwrap()));
                GroupRecord { group, topic, tried_at: UnixMillis::new(at), fate, change }
            },
        )
    }

    fn message_record() -> impl Strategy<Value = SpoolRecord> {
        let change = prop_oneof![
            due().prop_map(Reschedule::To),
            (due(), any::<u64>()).prop_map(|(due, ms)| Reschedule::ToIfDue(due, UnixMillis::new(ms))),
            (any::<i64>(), any::<u64>())
                .prop_map(|(by, ms)| Reschedule::By(Shift::from_millis(by), UnixMillis::new(ms))),
        ];
        (message(), change, 0..3, any::<bool>(), any::<u64>()).prop_map(
            |(message, change, kind, unknown, at)| {
                let at = UnixMillis::new(at);
                let put =
                    SpoolRecord::put(&message, if unknown { Fate::Unknown } else { Fate::NotApplied }, at);
                match kind {
                    0 => put,
                    1 => SpoolRecord::cancel(&put.topic, &put.target, at),
                    _ => SpoolRecord::reschedule(&put.topic, &put.target, change, at),
                }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(record in record()) {
            prop_assert_eq!(decode(&encode(&record)), Ok(record));
        }

        #[test]
        fn a_flipped_bit_is_seen(record in record(), at in any::<prop::sample::Index>(), bit in 0..8_u8) {
            let mut bytes = encode(&record);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(decode(&bytes).is_err());
        }

        #[test]
        fn a_cut_record_is_seen(record in record(), at in any::<prop::sample::Index>()) {
            let bytes = encode(&record);
            prop_assert!(decode(&bytes[..at.index(bytes.len())]).is_err());
        }
    }
}
