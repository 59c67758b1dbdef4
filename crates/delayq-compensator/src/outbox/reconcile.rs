//! The outbox as a second copy: puts the messages that the kept rows, taken together, show as pending, if Redis has lost
//! them.
//!
//! Rows are read and put under the turn, so no reader carries out a cancel in between; and a put never replaces, so messages
//! that Redis knows stay unchanged.

use super::keeper::OutboxKeeper;
use super::row::{OutboxRow, RowKey};
use crate::codes::OUTBOX;
use delayq::protocol::{Again, DueRule};
use delayq::spool::SpoolAction;
use delayq::{Admin, Due, Message, MessageId, Producer, PutOutcome, Target, UnixMillis};
use delayq_service::Fault;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So many messages are put together.
const PAGE: usize = 500;

/// The extent of a reconcile.
#[derive(Clone, Copy, Debug)]
pub struct Reconcile {
    /// Rows that were added no longer ago than this.
    pub since: Duration,
    /// Messages that were due no longer ago than this: these may have been delivered.
    pub overdue: Duration,
    /// Ask only.
    pub dry_run: bool,
}

/// The findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Rows that were read.
    pub rows: u64,
    /// Messages that Redis knows.
    pub known: u64,
    /// Messages that Redis did not know: put again, or to be put.
    pub put: u64,
    /// Messages that were cancelled.
    pub cancelled: u64,
    /// Messages that are due too long ago.
    pub overdue: u64,
    /// Messages that were put again after a cancel, which may have had no effect: not put.
    pub unclear: u64,
    /// Messages that Redis refuses, or without a valid row.
    pub refused: u64,
}

/// The topic, the id and the group of a message, as written in a row. The group is missing if not part of the name.
type RowName = (String, String, Option<String>);

/// The state of a message, by the rows so far.
#[derive(Clone, Debug, PartialEq)]
enum Net {
    /// `past`: the time since the due time; `waited`: the time since the first put of a debounced message, of another one since
    /// its last put or move.
    Pending {
        key: RowKey,
        due: Due,
        past: Duration,
        waited: Duration,
        is_debounced: bool,
    },
    Cancelled,
    Unclear,
}

/// The messages of rows, taken together.
#[derive(Debug, Default)]
struct Ledger(HashMap<RowName, Net>);

// === impl Ledger ===

impl Ledger {
    /// Adds the next row.
    fn add(&mut self, key: RowKey, row: &OutboxRow, now: UnixMillis) {
        let name = name_of(row);
        let due = due_of(row, now);
        if row.verb == "put" && row.again().expects() {
            // Such a put puts nothing of its own.
            match self.0.get(&name).map_or(Some(false), |net| net.is_as_expected(row)) {
                Some(true) => {}
                Some(false) => return,
                None => {
                    self.0.insert(name, Net::Unclear);
                    return;
                }
            }
        }
        let net = match (row.verb.as_str(), self.0.get(&name)) {
            // The id may have been forgotten by then, and the put be another message.
            ("put", Some(Net::Pending { past, .. })) if !row.replaces && *past > row.age => Net::Unclear,
            ("put", Some(Net::Pending { .. } | Net::Unclear)) if !row.replaces => return,
            ("put", Some(Net::Cancelled)) if !row.replaces => Net::Unclear,
            ("put", before) => {
                let (due, past) = due.unwrap_or((Due::After(Duration::ZERO), row.age));
                let is_debounced = matches!(row.again().due, DueRule::Within(_));
                let new = Net::Pending { key, due, past, waited: row.age, is_debounced };
                match before {
                    Some(Net::Pending { past, .. }) if *past > row.age => new,
                    Some(before) => before.put_again(new, row.again(), now),
                    None => new,
                }
            }
            ("cancel", _) => Net::Cancelled,
            // The row came too late.
            ("reschedule", Some(Net::Pending { past, .. })) if *past > row.age => return,
            ("reschedule", Some(Net::Pending { key, due: before, waited, is_debounced, .. })) => {
                match (due, before) {
                    (Some(_), Due::At(at)) if row.expected.is_some_and(|expected| time(expected) != *at) => {
                        return;
                    }
                    (Some((due, past)), _) => {
                        let waited = if *is_debounced { *waited } else { row.age };
                        Net::Pending { key: *key, due, past, waited, is_debounced: *is_debounced }
                    }
                    (None, _) => return,
                }
            }
            _ => return,
        };
        self.0.insert(name, net);
    }
}

// === impl Net ===

impl Net {
    /// True if the put of a row meets the message that it expects; `None` if the rows do not tell.
    fn is_as_expected(&self, row: &OutboxRow) -> Option<bool> {
        let Again { expected, content, .. } = row.again();
        match *self {
            Self::Cancelled => Some(false),
            Self::Pending { past, .. } if past > row.age => Some(false),
            Self::Pending { due: Due::At(due), .. } if expected.is_some_and(|expected| expected != due) => {
                Some(false)
            }
            Self::Pending { due: Due::At(_), .. } if content.is_none() => Some(true),
            _ => None,
        }
    }

    /// The state after a put that replaces, as `lua/lib/put/merge.lua` treats a pending message.
    fn put_again(&self, new: Self, again: Again, now: UnixMillis) -> Self {
        let (
            &Self::Pending {
                key: old_key,
                due: old_due,
                past: old_past,
                waited,
                is_debounced: was_debounced,
            },
            &Self::Pending { key, due, past, waited: age, is_debounced },
        ) = (self, &new)
        else {
            return new;
        };
        if again.is_plain() {
            return new;
        }
        let is_later = rest(due, past, now) > rest(old_due, old_past, now);
        let (due, past) = match again.due {
            DueRule::Later if !is_later => (old_due, old_past),
            DueRule::Sooner if is_later => (old_due, old_past),
            DueRule::Content => (old_due, old_past),
            DueRule::Within(longest) if rest(due, past, now) > signed(longest) - signed(waited) => {
                (Due::After(longest.saturating_sub(waited)), waited.saturating_sub(longest))
            }
            _ => (due, past),
        };
        let (key, is_debounced) = (if again.keep { old_key } else { key }, was_debounced || is_debounced);
        Self::Pending { key, due, past, waited: if is_debounced { waited } else { age }, is_debounced }
    }
}

/// Milliseconds until a due time, below 0 for one that is past.
fn rest(due: Due, past: Duration, now: UnixMillis) -> i128 {
    let ahead = match due {
        Due::At(at) => at.since(now),
        Due::After(delay) => delay,
    };
    signed(ahead) - signed(past)
}

fn signed(duration: Duration) -> i128 {
    i128::try_from(duration.as_millis()).unwrap_or(i128::MAX)
}

/// The name of a row's message.
fn name_of(row: &OutboxRow) -> RowName {
    let is_generated = matches!(row.id.parse(), Ok(MessageId::Generated(_)));
    let group = row.group_id.clone().filter(|_| !is_generated);
    (row.topic.clone(), row.id.clone(), group)
}

/// The due time of a row's message, or the rest of a delay; and the time since the due time.
fn due_of(row: &OutboxRow, now: UnixMillis) -> Option<(Due, Duration)> {
    let at = row.due.map(|at| (Due::At(time(at)), now.since(time(at))));
    at.or_else(|| {
        let delay = Duration::from_millis(row.delay_ms?.unsigned_abs());
        Some((Due::After(delay.saturating_sub(row.age)), row.age.saturating_sub(delay)))
    })
}

/// A due time so much later: the rest of a delay.
fn later(due: Due, by: Duration) -> Due {
    match due {
        Due::At(at) => Due::At(at),
        Due::After(delay) => Due::After(delay.saturating_sub(by)),
    }
}

fn time(at: std::time::SystemTime) -> UnixMillis {
    super::row::time("due", at).unwrap_or(UnixMillis::new(0))
}

// === impl OutboxKeeper ===

impl OutboxKeeper {
    /// Puts the messages that the kept rows show as pending and that Redis does not know. Readers wait until the end.
    /// `progress` is called with the messages that were asked about, and how many there are.
    ///
    /// # Errors
    /// The database or Redis cannot be used; some are put then. A repeat continues.
    pub async fn reconcile(
        &mut self,
        producer: &Producer,
        what: Reconcile,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Reconciled, Fault> {
        let (mut found, mut ledger) = (Reconciled::default(), Ledger::default());
        let (now, begun) = (delayq_service::host_now(), Instant::now());
        let mut add = |key: RowKey, row: OutboxRow| {
            found.rows += 1;
            ledger.add(key, &row, now);
        };
        self.kept(what.since, &mut add).await?;
        let mut pending: Vec<(RowKey, Due)> = Vec::new();
        for net in ledger.0.into_values() {
            match net {
                Net::Cancelled => found.cancelled += 1,
                Net::Unclear => found.unclear += 1,
                Net::Pending { past, .. } if past > what.overdue => found.overdue += 1,
                Net::Pending { key, due, .. } => pending.push((key, due)),
            }
        }
        pending.sort_unstable_by_key(|((_, seq), _)| *seq);
        for (page, some) in pending.chunks(PAGE).enumerate() {
            let messages = self.messages(some, begun).await?;
            found.refused += (some.len() - messages.len()) as u64;
            match what.dry_run {
                true => ask(producer, &messages, &mut found).await?,
                false => put(producer, messages, &mut found).await?,
            }
            progress((page * PAGE + some.len()) as u64, pending.len() as u64);
        }
        self.release().await?;
        Ok(found)
    }

    /// The messages of rows, as to be put now.
    async fn messages(&mut self, some: &[(RowKey, Due)], begun: Instant) -> Result<Vec<Message>, Fault> {
        let keys: Vec<RowKey> = some.iter().map(|(key, _)| *key).collect();
        let rows = self.rows_of(&keys).await?;
        let now = delayq_service::host_now();
        let message = |(place, row): (usize, OutboxRow)| {
            let SpoolAction::Put(message) = row.record(now).ok()?.never_tried().action else {
                return None;
            };
            let mut message = Arc::unwrap_or_clone(message);
            message.due = later(some.get(place)?.1, begun.elapsed());
            (message.replace, message.again) = (false, Again::default());
            Some(message)
        };
        Ok(rows.into_iter().filter_map(message).collect())
    }
}

async fn put(producer: &Producer, messages: Vec<Message>, found: &mut Reconciled) -> Result<(), Fault> {
    for answer in producer.put_many(messages).await {
        match answer.map_err(|error| unusable(error.error))?.outcome {
            PutOutcome::Stored(_) | PutOutcome::Ready(_) => found.put += 1,
            PutOutcome::Again { .. }
            | PutOutcome::Exists(..)
            | PutOutcome::Conflict(..)
            | PutOutcome::Changed(..)
            | PutOutcome::Unknown
            | PutOutcome::Leased
            | PutOutcome::Newer => found.known += 1,
            PutOutcome::Stale | PutOutcome::Malformed | PutOutcome::Refused(_) | PutOutcome::Spooled => {
                found.refused += 1;
            }
        }
    }
    Ok(())
}

async fn ask(producer: &Producer, messages: &[Message], found: &mut Reconciled) -> Result<(), Fault> {
    let admin = Admin::new(producer.client().clone());
    for message in messages {
        let Some(id) = message.id.clone() else { continue };
        let target = Target { id, group: message.group.clone() };
        match admin.topic(&message.topic).get(&target).await.map_err(unusable)? {
            Some(_) => found.known += 1,
            None => found.put += 1,
        }
    }
    Ok(())
}

fn unusable(error: delayq::Error) -> Fault {
    Fault::new(&OUTBOX, "Redis cannot be used; run the command again to continue").because(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    const NOW: UnixMillis = UnixMillis::new(1);

    /// The state after a sequence of rows of a message, such as `p5 r7`: put due at 5 ms, rescheduled to 7 ms.
    fn net(rows: &str) -> Option<Net> {
        let mut ledger = Ledger::default();
        for (seq, word) in (1..).zip(rows.split_whitespace()) {
            let (verb, rest) = word.split_at(1);
            let (due, expected) = rest.split_once('?').unwrap_or((rest, ""));
            let at = |ms: &str| ms.parse().ok().map(|ms| UNIX_EPOCH + Duration::from_millis(ms));
            let (verb, again) = match verb {
                "p" | "P" => ("put", (verb == "P").then_some("")),
                "L" => ("put", Some("later")),
                "S" => ("put", Some("sooner")),
                "K" => ("put", Some("later keep")),
                "E" if expected.is_empty() => ("put", Some("content")),
                "E" => ("put", Some(&*format!("content expected={expected}").leak())),
                "c" => ("cancel", None),
                _ => ("reschedule", None),
            };
            let row = OutboxRow {
                verb: verb.to_owned(),
                replaces: again.is_some(),
                again: again.map(str::to_owned),
                due: at(due),
                expected: at(expected),
                ..OutboxRow::default()
            };
            ledger.add((1, seq), &row, NOW);
        }
        ledger.0.into_values().next()
    }

    #[test]
    fn the_rows_of_a_message_are_taken_together_in_their_order() {
        let pending = |seq, ms| {
            let due = Due::At(UnixMillis::new(ms));
            let (past, waited) = (Duration::ZERO, Duration::ZERO);
            Some(Net::Pending { key: (1, seq), due, past, waited, is_debounced: false })
        };
        for (rows, expected) in [
            ("p5", pending(1, 5)),
            ("p5 r7", pending(1, 7)),
            ("p5 r7?5", pending(1, 7)),
            ("p5 r7?6", pending(1, 5)),
            ("p5 p6", pending(1, 5)),
            ("p5 P6", pending(2, 6)),
            ("p5 L6", pending(2, 6)),
            ("p6 L5", pending(2, 6)),
            ("p5 S6", pending(2, 5)),
            ("p6 S5", pending(2, 5)),
            ("p5 K6", pending(1, 6)),
            ("p5 E6", pending(2, 5)),
            ("p5 E6?5", pending(2, 5)),
            ("p5 E6?4", pending(1, 5)),
            ("E6?5", None),
            ("p5 c E6?5", Some(Net::Cancelled)),
            ("p5 c p6 E7?6", Some(Net::Unclear)),
            ("p5 c L4", pending(3, 4)),
            ("p5 c", Some(Net::Cancelled)),
            ("p5 c p6", Some(Net::Unclear)),
            ("p5 c P6", pending(3, 6)),
            ("p5 c p6 c", Some(Net::Cancelled)),
            ("p5 c r7", Some(Net::Cancelled)),
            // The put is not kept any more.
            ("r7", None),
        ] {
            assert_eq!(net(rows), expected, "{rows}");
        }
    }

    #[test]
    fn rows_of_one_id_in_two_groups_are_of_two_messages_unless_it_is_generated() {
        let row = |verb: &str, id: &str, group: Option<&str>| OutboxRow {
            verb: verb.to_owned(),
            id: id.to_owned(),
            group_id: group.map(str::to_owned),
            delay_ms: (verb == "put").then_some(1000),
            ..OutboxRow::default()
        };
        let left = |rows: &[OutboxRow]| {
            let mut ledger = Ledger::default();
            (1..).zip(rows).for_each(|(seq, row)| ledger.add((1, seq), row, NOW));
            ledger.0.into_values().filter(|net| matches!(net, Net::Pending { .. })).count()
        };
        assert_eq!(left(&[row("put", "k1", Some("a")), row("cancel", "k1", Some("b"))]), 1);
        assert_eq!(
            left(&[row("put", "k1", Some("a")), row("put", "k1", None), row("cancel", "k1", None)]),
            1
        );
        let generated = "~0190a000-0000-7003-8000-000000000001";
        assert_eq!(left(&[row("put", generated, Some("a")), row("cancel", generated, None)]), 0);
    }

    #[test]
    fn what_follows_a_message_that_was_due_by_then_is_of_another_one() {
        let row = |verb: &str, delay_s: u64, age_s: u64| OutboxRow {
            verb: verb.to_owned(),
            delay_ms: (verb != "cancel").then_some(delay_s as i64 * 1000),
            age: Duration::from_secs(age_s),
            ..OutboxRow::default()
        };
        let left = |s| Due::After(Duration::from_secs(s));
        for (rows, expected) in [
            // Put 100 s ago for 90 s later; 50 s ago, the message was still pending.
            ([row("put", 90, 100), row("put", 90, 50)], (1, Some((left(0), 10)))),
            ([row("put", 90, 100), row("reschedule", 90, 50)], (1, Some((left(40), 0)))),
            // Put 100 s ago for 10 s later; 50 s ago, the message had been delivered.
            ([row("put", 10, 100), row("put", 90, 50)], (0, None)),
            ([row("put", 10, 100), row("reschedule", 90, 50)], (1, Some((left(0), 90)))),
        ] {
            let mut ledger = Ledger::default();
            for (seq, row) in (1..).zip(&rows) {
                ledger.add((1, seq), row, NOW);
            }
            let found = match ledger.0.into_values().next().unwrap() {
                Net::Pending { key, due, past, .. } => (key.1, Some((due, past.as_secs()))),
                Net::Unclear => (0, None),
                Net::Cancelled => (-1, None),
            };
            assert_eq!(found, expected, "{rows:?}");
        }
    }

    #[test]
    fn a_debounced_message_is_due_at_most_its_longest_wait_after_the_first_put() {
        let debounced = |age_s: u64| OutboxRow {
            verb: "put".to_owned(),
            delay_ms: Some(60_000),
            replaces: true,
            again: Some("within=100000".to_owned()),
            age: Duration::from_secs(age_s),
            ..OutboxRow::default()
        };
        for (ages, expected) in [([50, 40, 30], (30, 0)), ([95, 45, 10], (5, 0)), ([130, 80, 40], (0, 30))] {
            let mut ledger = Ledger::default();
            for (seq, age) in (1..).zip(ages) {
                ledger.add((1, seq), &debounced(age), NOW);
            }
            let Some(Net::Pending { key, due, past, .. }) = ledger.0.into_values().next() else {
                panic!("pending")
            };
            let expected = (Due::After(Duration::from_secs(expected.0)), Duration::from_secs(expected.1));
            assert_eq!((key.1, (due, past)), (3, expected), "{ages:?}");
        }
    }

    #[test]
    fn a_message_that_was_not_debounced_has_waited_since_its_last_put_or_move() {
        let row = |verb: &str, again: Option<&str>, age_s: u64| OutboxRow {
            verb: verb.to_owned(),
            delay_ms: Some(1_000_000),
            replaces: again.is_some(),
            again: again.map(str::to_owned),
            age: Duration::from_secs(age_s),
            ..OutboxRow::default()
        };
        let within = Some("within=100000");
        for (rows, left_s) in [
            ([row("put", None, 90), row("reschedule", None, 50), row("put", within, 10)], 50),
            ([row("put", None, 90), row("put", Some("later"), 50), row("put", within, 10)], 50),
            ([row("put", within, 90), row("reschedule", None, 50), row("put", within, 10)], 10),
        ] {
            let mut ledger = Ledger::default();
            for (seq, row) in (1..).zip(&rows) {
                ledger.add((1, seq), row, NOW);
            }
            let Some(Net::Pending { due, .. }) = ledger.0.into_values().next() else { panic!("pending") };
            assert_eq!(due, Due::After(Duration::from_secs(left_s)), "{rows:?}");
        }
    }

    #[test]
    fn of_a_delay_what_is_left_counts_and_how_long_ago_it_passed() {
        let s = Duration::from_secs;
        for (age, left, past) in [(2, 3, 0), (5, 0, 0), (9, 0, 4)] {
            let row = OutboxRow { delay_ms: Some(5_000), age: s(age), ..OutboxRow::default() };
            assert_eq!(due_of(&row, NOW), Some((Due::After(s(left)), s(past))));
        }
        assert_eq!(later(Due::After(s(5)), s(2)), Due::After(s(3)), "it goes by while others are put");
        assert_eq!(later(Due::At(NOW), s(2)), Due::At(NOW));
    }
}
