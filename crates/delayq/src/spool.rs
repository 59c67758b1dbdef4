//! The contract of a spool, and the records that a compensator resubmits.

pub use delayq_core::spool::{
    AnyRecord, GroupChange, GroupRecord, Resubmit, Spool, SpoolAction, SpoolRecord, SpoolRefusal, Spooling,
    Taken,
};
