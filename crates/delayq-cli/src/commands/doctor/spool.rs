//! The spool of this host: write access, running compensator, and age of the waiting records.

use crate::deployment::Context;
use crate::output::duration;
use delayq_look::Check;
use delayq_spool::{SpoolError, SpoolReader};
use std::path::Path;
use std::time::Duration;

const LEASE: &str = "compensator.lock";
const DATABASE: &str = "spool.db";
/// A record that has waited for longer points to more than a passing outage.
const SLOW: Duration = Duration::from_secs(60);
const START: &str = "start delayq-compensator on this host: systemctl start delayq-compensator";

pub(super) fn check(context: &Context) -> Option<Check> {
    let folder = context.config.spool.folder()?;
    Some(match std::fs::metadata(folder) {
        Ok(found) if !found.is_dir() => {
            Check::bad("spool", format!("{} is not a folder", folder.display()), "correct [spool] dir")
        }
        Ok(found) if found.permissions().readonly() => Check::bad(
            "spool",
            format!("{} is not writable", folder.display()),
            "give this user write access to the folder",
        ),
        Ok(_) => reader(folder),
        Err(error) => Check::bad("spool", format!("{}: {error}", folder.display()), "make the folder"),
    })
}

/// A lease that can be taken has no holder, and is released at once.
fn reader(folder: &Path) -> Check {
    let shown = folder.display();
    let never = !folder.join(LEASE).exists();
    if never && !folder.join(DATABASE).exists() {
        return Check::warning("spool", format!("{shown}: never read by a compensator"), START);
    }
    let opened =
        if never { SpoolReader::open_beside(folder) } else { SpoolReader::open(folder, "delayq doctor") };
    let (reader, by) = match opened {
        Err(SpoolError::Held { by, .. }) => (SpoolReader::open_beside(folder), Some(by)),
        opened => (opened, None),
    };
    let stats = match reader.and_then(|reader| reader.stats()) {
        Ok(stats) => stats,
        Err(error) => return Check::bad("spool", error.to_string(), "delayq spool show"),
    };
    let age = stats.oldest_age();
    let waits = match stats.waiting {
        0 => "nothing waits".to_owned(),
        1 => format!("1 record waiting for {}", duration(age)),
        count => format!("{count} records waiting, the oldest for {}", duration(age)),
    };
    let found = match &by {
        Some(by) => format!("{shown}, read by {by}: {waits}"),
        None if never => format!("{shown}: never read by a compensator, {waits}"),
        None => format!("{shown}: no compensator is reading it, {waits}"),
    };
    match by {
        Some(_) if age > SLOW => {
            Check::bad("spool", found, "see why: the compensator's /readyz, and delayq spool waiting")
        }
        Some(_) => Check::good("spool", found),
        None if stats.waiting == 0 => Check::warning("spool", found, START),
        None => Check::bad("spool", found, START),
    }
}
