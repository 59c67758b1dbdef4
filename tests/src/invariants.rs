//! The invariants of every run's history, whatever was broken during the run.
//!
//! With A, U, R the ids whose put was answered ok, unknown, refused (and never anything better), C the ids whose cancel
//! was answered *cancelled*, D the deliveries and Z the dead letters:
//!
//! | | | |
//! | --- | --- | --- |
//! | I1 | nothing accepted is lost | A without C is in D or Z; every reason in Z is permitted by the faults |
//! | I2 | nothing unexpected | every delivery is of A or U, with the payload of its put |
//! | I3 | no phantom | nothing of R is delivered |
//! | I4 | never early | ready at or after the due time |
//! | I5 | cancelled stays cancelled | nothing of C is delivered; messages cancelled too late are in D or Z |
//! | I6 | duplicates bounded | at most as many as the faults allow, with rising delivery numbers |
//! | I7 | on time | ready within the bound after the due time |
//! | I8 | one effective owner | a fenced batch moves nothing; epochs that moved messages only rise |
//! | I9 | the books balance | [`Books::violation`] |
//! | I10 | drained means empty | [`leftovers`] |
//! | I11 | failures are typed | [`check_output`] |

use crate::history::{Answer, Event, History};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The effects that the faults of a run permit; the default is a run without faults and without a lateness bound.
#[derive(Debug, Clone, Default)]
pub struct Permit {
    /// Maximum repeated deliveries, over all ids.
    pub duplicates: usize,
    /// Permitted texts: the reason of each dead letter must contain one; empty: no dead letters.
    pub dead_reasons: Vec<String>,
    /// Maximum lateness of ready; `None`: not checked.
    pub late: Option<Duration>,
    /// True if Redis lost its last writes: a delivery number may then repeat.
    pub rewound: bool,
}

/// A violated invariant, with evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Number of the invariant, such as 4 for *never early*.
    pub invariant: u8,
    /// The observation, with the id.
    pub what: String,
}

/// A shard's counters at one moment, from one script.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Books {
    /// Stored puts.
    pub accepted: u64,
    /// Acked.
    pub delivered: u64,
    /// Cancelled.
    pub cancelled: u64,
    /// Expired before delivery.
    pub expired: u64,
    /// Current dead letters.
    pub dead: u64,
    /// Removed by a purge.
    pub purged: u64,
    /// Overwritten by a replacing put.
    pub replaced: u64,
    /// Currently delayed, ready or leased.
    pub pending: u64,
}

/// Destination, SHA-256, delivery number and ready time in ms.
type Seen<'a> = (&'a str, &'a str, u32, u64);

#[derive(Debug, Default)]
struct Life<'a> {
    payloads: BTreeSet<&'a str>,
    stored: bool,
    perhaps_stored: bool,
    refused: bool,
    cancelled: bool,
    too_late: bool,
    /// The due times that may apply: the last certain due time, and all later ones.
    dues_ms: Vec<u64>,
    deliveries: Vec<Seen<'a>>,
    dead: Vec<&'a str>,
}

// === impl Books ===

impl Books {
    /// I9: accepted = delivered + cancelled + expired + dead + purged + replaced + pending.
    #[must_use]
    pub fn violation(&self) -> Option<Violation> {
        let Self { accepted, delivered, cancelled, expired, dead, purged, replaced, pending } = *self;
        let parts = delivered + cancelled + expired + dead + purged + replaced + pending;
        (accepted != parts).then(|| Violation {
            invariant: 9,
            what: format!("{accepted} accepted, {parts} accounted for: {self:?}"),
        })
    }
}

/// Checks I1 to I8 on a drained run; an empty answer means that all hold.
#[must_use]
pub fn check(history: &History, permit: &Permit) -> Vec<Violation> {
    let events = history.events();
    let lives = lives(&events);
    let mut found = Vec::new();
    for (id, life) in &lives {
        life.check(permit, &mut |invariant, what: String| {
            found.push(Violation { invariant, what: format!("{id}: {what}") });
        });
    }
    let duplicates: usize = lives.values().map(Life::duplicates).sum();
    if duplicates > permit.duplicates {
        let what = format!("{duplicates} duplicates, {} permitted", permit.duplicates);
        found.push(Violation { invariant: 6, what });
    }
    check_owners(&events, &mut found);
    found
}

/// I10: keys beyond the registry after everything is drained and forgotten. `keys` are all keys of a namespace.
#[must_use]
pub fn leftovers(keys: &[String]) -> Vec<Violation> {
    // Checks the key after its shard, so that a user's text cannot match.
    let registry = |key: &str| {
        let name = key.split_once("}:").map_or(key, |(_, name)| name);
        matches!(name, "meta" | "stats" | "dictionaries" | "gateway") || name.starts_with("t:")
    };
    let left = keys.iter().filter(|key| !registry(key));
    left.map(|key| Violation { invariant: 10, what: format!("{key} is left") }).collect()
}

/// I11: panics and secrets in a program's output.
#[must_use]
pub fn check_output(output: &str, secrets: &[&str]) -> Vec<Violation> {
    let bad =
        |line: &&str| line.contains("panicked at") || secrets.iter().any(|secret| line.contains(secret));
    output.lines().filter(bad).map(|line| Violation { invariant: 11, what: line.to_owned() }).collect()
}

// === impl Life ===

impl<'a> Life<'a> {
    fn learn(&mut self, event: &'a Event) {
        match event {
            Event::Put { due_ms, sha256, answer, .. } => {
                match answer {
                    Answer::Ok => self.stored = true,
                    Answer::Unknown => self.perhaps_stored = true,
                    Answer::Refused => self.refused = true,
                }
                if *answer != Answer::Refused {
                    self.payloads.insert(sha256);
                    self.learn_due(*due_ms, *answer);
                }
            }
            Event::Cancel { answer, .. } => match answer {
                Answer::Ok => self.cancelled = true,
                Answer::Refused => self.too_late = true,
                Answer::Unknown => {}
            },
            Event::Reschedule { due_ms, answer, .. } => self.learn_due(*due_ms, *answer),
            Event::Delivery { destination, sha256, delivery, ready_ms, .. } => {
                self.deliveries.push((destination, sha256, *delivery, *ready_ms));
            }
            Event::Dead { reason, .. } => self.dead.push(reason),
            Event::Pump { .. } => {}
        }
    }

    fn learn_due(&mut self, due_ms: u64, answer: Answer) {
        match answer {
            Answer::Ok => self.dues_ms = vec![due_ms],
            Answer::Unknown => self.dues_ms.push(due_ms),
            Answer::Refused => {}
        }
    }

    /// For each destination separately.
    fn duplicates(&self) -> usize {
        let destinations: BTreeSet<&str> = self.deliveries.iter().map(|d| d.0).collect();
        self.deliveries.len() - destinations.len()
    }

    fn check(&self, permit: &Permit, say: &mut impl FnMut(u8, String)) {
        let gone = self.deliveries.is_empty() && self.dead.is_empty();
        if self.stored && !self.cancelled && gone {
            say(1, "accepted and lost".to_owned());
        }
        for reason in &self.dead {
            if !permit.dead_reasons.iter().any(|permitted| reason.contains(permitted.as_str())) {
                say(1, format!("dead for a reason that nothing permits: {reason}"));
            }
        }
        if self.too_late && gone && !self.cancelled && (self.stored || self.perhaps_stored) {
            say(5, "too late to cancel, and yet never delivered".to_owned());
        }
        for delivery in &self.deliveries {
            self.check_delivery(delivery, permit, say);
        }
        if !permit.rewound {
            self.check_rising(say);
        }
    }

    fn check_delivery(&self, delivery: &Seen<'_>, permit: &Permit, say: &mut impl FnMut(u8, String)) {
        let (destination, sha256, _, ready_ms) = *delivery;
        let put = self.stored || self.perhaps_stored;
        match (put, self.refused) {
            (false, true) => say(3, format!("refused, and yet delivered to {destination}")),
            (false, false) => say(2, format!("never put, and yet delivered to {destination}")),
            _ if !self.payloads.contains(sha256) => say(2, format!("another payload at {destination}")),
            _ => {}
        }
        if self.cancelled {
            say(5, format!("cancelled, and yet delivered to {destination}"));
        }
        if let Some(earliest) = self.dues_ms.iter().min().filter(|due| ready_ms < **due) {
            say(4, format!("ready {} ms early", earliest - ready_ms));
        }
        if let (Some(bound), Some(latest)) = (permit.late, self.dues_ms.iter().max()) {
            let late = Duration::from_millis(ready_ms.saturating_sub(*latest));
            if late > bound {
                say(7, format!("ready {late:?} late, {bound:?} permitted"));
            }
        }
    }

    fn check_rising(&self, say: &mut impl FnMut(u8, String)) {
        let mut numbers: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        for (destination, _, delivery, _) in &self.deliveries {
            if !numbers.entry(destination).or_default().insert(*delivery) {
                say(6, format!("delivery number {delivery} twice at {destination}"));
            }
        }
    }
}

fn lives(events: &[Event]) -> BTreeMap<&str, Life<'_>> {
    let mut lives: BTreeMap<&str, Life<'_>> = BTreeMap::new();
    for event in events {
        let id = match event {
            Event::Put { id, .. }
            | Event::Cancel { id, .. }
            | Event::Reschedule { id, .. }
            | Event::Delivery { id, .. }
            | Event::Dead { id, .. } => id,
            Event::Pump { .. } => continue,
        };
        lives.entry(id).or_default().learn(event);
    }
    lives
}

fn check_owners(events: &[Event], found: &mut Vec<Violation>) {
    let mut highest: BTreeMap<u32, u64> = BTreeMap::new();
    for event in events {
        let Event::Pump { shard, epoch, fenced, moved } = event else { continue };
        let highest = highest.entry(*shard).or_default();
        let what = if *fenced && *moved > 0 {
            format!("shard {shard}: a fenced batch of epoch {epoch} moved {moved}")
        } else if !fenced && *moved > 0 && epoch < highest {
            format!("shard {shard}: epoch {epoch} moved {moved} after epoch {highest}")
        } else {
            if !fenced {
                *highest = (*highest).max(*epoch);
            }
            continue;
        };
        found.push(Violation { invariant: 8, what });
    }
}

#[cfg(test)]
mod tests;
