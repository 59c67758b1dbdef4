//! The outbox of a database: can it be read, how long has something waited, and is it truncated?

use super::PATIENCE;
use crate::checked::Check;
use crate::output::{counted, duration};
use delayq_compensator::{Books, OutboxConfig, outbox_keeper};
use std::time::Duration;

const WHAT: &str = "outbox";
/// A row that has waited for longer does not wait for a passing outage only.
const SLOW: Duration = Duration::from_secs(60);

/// The outbox, where one is configured.
pub(super) async fn look(config: &OutboxConfig) -> Option<Check> {
    config.url.as_ref()?;
    let books = async { outbox_keeper(config)?.books().await };
    let why = match tokio::time::timeout(PATIENCE, books).await {
        Ok(Ok(books)) => return Some(judge(&books)),
        Ok(Err(fault)) => fault.to_string(),
        Err(_) => format!("the database did not answer within {PATIENCE:?}"),
    };
    Some(Check::bad(WHAT, why, "check [outbox], or make its tables: delayq outbox init"))
}

fn judge(books: &Books) -> Check {
    let waits = books.oldest.map_or_else(
        || "nothing waits".to_owned(),
        |age| format!("the oldest row waits for {}", duration(age)),
    );
    let found =
        format!("{waits}; {} rejected, {} resting, {} KiB", books.rejected, books.resting, books.bytes >> 10);
    if books.oldest.is_some_and(|age| age > SLOW) {
        let advice = "see that a delayq-compensator with this [outbox] runs and is ready: its /readyz";
        Check::bad(WHAT, found, advice)
    } else if books.rejected + books.resting > 0 {
        let rows = counted(books.rejected + books.resting, "row");
        let advice = format!("see why {rows} cannot be carried out: delayq outbox rejected");
        Check::warning(WHAT, found, advice)
    } else if let Some(held) = &books.held {
        let found = format!("{found}; its settled rows are kept by {held}");
        Check::warning(WHAT, found, "end that transaction")
    } else {
        Check::good(WHAT, found)
    }
}
