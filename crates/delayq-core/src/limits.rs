//! The limits of one call of a script.

/// Maximum ids in one call of a script.
pub const MAX_IDS_A_CALL: usize = 500;

/// Maximum bytes of messages in one call of a script: payloads and headers, and 512 for each.
pub const MAX_BYTES_A_CALL: usize = 4 * 1024 * 1024;
