//! Random writes of a few messages at a time, and the state of each message after all writes in their order. A few messages, so
//! that most writes meet an earlier one; others after a while, so that no later write hides what an earlier one did wrong.

use fastrand::Rng;
use std::collections::BTreeMap;

/// How many messages the writes of one time share.
const AT_ONCE: u64 = 5;
/// How many writes share these messages.
const A_TIME: u64 = 100;
/// The payload of every put, so that no content tells two puts apart.
pub const PAYLOAD: &str = "x";
/// The due time of the first write, in seconds: in 2033. Each later write adds a second.
const FIRST_DUE_S: u64 = 2_000_000_000;

/// The effect of a write on its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Puts the message, unless its id is taken.
    Put,
    /// Puts the message in place of the present one.
    Replace,
    /// Cancels the message.
    Cancel,
    /// Moves the message, if it is pending.
    Reschedule,
}

/// A write.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// The number of its message.
    pub message: u64,
    /// The effect.
    pub verb: Verb,
    /// The due time to set, in seconds.
    pub due_s: u64,
}

/// The state of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Is {
    /// Never put.
    #[default]
    Unknown,
    /// Pending, and due at this second.
    Due(u64),
    /// Cancelled.
    Cancelled,
}

/// The number of writes: `DELAYQ_TEST_WRITES`, or 1000.
///
/// # Panics
/// The variable is no number.
#[allow(
    clippy::disallowed_methods,
    reason = "how many writes there are is for the user who runs the tests to say"
)]
pub fn writes() -> u64 {
    std::env::var("DELAYQ_TEST_WRITES").map_or(1000, |text| text.parse().expect("a number of writes"))
}

// === impl Write ===

impl Write {
    /// The n-th write, from 0.
    pub fn random(n: u64, random: &mut Rng) -> Self {
        const VERBS: [Verb; 6] =
            [Verb::Put, Verb::Replace, Verb::Replace, Verb::Cancel, Verb::Cancel, Verb::Reschedule];
        let message = n / A_TIME * AT_ONCE + random.u64(0..AT_ONCE);
        let verb = VERBS[random.usize(0..VERBS.len())];
        Self { message, verb, due_s: FIRST_DUE_S + n }
    }

    /// The id of the message.
    pub fn id(&self) -> String {
        id(self.message)
    }
}

/// The id of a message by its number.
pub fn id(message: u64) -> String {
    format!("m{message}")
}

// === impl Verb ===

impl Verb {
    /// The verb of a record: a put that replaces is a put.
    pub fn name(self) -> &'static str {
        match self {
            Self::Put | Self::Replace => "put",
            Self::Cancel => "cancel",
            Self::Reschedule => "reschedule",
        }
    }
}

// === impl Is ===

impl Is {
    /// The state after one more write.
    #[must_use]
    pub fn after(self, write: &Write) -> Self {
        match (write.verb, self) {
            (Verb::Replace, _) | (Verb::Put, Self::Unknown) | (Verb::Reschedule, Self::Due(_)) => {
                Self::Due(write.due_s)
            }
            (Verb::Cancel, Self::Due(_)) => Self::Cancelled,
            (_, is) => is,
        }
    }

    /// The state of each message after these writes, by the message's number.
    pub fn of_each(writes: impl IntoIterator<Item = Write>) -> BTreeMap<u64, Self> {
        let mut all = BTreeMap::new();
        for write in writes {
            let is: &mut Self = all.entry(write.message).or_default();
            *is = is.after(&write);
        }
        all
    }
}
