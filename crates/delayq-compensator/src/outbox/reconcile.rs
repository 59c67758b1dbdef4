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
                    Some(before @ Net::Pending { past, .. }) if *past > row.age => {
                        match before.throttled(new, row.again().due, row.age, now) {
                            Some(next) => next,
                            None => return,
                        }
                    }
                    Some(Net::Pending { .. }) if matches!(row.again().due, DueRule::Swallow(_)) => return,
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

    /// The state after a put, of this age, behind a message that was delivered by then, as `lua/lib/put/throttle.lua` treats a
    /// delivered message; `None`: the put is swallowed.
    fn throttled(&self, mut new: Self, rule: DueRule, age: Duration, now: UnixMillis) -> Option<Self> {
        let (
            &Self::Pending { due: last, past: last_past, .. },
            Self::Pending { due, past, .. },
            DueRule::Throttle(window) | DueRule::Swallow(window),
        ) = (self, &mut new, rule)
        else {
            return Some(new);
        };
        let end = rest(last, last_past, now) + signed(window);
        match rule {
            DueRule::Swallow(_) if end > -signed(age) => return None,
            DueRule::Throttle(_) if end > rest(*due, *past, now) => {
                let span = Duration::from_millis(u64::try_from(end.unsigned_abs()).unwrap_or(u64::MAX));
                (*due, *past) = match end >= 0 {
                    true => (Due::After(span), Duration::ZERO),
                    false => (Due::After(Duration::ZERO), span),
                };
            }
            _ => {}
        }
        Some(new)
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
            DueRule::Content | DueRule::Throttle(_) => (old_due, old_past),
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
mod tests;
