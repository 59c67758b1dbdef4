//! The limits of one call of a script, and of the options of clients and workers.

/// Maximum ids in one call of a script.
pub const MAX_IDS_A_CALL: usize = 500;

/// Maximum bytes of messages in one call of a script: payloads and headers, and 512 for each.
pub const MAX_BYTES_A_CALL: usize = 4 * 1024 * 1024;

/// Maximum messages that a worker handles at a time.
pub const MAX_CONCURRENCY: usize = 10_000;

/// Number of messages that a worker handles at a time if nothing else is configured.
pub const DEFAULT_CONCURRENCY: usize = 10;

/// Maximum ms of a client's wait for an answer or a confirmation: a day.
pub const MAX_TIMEOUT_MS: u64 = 86_400_000;
