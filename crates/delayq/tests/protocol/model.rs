//! The expected state of a shard, in memory: every message in one place.
//!
//! [`Model::apply`] takes a call and the answer, checks the answer, and changes the model as the call should
//! have changed the shard. Where a script has a choice (the number of messages that a pump moves, a random
//! back-off), the model reads the choice from the shard and checks that the choice was allowed.

mod changing;
mod forgetting;
pub(crate) mod limiting;
mod looking;
mod mending;
mod promoting;
mod pumping;
mod putting;
mod reserving;
mod settling;
mod tending;

use crate::action::Action;
use crate::snapshot::{Name, Snapshot, lossy};
use delayq::UnixMillis;
use delayq::protocol::Envelope;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    Delayed,
    Ready,
    Leased { receipt: Vec<u8>, until: u64 },
    Dead,
    Over { word: &'static str, forget: u64 },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Msg {
    pub(crate) place: Place,
    /// Every field as stored. The state follows from the place; the scripts choose the gen.
    pub(crate) stored: Envelope,
    /// What takes the place of a leased message when its lease ends.
    pub(crate) successor: Option<Envelope>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shift {
    pub(crate) token: String,
    /// Empty for all topics.
    pub(crate) topic: String,
    pub(crate) by: i64,
    pub(crate) over: bool,
    pub(crate) forget: u64,
    /// Lives moved under the token, which must not move again.
    moved: BTreeSet<(Name, u32)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model {
    pub(crate) now_us: u64,
    /// The latest time that the clock ever showed: the clock may step back.
    pub(crate) latest_us: u64,
    /// The longest lease ever granted, in ms, if longer than usual.
    pub(crate) longest_lease: u64,
    /// Topic names by number, from 1; empty if the topic was forgotten.
    pub(crate) topics: Vec<String>,
    /// For a topic seen empty: messages accepted until then, and the time.
    pub(crate) quiet: BTreeMap<u32, (i64, u64)>,
    /// The longest time that a topic ever remembered a finished id, in ms, if longer than usual.
    pub(crate) remembered: BTreeMap<u32, u64>,
    pub(crate) settings: BTreeMap<(u32, String), Vec<u8>>,
    pub(crate) rates: BTreeMap<u32, u64>,
    /// Topics that had a limit of their groups, and may have parked messages.
    pub(crate) grouped: BTreeSet<u32>,
    /// When the buckets of the groups' tokens are empty, in µs.
    pub(crate) group_rates: BTreeMap<(u32, Vec<u8>), u64>,
    /// Paused groups by topic, and since when.
    pub(crate) paused_groups: BTreeMap<(u32, String), u64>,
    /// Receipts that count in the limit of a group, as long as they hold their message.
    pub(crate) flights: BTreeSet<Vec<u8>>,
    pub(crate) messages: BTreeMap<Name, Msg>,
    pub(crate) books: BTreeMap<(&'static str, u32), i64>,
    pub(crate) shifts: BTreeMap<String, Shift>,
    pub(crate) dictionaries: BTreeMap<String, Vec<u8>>,
    pub(crate) epoch: u64,
    pub(crate) owner: Option<(String, u64)>,
    pub(crate) held: bool,
    pub(crate) poisoned: bool,
}

pub(crate) struct Call<'a> {
    pub(crate) answer: &'a [Vec<u8>],
    words: Vec<String>,
    pub(crate) before: &'a Snapshot,
    pub(crate) after: &'a Snapshot,
}

pub(crate) type Outcome = Result<(), String>;

#[allow(clippy::needless_pass_by_value, reason = "words and numbers alike, at hand where they are compared")]
fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: T, wanted: T) -> Outcome {
    if got == wanted { Ok(()) } else { Err(format!("{what}: {got:?}, should be {wanted:?}")) }
}

fn same_bytes(what: &str, got: &[Vec<u8>], wanted: &[Vec<u8>]) -> Outcome {
    let text =
        |items: &[Vec<u8>]| items.iter().map(|item| item.escape_ascii().to_string()).collect::<Vec<_>>();
    if got == wanted { Ok(()) } else { same(what, text(got), text(wanted)) }
}

fn ms(at: u64) -> UnixMillis {
    UnixMillis::new(at)
}

pub(crate) fn index_name(name: &Name) -> Vec<u8> {
    [format!("{}:", name.0).as_bytes(), &name.1].concat()
}

// === impl Call ===

impl<'a> Call<'a> {
    pub(crate) fn new(answer: &'a [Vec<u8>], before: &'a Snapshot, after: &'a Snapshot) -> Self {
        let words = answer.iter().map(|item| lossy(item)).collect();
        Self { answer, words, before, after }
    }

    fn number(&self, at: usize) -> Result<u64, String> {
        let word = self.words.get(at).ok_or_else(|| format!("no answer {at} in {:?}", self.words))?;
        word.parse().map_err(|_| format!("answer {at} is no number: {word:?}"))
    }
}

// === impl Msg ===

impl Msg {
    pub(crate) fn new(place: Place, stored: Envelope) -> Self {
        Self { place, stored, successor: None }
    }

    pub(crate) fn is_pending(&self) -> bool {
        matches!(self.place, Place::Delayed | Place::Ready)
    }

    pub(crate) fn is_leased(&self) -> bool {
        matches!(self.place, Place::Leased { .. })
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.place, Place::Over { .. })
    }

    pub(crate) fn due(&self) -> u64 {
        self.stored.due.get()
    }

    pub(crate) fn expires(&self) -> Option<u64> {
        self.stored.expires.map(UnixMillis::get)
    }

    fn is_expired(&self, now: u64) -> bool {
        self.expires().is_some_and(|expires| expires <= now)
    }

    pub(crate) fn in_group(&self, group: &str) -> bool {
        let here = self.stored.group.as_ref().is_some_and(|own| own.as_str() == group);
        here && (self.is_pending() || self.is_leased())
    }

    pub(crate) fn word(&self) -> &'static str {
        match self.place {
            Place::Delayed => "delayed",
            Place::Ready => "ready",
            Place::Leased { .. } => "leased",
            Place::Dead => "dead",
            Place::Over { word, .. } => word,
        }
    }
}

// === impl Model ===

impl Model {
    pub(crate) fn now(&self) -> u64 {
        self.now_us / 1000
    }

    pub(crate) fn no(&self, topic: &str) -> Option<u32> {
        self.topics.iter().position(|name| name == topic).map(|at| at as u32 + 1)
    }

    pub(crate) fn open(&mut self, topic: &str) -> u32 {
        self.no(topic).unwrap_or_else(|| {
            self.topics.push(topic.to_owned());
            self.topics.len() as u32
        })
    }

    pub(crate) fn living(&self) -> Vec<String> {
        self.topics.iter().filter(|name| !name.is_empty()).cloned().collect()
    }

    pub(crate) fn setting(&self, no: u32, field: &str) -> Option<&[u8]> {
        self.settings.get(&(no, field.to_owned())).map(Vec::as_slice)
    }

    pub(crate) fn latest_lease_end(&self) -> u64 {
        self.now() + self.longest_lease.max(30_000)
    }

    fn policy(&self, no: u32, field: &str) -> u64 {
        let default = match field {
            "max_attempts" => 16,
            "lease_ms" => 30_000,
            "remember_cancelled_ms" => 3_600_000,
            "remember_own_ms" => 60_000,
            _ => 0,
        };
        self.setting(no, field).map_or(default, |value| lossy(value).parse().unwrap())
    }

    fn book(&mut self, counter: &'static str, no: u32) {
        *self.books.entry((counter, no)).or_default() += 1;
    }

    pub(crate) fn apply(&mut self, action: &Action, call: &Call<'_>) -> Outcome {
        self.change(action, call)?;
        self.queue_is_left(call)
    }

    fn change(&mut self, action: &Action, call: &Call<'_>) -> Outcome {
        match action {
            Action::Put { topic, items } => self.put_all(topic, items, call),
            Action::Cancel { topic, ids } => {
                let no = self.no(topic);
                let cancel = |id: &Vec<u8>| no.map_or("unknown".into(), |no| self.cancel(&(no, id.clone())));
                same("cancel", call.words.as_slice(), &ids.iter().map(cancel).collect::<Vec<_>>())
            }
            Action::CancelGroup { group, topic, behind, limit } => {
                self.cancel_group((group.as_str(), topic.as_str()), behind, *limit, call)
            }
            Action::Reschedule { topic, changes } => self.reschedule_all(topic, changes, call),
            Action::ShiftGroup { group, topic, token, by, limit } => {
                self.shift_group((group.as_str(), topic.as_str()), token, (*by, *limit), call)
            }
            Action::Pump { epoch, limit } => self.pump(*epoch, *limit, call),
            Action::Reserve(reserve) => self.reserve(reserve, call),
            Action::Ack { receipts } => self.ack(receipts, call),
            Action::Extend { receipts, lease } => self.extend(receipts, *lease, call),
            Action::Release { all } => {
                all.iter().zip(&call.words).try_for_each(|(one, word)| self.release(one, word))
            }
            Action::Bury { receipts } => {
                receipts.iter().zip(&call.words).try_for_each(|(one, word)| self.bury(one, word))
            }
            Action::Replay { topic, delay, ids } => {
                let no = self.no(topic);
                let replay =
                    |id: &Vec<u8>| no.map_or("unknown".into(), |no| self.replay(&(no, id.clone()), *delay));
                same("replay", call.words.as_slice(), &ids.iter().map(replay).collect::<Vec<_>>())
            }
            Action::Promote(promote) => self.promote(promote, call),
            Action::Purge(purge) => self.purge(purge, call),
            Action::Configure { topic, settings } => self.configure(topic, settings, call),
            Action::PauseGroup { topic, pauses, groups } => self.pause_groups(topic, *pauses, groups, call),
            Action::Forget { topic } => self.forget(topic, call),
            Action::ForgetQuiet { quiet } => self.forget_quiet(*quiet, call),
            Action::Claim { owner, lock } => self.claim(owner, *lock, call),
            Action::Hold { epoch, on } => self.hold(*epoch, *on, call),
            Action::Dictionary { number, bytes } => self.dictionary(*number, bytes, call),
            look => self.look(look, call),
        }
    }
}
