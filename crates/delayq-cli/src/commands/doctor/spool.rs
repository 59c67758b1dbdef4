//! The spool of this host: can it be written, and does a compensator read it?

use super::Check;
use crate::deployment::Context;
use delayq_spool::{SpoolError, SpoolReader};
use std::path::Path;

/// The file by which the one compensator of a spool is known.
const LEASE: &str = "compensator.lock";
const START: &str = "start delayq-compensator on this host: systemctl start delayq-compensator";

/// The spool, where one is configured.
pub(super) fn check(context: &Context) -> Option<Check> {
    let folder = context.config.spool.folder()?;
    Some(match std::fs::metadata(folder) {
        Ok(found) if !found.is_dir() => {
            Check::bad("spool", format!("{} is not a folder", folder.display()), "correct [spool] dir")
        }
        Ok(found) if found.permissions().readonly() => Check::bad(
            "spool",
            format!("{} may not be written", folder.display()),
            "give this user the folder",
        ),
        Ok(_) => reader(folder),
        Err(error) => Check::bad("spool", format!("{}: {error}", folder.display()), "make the folder"),
    })
}

/// Whether a compensator reads it. A lease that can be had is nobody's; it is given back at once.
fn reader(folder: &Path) -> Check {
    let shown = folder.display();
    if !folder.join(LEASE).exists() {
        return Check::warning("spool", format!("{shown}: no compensator has ever read it"), START);
    }
    match SpoolReader::open(folder, "delayq doctor") {
        Err(SpoolError::Held { by, .. }) => Check::good("spool", format!("{shown}, read by {by}")),
        Err(error) => Check::bad("spool", error.to_string(), "delayq spool show"),
        Ok(reader) => match reader.stats().map_or(0, |stats| stats.waiting) {
            0 => Check::warning("spool", format!("{shown}: no compensator reads it"), START),
            waiting => Check::bad(
                "spool",
                format!("{shown}: {waiting} records wait, and no compensator reads it"),
                START,
            ),
        },
    }
}
