//! What is known about a failed call: whether it was applied, and whether it may succeed later.

/// Whether a failed call was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// Redis refused or never received it: nothing was changed.
    NotApplied,
    /// It was sent, and its answer is missing: it may have been applied. Repeat it with the same id.
    Unknown,
}

/// What to do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Advice {
    /// The same call may succeed later.
    Retry,
    /// The same call can never succeed.
    GiveUp,
}

/// The errors that Redis or a script answers before it writes anything, and whether they pass once Redis recovers.
const REFUSALS: [(&str, bool); 21] = [
    ("ASK", true),
    ("BUSY", true),
    ("CLUSTERDOWN", true),
    ("CROSSSLOT", false),
    ("DQARG", false),
    ("DQDURABILITY", false),
    ("DQLAYOUT", false),
    ("DQTYPE", false),
    ("DQUNINITIALISED", false),
    ("LOADING", true),
    ("MASTERDOWN", true),
    ("MISCONF", true),
    ("MOVED", true),
    ("NOAUTH", true),
    ("NOPERM", false),
    ("NOREPLICAS", true),
    ("NOSCRIPT", true),
    ("OOM", true),
    ("READONLY", true),
    ("TRYAGAIN", true),
    ("WRONGPASS", true),
];

/// Whether Redis or a script answers this code before it writes anything.
pub fn is_refusal(code: &str) -> bool {
    REFUSALS.iter().any(|(refusal, _)| *refusal == code)
}

/// Whether this refusal passes once Redis recovers.
pub fn is_passing(code: &str) -> bool {
    REFUSALS.contains(&(code, true))
}
