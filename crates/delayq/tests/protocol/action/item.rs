//! The items of calls: the messages of a put, the receipts with their arguments.

use super::is_generated;
use delayq::protocol::{Again, ContentHash, Envelope};
use delayq::{Backoff, Group, State, UnixMillis};
use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) id: Vec<u8>,
    /// In the script's form: a time, or `+` and a delay.
    pub(crate) due: String,
    pub(crate) replace: bool,
    /// How a replacing put meets a pending message.
    pub(crate) again: Again,
    pub(crate) tried: Option<u64>,
    /// The receipt that the put acks.
    pub(crate) ack: Option<Vec<u8>>,
    pub(crate) expires: Option<u64>,
    /// From the due time to the expiry, in ms.
    pub(crate) lifetime: Option<u64>,
    pub(crate) group: Option<String>,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) max: u16,
    pub(crate) content: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct GiveBack {
    pub(crate) receipt: Vec<u8>,
    pub(crate) delay: Option<u64>,
    pub(crate) keep: bool,
}

// === impl Item ===

impl Item {
    pub(crate) fn new(id: &[u8], due: impl std::fmt::Display) -> Self {
        Self {
            id: id.to_vec(),
            due: due.to_string(),
            replace: false,
            again: Again::default(),
            tried: None,
            ack: None,
            expires: None,
            lifetime: None,
            group: None,
            backoff: None,
            max: 0,
            content: 0,
        }
    }

    /// An own id then names the group.
    pub(crate) fn in_group(mut self, group: &str) -> Self {
        if !is_generated(&self.id) {
            self.id.push(b'\x1f');
            self.id.extend(group.as_bytes());
        }
        self.group = Some(group.to_owned());
        self
    }

    pub(crate) fn envelope(&self) -> Envelope {
        Envelope {
            state: State::Delayed,
            generation: 0,
            due: UnixMillis::new(0),
            at: UnixMillis::new(0),
            delivery: 0,
            attempt: 0,
            max_attempts: self.max,
            doomed: false,
            relative: false,
            lifetime: self.lifetime.map(Duration::from_millis),
            hash: (!is_generated(&self.id)).then_some(ContentHash([self.content; 8])),
            expires: self.expires.map(UnixMillis::new),
            backoff: self.backoff.clone(),
            group: self.group.as_ref().map(|group| Group::new(group.clone()).unwrap()),
            first: None,
            headers: if self.content == 2 { vec![("a".into(), "b".into())] } else { Vec::new() },
            payload: vec![b'x'; usize::from(self.content)],
            zstd: false,
            blocks: false,
            held: false,
            has_successor: false,
            paused: false,
            blocked: false,
            reason: None,
        }
    }

    pub(crate) fn args(&self) -> [Vec<u8>; 4] {
        let tried = self.tried.map_or_else(String::new, |ms| format!(" tried={ms}"));
        let again = format!("replace {}", self.again);
        let ack = self.ack.as_ref().map_or_else(String::new, |receipt| format!(" ack={}", hex(receipt)));
        let options = format!("{}{tried}{ack}", if self.replace { again.trim() } else { "" });
        [self.id.clone(), self.due.clone().into(), options.into(), self.envelope().encode()]
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
