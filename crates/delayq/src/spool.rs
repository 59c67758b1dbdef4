//! What a spool implements, and what a compensator resubmits.

pub use delayq_core::spool::{
    AnyRecord, GroupChange, GroupRecord, Resubmit, Spool, SpoolAction, SpoolRecord, SpoolRefusal, Spooling,
    Taken,
};
