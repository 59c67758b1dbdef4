//! The fate of a failed call: whether it was applied, and whether a retry may succeed.

/// Whether a failed call was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// Redis refused or never received the call: nothing was changed.
    NotApplied,
    /// The call was sent, and the answer is missing: the call may have been applied. Repeat with the same id.
    Unknown,
}

/// How to proceed after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Advice {
    /// The same call may succeed later.
    Retry,
    /// The same call can never succeed.
    GiveUp,
}

/// Errors that Redis or a script answers before writing anything, and whether each passes once Redis recovers.
pub const REFUSALS: [(&str, bool); 21] = [
    ("ASK", true),
    ("BUSY", true),
    ("CLUSTERDOWN", true),
    ("CROSSSLOT", false),
    ("DQARG", false),
    ("DQDEPLOYMENT", false),
    ("DQDURABILITY", false),
    ("DQLAYOUT", false),
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

/// True if Redis or a script answers this code before writing anything.
pub fn is_refusal(code: &str) -> bool {
    REFUSALS.iter().any(|(refusal, _)| *refusal == code)
}

/// True if this refusal passes once Redis recovers.
pub fn is_passing(code: &str) -> bool {
    REFUSALS.contains(&(code, true))
}
