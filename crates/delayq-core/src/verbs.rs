//! One binding for each script: what it is given, and what its answers mean.

mod admin;
mod audit;
mod cancel;
mod cursor;
mod growth;
mod look;
mod pump;
pub(crate) mod put;
mod reserve;
mod settle;

pub(crate) use admin::Forgotten;
pub use admin::{Claimed, HoldAnswer, Purged, Replayed};
pub(crate) use audit::{Counted, Mending};
pub use cancel::{CancelOutcome, Reschedule, RescheduleOutcome};
pub(crate) use cancel::{ShiftStep, read_cancelled, read_rescheduled};
pub(crate) use cursor::Cursor;
pub use growth::ShardLayout;
pub(crate) use look::Query;
pub use look::{ListState, Listed, Numbers, Overview, Slot, TopicHere, TopicsPage};
pub use pump::{PumpReport, PumpWord};
pub use put::PutOutcome;
pub use reserve::{Receipt, Reservation, ReserveReport, ReserveRequest};
pub use settle::{Release, Settled};
