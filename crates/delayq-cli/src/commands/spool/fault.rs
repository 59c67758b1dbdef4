//! The fault of a spool that cannot be used.

use crate::failure::FILE;
use delayq_service::Fault;
use delayq_spool::SpoolError;

pub(super) fn unusable(error: SpoolError) -> Fault {
    Fault::new(&FILE, "the spool cannot be used").because(error)
}
