//! The spool: a folder on local disk for writes that could not reach Redis.
//!
//! ```text
//! producers ──append──► one thread a process ──one commit for all that wait──► spool.db ──► compensator ─► Redis
//!                                    answered once it is on disk                  └─► rejected, with the reason
//! ```
//!
//! The spool is an SQLite database (write-ahead log, fsync at every commit), so several producer processes and one
//! compensator can share a folder, a killed process leaves no partial record, and `sqlite3` can inspect the records. Each
//! record has a checksum. All processes that have the folder open share `users.lock`; `compensator.lock` is the lease of the
//! compensator. The books: spooled = replayed + rejected + discarded + waiting.
//!
//! **No write overtakes a waiting one.** While a record of a message waits, producers of this folder append later writes of
//! the message behind that record. Changes of the message's group wait too, with the later writes of the group.
//! `waiting.flag` says if any record waits at all, so that producers seldom have to query the database.
//!
//! **Damage is named.** A file with an unreadable page is refused until a salvage. A log that ends before the last record
//! that was acknowledged, as `waiting.flag` witnesses, leaves a rejected row with the numbers that are lost.

mod clock;
mod committer;
mod encoding;
mod error;
mod file;
mod flag;
mod identity;
mod keys;
mod lock;
mod lost;
mod reader;
mod repair;
mod row;
mod salvage;
mod settled;
mod writer;

pub use clock::{Asked, Heard};
pub use encoding::RecordError;
pub use error::SpoolError;
pub use reader::{Rejected, Retried, SpoolReader, SpoolStats, Spooled};
pub use salvage::{Salvaged, salvage_spool};
pub use settled::Settled;
pub use writer::{SpoolSettings, SpoolWriter};

/// Compiles the README's snippet.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
