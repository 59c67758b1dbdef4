//! Checks the outbox of a database: access, age of the waiting rows, and truncation.

use crate::output::{counted, duration};
use delayq_compensator::{Books, OutboxConfig, outbox_keeper};
use delayq_look::Check;
use std::time::Duration;

const WHAT: &str = "outbox";
/// A row that has waited for longer points to more than a passing outage.
const SLOW: Duration = Duration::from_secs(60);

pub(super) async fn look(config: &OutboxConfig, patience: Duration) -> Option<Check> {
    config.url.as_ref()?;
    let books = async { outbox_keeper(config)?.books().await };
    let why = match tokio::time::timeout(patience, books).await {
        Ok(Ok(books)) => return Some(judge(&books)),
        Ok(Err(fault)) => fault.to_string(),
        Err(_) => format!("the database did not answer within {patience:?}"),
    };
    Some(Check::bad(WHAT, why, "check [outbox], or create its tables: delayq outbox init"))
}

fn judge(books: &Books) -> Check {
    let waits = books.oldest.map_or_else(
        || "nothing waits".to_owned(),
        |age| format!("the oldest row has waited for {}", duration(age)),
    );
    let found =
        format!("{waits}; {} rejected, {} resting, {} KiB", books.rejected, books.resting, books.bytes >> 10);
    if books.oldest.is_some_and(|age| age > SLOW) {
        let runs = "check that a delayq-compensator with this [outbox] is running and ready: its /readyz";
        let advice = match books.resting {
            0 => runs.to_owned(),
            rows => {
                format!(
                    "see why {} cannot be applied: delayq outbox rejected --resting; then {runs}",
                    counted(rows, "row")
                )
            }
        };
        Check::bad(WHAT, found, advice)
    } else if books.rejected + books.resting > 0 {
        let rows = counted(books.rejected + books.resting, "row");
        let option = if books.rejected == 0 { " --resting" } else { "" };
        let advice = format!("see why {rows} cannot be applied: delayq outbox rejected{option}");
        Check::warning(WHAT, found, advice)
    } else if let Some(held) = &books.held {
        let found = format!("{found}; settled rows are kept by {held}");
        Check::warning(WHAT, found, "end that transaction")
    } else {
        Check::good(WHAT, found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Judgement;

    #[test]
    fn a_row_that_waits_for_long_because_it_rests_leads_to_why_it_does() {
        let books = |oldest, rejected, resting| Books { oldest, rejected, resting, ..Books::default() };
        let long = Some(2 * SLOW);
        for (books, judgement, advice) in [
            (books(long, 0, 0), Judgement::Bad, "check that a delayq-compensator"),
            (books(long, 9, 0), Judgement::Bad, "check that a delayq-compensator"),
            (
                books(long, 0, 1),
                Judgement::Bad,
                "see why 1 row cannot be applied: delayq outbox rejected --resting; then check that",
            ),
            (
                books(Some(SLOW), 0, 2),
                Judgement::Warning,
                "see why 2 rows cannot be applied: delayq outbox rejected --resting",
            ),
            (
                books(None, 1, 0),
                Judgement::Warning,
                "see why 1 row cannot be applied: delayq outbox rejected",
            ),
            (books(Some(SLOW), 0, 0), Judgement::Good, ""),
        ] {
            let seen = judge(&books);
            assert_eq!(seen.verdict, judgement);
            assert!(seen.advice.starts_with(advice), "{seen:?}");
        }
    }
}
