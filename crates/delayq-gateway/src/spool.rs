//! The spool of this host. The gateway appends what cannot reach Redis, as any producer does; the compensator of the host carries it
//! out.

use crate::codes::SPOOL;
use delayq::spool::Spool;
use delayq_service::Fault;
use delayq_service::config::SpoolConfig;
use delayq_spool::{SpoolSettings, SpoolWriter};
use std::sync::Arc;

/// Opens the spool for [`crate::Deps`]; `None`: no spool is configured.
///
/// # Errors
/// [`SPOOL`]: the folder cannot be used.
pub fn open_spool(config: &SpoolConfig) -> Result<Option<Arc<dyn Spool>>, Fault> {
    let settings = SpoolSettings { max_bytes: config.max_bytes.bytes() };
    let spool = config.folder().map(|folder| SpoolWriter::open(folder, &settings)).transpose();
    let spool = spool.map_err(|error| Fault::new(&SPOOL, "`[spool] dir`").because(error))?;
    Ok(spool.map(|spool| Arc::new(spool) as Arc<dyn Spool>))
}
