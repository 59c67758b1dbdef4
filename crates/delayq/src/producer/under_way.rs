//! Puts that were handed over and not answered, by what names their messages: a later write of one of them waits for the put.
//!
//! A caller may give a put up, by a timeout, and then cancel the message. The cancel must find what the put stores, although
//! that put is still in a queue, or is sent once more because Redis did not know its script.

use delayq_core::id::{Group, MessageId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio_util::sync::{CancellationToken, DropGuard};

/// By what a message is placed.
pub(super) type Named<'m> = (&'m MessageId, Option<&'m Group>);

/// The puts of a producer. Cheap to clone: all clones are the same.
#[derive(Clone, Default)]
pub(super) struct UnderWay(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    last: u64,
    /// Each name with the number of a hand-over, and what is cancelled at its end.
    open: BTreeMap<(Name, u64), CancellationToken>,
}

/// What a later write may name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Id(Vec<u8>),
    Group(String),
}

/// Puts that were handed over together. They are answered, or will not be sent, when this is dropped.
pub(super) struct Ticket {
    under_way: UnderWay,
    number: u64,
    names: Vec<Name>,
    _end: DropGuard,
}

// === impl UnderWay ===

impl UnderWay {
    /// Puts of messages with these names are handed over; `None`: there are no names.
    pub(super) fn begin<'m>(&self, puts: impl Iterator<Item = Named<'m>>) -> Option<Ticket> {
        let names: Vec<Name> = puts.flat_map(names).collect();
        if names.is_empty() {
            return None;
        }
        let end = CancellationToken::new();
        let mut state = self.lock();
        state.last += 1;
        let number = state.last;
        state.open.extend(names.iter().map(|name| ((name.clone(), number), end.clone())));
        drop(state);
        Some(Ticket { under_way: self.clone(), number, names, _end: end.drop_guard() })
    }

    /// Waits for the puts of these messages that were handed over before.
    pub(super) async fn of_messages<'m>(&self, messages: impl Iterator<Item = Named<'m>>) {
        self.ended(messages.map(|(id, _)| Name::Id(id.as_bytes().to_vec()))).await;
    }

    /// Waits for the puts of a group that were handed over before.
    pub(super) async fn of_group(&self, group: &Group) {
        self.ended(std::iter::once(Name::Group(group.as_str().to_owned()))).await;
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
        self.0.lock().expect("nothing panics while it holds the puts")
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
