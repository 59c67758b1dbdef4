//! The content of a record, as far as it is read.

use super::asked::{Asked, Carried};

/// The content of a record.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) asked: Asked,
    pub(super) carried: Carried,
}
