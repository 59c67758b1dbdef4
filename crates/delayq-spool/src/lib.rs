//! The spool: a folder on local disk for writes that could not reach Redis.
//!
//! ```text
//! producers ──append──► one thread a process ──one commit for all that wait──► spool.db ──► compensator ─► Redis
//!                                    answered once it is on disk                  └─► rejected, with the reason
//! ```
//!
//! It is an SQLite database (write-ahead log, fsync at every commit), so several producer processes and one compensator
//! can share a folder, a killed process leaves no partial record, and `sqlite3` can inspect it. Each record has its own
//! checksum. All processes that have the folder open share `users.lock`; `compensator.lock` is the lease of the one
//! that resubmits. The books: spooled = replayed + rejected + discarded + waiting.
//!
//! **Nothing overtakes what waits.** While a record of a message waits, producers of this folder append its later writes
//! behind it, and with it wait changes of its group, and what is written to that group after them. `waiting.flag` says whether anything waits at all, so that they need not ask the database in most cases.
//!
//! **Damage is named.** A page that cannot be read refuses the file until it is salvaged. A log that ends before the last
//! record that was acknowledged, as `waiting.flag` witnesses, leaves a rejected row with the numbers that are lost.

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
