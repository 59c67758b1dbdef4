//! The parts of a batch: each is settled before the next one is carried out. Pure.

use crate::resting::message_of;
use crate::source::{HandedOut, RecordContent};
use crate::writes::Write;
use std::collections::HashSet;

/// Cuts a batch into parts. A write whose repeat Redis cannot recognise is settled before any later write is sent, so that
/// no repeat undoes a later write. So a change of a group is a separate part, and two writes of a message without ids are in
/// two parts.
pub(crate) fn apart<K>(batch: Vec<HandedOut<K>>) -> Vec<Vec<HandedOut<K>>> {
    let (mut parts, mut open, mut is_closed) = (Vec::<Vec<_>>::new(), HashSet::new(), true);
    for recorded in batch {
        let message = match &recorded.what {
            RecordContent::Write(Write { record, id: None, .. }) => Some(message_of(record)),
            _ => None,
        };
        let is_change = matches!(recorded.what, RecordContent::Change(_));
        if is_change || is_closed || message.as_ref().is_some_and(|message| open.contains(message)) {
            parts.push(Vec::new());
            open.clear();
        }
        is_closed = is_change;
        open.extend(message);
        parts.last_mut().expect("there is a first part").push(recorded);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq::protocol::RecordId;
    use delayq::spool::{GroupChange, GroupRecord, SpoolRecord};
    use delayq::{Fate, Group, MessageId, Target, Topic, UnixMillis};

    /// `a`: a write of message a; `a'`: the same under a record id; `.`: a change of a group.
    fn recorded(word: &str) -> HandedOut<String> {
        let at = UnixMillis::new(1);
        let what = match word.split_at(1) {
            (".", _) => RecordContent::Change(GroupRecord {
                group: Group::new("g").unwrap(),
                topic: None,
                tried_at: at,
                fate: Fate::NotApplied,
                change: GroupChange::Cancel,
            }),
            (id, rest) => {
                let target = Target::from(MessageId::own(id).unwrap());
                let record = SpoolRecord::cancel(&Topic::new("t").unwrap(), &target, at);
                RecordContent::Write(Write::new(
                    record,
                    (!rest.is_empty()).then(|| RecordId::of([b"id".as_slice()])),
                    None,
                ))
            }
        };
        HandedOut { key: word.to_owned(), what }
    }

    #[test]
    fn what_redis_cannot_recognise_is_settled_before_what_follows_it() {
        for (batch, expected) in [
            ("", ""),
            ("a' b' a'", "a' b' a'"),
            ("a b a b a", "a b | a b | a"),
            ("a' . . b' c'", "a' | . | . | b' c'"),
            (". a b a", ". | a b | a"),
        ] {
            let parts = apart(batch.split_whitespace().map(recorded).collect());
            let parts: Vec<String> = parts
                .into_iter()
                .map(|part| part.into_iter().map(|recorded| recorded.key).collect::<Vec<_>>().join(" "))
                .collect();
            assert_eq!(parts.join(" | "), expected, "{batch}");
        }
    }
}
