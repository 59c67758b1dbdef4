//! What a spool implements, and what a compensator resubmits.

pub use delayq_core::spool::{Resubmit, Spool, SpoolAction, SpoolRecord, SpoolRefusal, Spooling, Taken};
