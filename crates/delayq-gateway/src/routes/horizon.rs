//! The horizon of a topic: counts of delayed messages by due time, in few intervals and with a bounded number of calls.

use super::answer::{Answer, json};
use super::listing::range;
use crate::input::Ask;
use crate::problem::Problem;
use axum::http::StatusCode;
use delayq::admin::TimeRange;
use delayq::{Group, UnixMillis};
use delayq_service::json::add_time;
use serde_json::{Value, json as value};

const SECOND_MS: u64 = 1000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// The edges of the whole horizon, from now. The intervals become wider.
const AHEAD_MS: [u64; 10] = [
    SECOND_MS,
    10 * SECOND_MS,
    MINUTE_MS,
    10 * MINUTE_MS,
    HOUR_MS,
    6 * HOUR_MS,
    DAY_MS,
    7 * DAY_MS,
    30 * DAY_MS,
    365 * DAY_MS,
];

/// The widths of the intervals of a range.
const WIDTHS_MS: [u64; 14] = [
    SECOND_MS,
    5 * SECOND_MS,
    15 * SECOND_MS,
    MINUTE_MS,
    5 * MINUTE_MS,
    15 * MINUTE_MS,
    HOUR_MS,
    4 * HOUR_MS,
    12 * HOUR_MS,
    DAY_MS,
    7 * DAY_MS,
    30 * DAY_MS,
    90 * DAY_MS,
    365 * DAY_MS,
];
/// Maximum whole intervals of a range; the ends of the range may cut two more.
const MAX_INTERVALS: u64 = 60;

pub(super) async fn get(ask: Ask) -> Answer {
    let (topic, group) = (ask.topic()?, ask.query.get::<Group>("group")?);
    let now = ask.scope.now().await?;
    let is_whole = ask.query.text("from").is_none() && ask.query.text("to").is_none();
    let edges = if is_whole { ahead(now) } else { within(range(&ask.query)?)? };
    let horizon = ask.scope.horizon(&topic, group.as_ref(), &edges).await?;
    // A group has no count of its own.
    let delayed = match group {
        None => ask.scope.count(&topic).await?.delayed,
        Some(_) => horizon.counts.iter().sum(),
    };
    let interval = |(at, edge): (usize, &[UnixMillis])| {
        let mut value = value!({ "count": horizon.counts.get(at) });
        add_time(&mut value, "from", Some(edge[0]));
        add_time(&mut value, "to", Some(edge[1]));
        value
    };
    let intervals: Value = edges.windows(2).enumerate().map(interval).collect();
    let mut shown = value!({ "intervals": intervals, "delayed": delayed });
    add_time(&mut shown, "now", Some(now));
    Ok(json(StatusCode::OK, &shown))
}

/// An interval for overdue messages, then ever wider intervals.
fn ahead(now: UnixMillis) -> Vec<UnixMillis> {
    let ahead = AHEAD_MS.map(|ms| UnixMillis::new(now.get() + ms));
    [UnixMillis::new(0), now].into_iter().chain(ahead).chain([UnixMillis::MAX]).collect()
}

/// The range in equal intervals. The inner edges are multiples of the width.
fn within(range: TimeRange) -> Result<Vec<UnixMillis>, Problem> {
    let (from, to) = (range.from.get(), range.to.get());
    if to <= from {
        return Err(Problem::invalid("to", "must be later than from"));
    }
    let last = WIDTHS_MS[WIDTHS_MS.len() - 1];
    let fits = |width: &u64| (to - from).div_ceil(*width) <= MAX_INTERVALS;
    let width = WIDTHS_MS
        .into_iter()
        .find(fits)
        .unwrap_or_else(|| (to - from).div_ceil(MAX_INTERVALS).next_multiple_of(last));
    let inner = (from / width + 1..).map(|at| at * width).take_while(|edge| *edge < to);
    Ok([from].into_iter().chain(inner).chain([to]).map(UnixMillis::new).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_few_intervals_with_round_edges() {
        let edges = |from: u64, to: u64| -> Vec<u64> {
            let range = TimeRange { from: UnixMillis::new(from), to: UnixMillis::new(to) };
            within(range).unwrap().into_iter().map(UnixMillis::get).collect()
        };
        assert_eq!(edges(1500, 4000), [1500, 2000, 3000, 4000]);
        assert_eq!(edges(0, HOUR_MS).len(), 61);
        assert_eq!(edges(7, HOUR_MS)[..3], [7, MINUTE_MS, 2 * MINUTE_MS]);
        for (from, to) in [(0, 1), (1, 61_001), (5, DAY_MS), (9, 800 * DAY_MS), (0, UnixMillis::MAX.get())] {
            let edges = edges(from, to);
            assert!((2..=63).contains(&edges.len()), "{from} to {to}: {} edges", edges.len());
            assert!(edges.is_sorted_by(|one, other| one < other));
        }
        assert!(within(TimeRange { from: UnixMillis::new(5), to: UnixMillis::new(5) }).is_err());
    }

    #[test]
    fn the_whole_horizon_begins_with_what_is_overdue_and_has_no_end() {
        let edges = ahead(UnixMillis::new(DAY_MS));
        assert_eq!((edges[0], edges[1]), (UnixMillis::new(0), UnixMillis::new(DAY_MS)));
        assert_eq!((edges.len(), edges[12]), (13, UnixMillis::MAX));
    }
}
