//! What a pipe cannot promise.

/// The warning that this sink always gives.
pub(super) const WARNING: &str =
    "standard output confirms nothing: what a pipe's reader does not read before it ends is lost";
