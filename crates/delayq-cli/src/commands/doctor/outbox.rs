//! The outbox of a database: can it be read, how long has something waited, and is it truncated?

use super::Check;
use crate::deployment::Context;
use crate::output::{counted, duration};
use delayq_compensator::outbox_keeper;
use std::time::Duration;

/// A row that has waited for longer does not wait for a passing outage only.
const SLOW: Duration = Duration::from_secs(60);

/// The outbox, where one is configured.
pub(super) async fn check(context: &Context) -> Option<Check> {
    let config = &context.config.outbox;
    config.url.as_ref()?;
    let books = match outbox_keeper(config) {
        Ok(mut keeper) => keeper.books().await,
        Err(fault) => Err(fault),
    };
    let books = match books {
        Ok(books) => books,
        Err(fault) => {
            let advice = "check [outbox], or make its tables: delayq outbox init";
            return Some(Check::bad("outbox", fault.to_string(), advice));
        }
    };
    let waits = books.oldest.map_or_else(
        || "nothing waits".to_owned(),
        |age| format!("the oldest row waits for {}", duration(age)),
    );
    let found =
        format!("{waits}; {} rejected, {} resting, {} KiB", books.rejected, books.resting, books.bytes >> 10);
    Some(if books.oldest.is_some_and(|age| age > SLOW) {
        let advice = "see that a delayq-compensator with this [outbox] runs and is ready: its /readyz";
        Check::bad("outbox", found, advice)
    } else if books.rejected + books.resting > 0 {
        let rows = counted(books.rejected + books.resting, "row");
        Check::warning(
            "outbox",
            found,
            format!("see why {rows} cannot be carried out: delayq outbox rejected"),
        )
    } else if let Some(held) = books.held {
        Check::warning(
            "outbox",
            format!("{found}; its settled rows are kept by {held}"),
            "end that transaction",
        )
    } else {
        Check::good("outbox", found)
    })
}
