//! The content of a record, as far as it is read.

use super::asked::{AskedWrite, Carried};

/// The content of a record.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) asked: AskedWrite,
    pub(super) carried: Carried,
}
