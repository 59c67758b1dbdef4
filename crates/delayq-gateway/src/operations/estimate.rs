//! Counts the messages that a filter matches: by counters, or by a walk with a budget.

use super::order::Order;
use delayq::admin::{Cut, Listed, SelectCursor};
use delayq::{Admin, Error};
use std::time::{Duration, Instant};

/// Of a walk. Redis lists 50,000 messages in about half a second.
const MAX_LOOKED_AT: u64 = 50_000;
const MAX_TIME: Duration = Duration::from_secs(2);
const SAMPLE: usize = 10;

pub(crate) struct Estimate {
    /// At least so many.
    pub(crate) count: u64,
    /// False if the walk ended early.
    pub(crate) is_exact: bool,
    /// Messages of the first page that match.
    pub(crate) sample: Vec<Listed>,
    /// The latest that the messages with this cut may have been put or moved.
    pub(crate) cut: Cut,
}

/// By calls of `page` messages.
pub(crate) async fn estimate(admin: &Admin, order: &Order, page: usize) -> Result<Estimate, Error> {
    let selection = order.selection();
    let cut = admin.operations().cut(&selection).await?;
    let counted = if order.reads() { None } else { admin.operations().count(&selection).await? };
    let (mut found, mut looked_at, mut sample) = (0, 0, Vec::new());
    let (began, mut next) = (Instant::now(), Some(SelectCursor::default()));
    while let Some(cursor) = next.as_ref().filter(|_| looked_at < MAX_LOOKED_AT && began.elapsed() < MAX_TIME)
    {
        let page = admin.operations().select(&selection, &cut, cursor, page).await?;
        looked_at += page.messages.len() as u64;
        for listed in page.messages.into_iter().filter(|listed| order.fits(listed)) {
            found += 1;
            if sample.len() < SAMPLE {
                sample.push(listed);
            }
        }
        next = page.next;
        if counted.is_some() && sample.len() == SAMPLE {
            break;
        }
    }
    let is_exact = counted.is_some() || next.is_none();
    Ok(Estimate { count: counted.unwrap_or(found), is_exact, sample, cut })
}
