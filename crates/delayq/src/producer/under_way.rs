//! Writes in flight by the names of messages: a later write to the same message waits.
//!
//! A caller may abandon a put by a timeout, and then cancel the message. The cancel must find the message of that put,
//! even if the put is still in a queue, or is sent again because Redis did not know the script.

use delayq_core::id::{Group, MessageId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio_util::sync::{CancellationToken, DropGuard};

pub(super) type Named<'m> = (&'m MessageId, Option<&'m Group>);

/// Clones share the state.
#[derive(Clone, Default)]
pub(super) struct UnderWay(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    last: u64,
    /// Each name with the number of the hand-over, and the token that is cancelled at the end.
    open: BTreeMap<(Name, u64), CancellationToken>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Id(Vec<u8>),
    /// A message belongs to this group.
    Group(String),
    /// This group is changed.
    Change(String),
}

/// Writes that were handed over together. On drop, all writes are answered or will not be sent.
pub(super) struct Ticket {
    under_way: UnderWay,
    number: u64,
    names: Vec<Name>,
    _end: DropGuard,
}

// === impl UnderWay ===

impl UnderWay {
    /// `None` if there are no names.
    pub(super) fn begin<'m>(&self, puts: impl Iterator<Item = Named<'m>>) -> Option<Ticket> {
        let names: Vec<Name> = puts.flat_map(names).collect();
        if names.is_empty() { None } else { Some(self.open(names)) }
    }

    pub(super) fn begin_change(&self, group: &Group) -> Ticket {
        self.open(vec![Name::Change(group.as_str().to_owned())])
    }

    fn open(&self, names: Vec<Name>) -> Ticket {
        let end = CancellationToken::new();
        let mut state = self.lock();
        state.last += 1;
        let number = state.last;
        state.open.extend(names.iter().map(|name| ((name.clone(), number), end.clone())));
        drop(state);
        Ticket { under_way: self.clone(), number, names, _end: end.drop_guard() }
    }

    /// Waits for earlier writes to these messages, and for earlier changes of the groups.
    pub(super) async fn of_messages<'m>(&self, messages: impl Iterator<Item = Named<'m>>) {
        self.ended(messages.flat_map(|(id, group)| {
            let change = group.map(|group| Name::Change(group.as_str().to_owned()));
            std::iter::once(Name::Id(id.as_bytes().to_vec())).chain(change)
        }))
        .await;
    }

    /// Waits for earlier writes to the messages of a group, and for earlier changes of the group.
    pub(super) async fn of_group(&self, group: &Group) {
        let name = group.as_str();
        self.ended([Name::Group(name.to_owned()), Name::Change(name.to_owned())].into_iter()).await;
    }

    async fn ended(&self, names: impl Iterator<Item = Name>) {
        for end in self.ends(names) {
            end.cancelled().await;
        }
    }

    fn ends(&self, names: impl Iterator<Item = Name>) -> Vec<CancellationToken> {
        let state = self.lock();
        if state.open.is_empty() {
            return Vec::new();
        }
        let of =
            |name: Name| state.open.range((name.clone(), 0)..=(name, u64::MAX)).map(|(_, end)| end.clone());
        names.flat_map(of).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no code panics while holding the lock")
    }
}

fn names((id, group): Named<'_>) -> impl Iterator<Item = Name> + use<> {
    let group = group.map(|group| Name::Group(group.as_str().to_owned()));
    std::iter::once(Name::Id(id.as_bytes().to_vec())).chain(group)
}

// === impl Ticket ===

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.under_way.lock();
        for name in self.names.drain(..) {
            state.open.remove(&(name, self.number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn a_write_of_a_message_waits_for_a_change_of_its_group_and_for_no_other() {
        let under_way = UnderWay::default();
        let (group, other) = (Group::new("g").unwrap(), Group::new("other").unwrap());
        let id = MessageId::own("a").unwrap();
        let ticket = under_way.begin_change(&group);
        let waits = |group: Option<&Group>| {
            under_way.of_messages(std::iter::once((&id, group))).now_or_never().is_none()
        };
        assert!(waits(Some(&group)) && !waits(Some(&other)) && !waits(None));
        assert!(under_way.of_group(&group).now_or_never().is_none());
        drop(ticket);
        assert!(!waits(Some(&group)));
    }
}
