//! The ends of a lease (ack, release, bury, expiry), and the replay of dead letters.

use super::{Call, Model, Msg, Outcome, Place, ms, same};
use crate::action::{GiveBack, REASON};
use crate::snapshot::Name;
use delayq::Backoff;
use delayq::protocol::Envelope;
use std::time::Duration;

/// A back-off as stored: kind, then the delays in ms.
type Delays = (u8, Vec<u64>);

// === impl Model ===

impl Model {
    pub(crate) fn leased_by(&self, receipt: &[u8]) -> Option<Name> {
        let held = |msg: &Msg| matches!(&msg.place, Place::Leased { receipt: own, .. } if own == receipt);
        self.messages.iter().find(|(_, msg)| held(msg)).map(|(name, _)| name.clone())
    }

    pub(super) fn ack(&mut self, receipts: &[Vec<u8>], call: &Call<'_>) -> Outcome {
        let held: Vec<Option<Name>> = receipts.iter().map(|receipt| self.leased_by(receipt)).collect();
        for (name, word) in held.iter().zip(&call.words) {
            same("ack", word.as_str(), if name.is_some() { "delivered" } else { "expired" })?;
        }
        for name in held.into_iter().flatten() {
            if self.messages.get(&name).is_some_and(Msg::is_leased) {
                self.end_leased(&name, "delivered");
            }
        }
        same("answers", call.words.len(), receipts.len())
    }

    /// Takes the successor of a message whose lease ends, unless it has expired.
    fn successor_of(&mut self, name: &Name) -> Option<Envelope> {
        let now = ms(self.now());
        let successor = self.messages.get_mut(name).unwrap().successor.take();
        successor.filter(|successor| successor.expires.is_none_or(|expires| expires > now))
    }

    /// Ends a leased message and starts the successor; false without a successor.
    fn succeed(&mut self, name: &Name, outcome: &'static str) -> bool {
        let Some(successor) = self.successor_of(name) else { return false };
        self.book(outcome, name.0);
        if outcome == "buried" {
            self.book("replaced", name.0);
        }
        self.book("accepted", name.0);
        let due = successor.due.get();
        self.messages.insert(name.clone(), Msg::new(self.place_for(due), successor));
        self.put_to(name, due);
        true
    }

    pub(super) fn end_leased(&mut self, name: &Name, outcome: &'static str) {
        if !self.succeed(name, outcome) {
            self.finish(name, outcome);
        }
    }

    pub(super) fn extend(&mut self, receipts: &[Vec<u8>], lease: Option<u64>, call: &Call<'_>) -> Outcome {
        for (receipt, word) in receipts.iter().zip(&call.words) {
            let Some(name) = self.leased_by(receipt) else {
                same("extend", word.as_str(), "expired")?;
                continue;
            };
            let until = self.now() + lease.unwrap_or_else(|| self.policy(name.0, "lease_ms"));
            self.longest_lease = self.longest_lease.max(until - self.now());
            let msg = self.messages.get_mut(&name).unwrap();
            msg.place = Place::Leased { receipt: receipt.clone(), until };
            msg.stored.at = ms(until);
            let doomed = if msg.stored.doomed { "cancelled " } else { "" };
            same("extend", word, &format!("{doomed}{until}"))?;
        }
        same("answers", call.words.len(), receipts.len())
    }

    pub(super) fn release(&mut self, one: &GiveBack, word: &str) -> Outcome {
        let Some(name) = self.leased_by(&one.receipt) else { return same("release", word, "expired") };
        if one.keep {
            let stored = &mut self.messages.get_mut(&name).unwrap().stored;
            stored.attempt = stored.attempt.saturating_sub(1);
        }
        let (state, due) = word.split_once(' ').unwrap_or((word, ""));
        match self.give_back(&name, one.delay, REASON, due.parse().ok())? {
            "expired" => same("release", word, "expired-message"),
            wanted => same("release", state, wanted),
        }
    }

    pub(super) fn bury(&mut self, receipt: &[u8], word: &str) -> Outcome {
        let Some(name) = self.leased_by(receipt) else { return same("bury", word, "expired") };
        if !self.succeed(&name, "buried") {
            self.block_group(&name);
            self.kill(&name, REASON);
        }
        same("bury", word, "buried")
    }

    fn kill(&mut self, name: &Name, reason: &str) {
        self.book("buried", name.0);
        let now = self.now();
        let msg = self.messages.get_mut(name).unwrap();
        (msg.place, msg.stored.at, msg.stored.reason) = (Place::Dead, ms(now), Some(reason.to_owned()));
    }

    /// `due` is the scripts' due time, needed for a random back-off alone.
    pub(super) fn give_back(
        &mut self,
        name: &Name,
        delay: Option<u64>,
        reason: &str,
        due: Option<u64>,
    ) -> Result<&'static str, String> {
        let now = self.now();
        self.block_group(name);
        let msg = &self.messages[name];
        if msg.stored.doomed {
            self.end_leased(name, "cancelled");
            return Ok("cancelled");
        }
        if msg.is_expired(now) {
            self.end_leased(name, "expired");
            return Ok("expired");
        }
        if msg.stored.max_attempts > 0 && msg.stored.attempt >= msg.stored.max_attempts {
            if !self.succeed(name, "buried") {
                self.kill(name, reason);
            }
            return Ok("buried");
        }
        let chosen = due.ok_or("a message given back is gone")?;
        let (low, high) = delay.map_or_else(|| self.backoff(name.0, msg), |delay| (delay, delay));
        if chosen < now + low || chosen > now + high {
            return Err(format!("given back until {chosen}, not {low} to {high} ms from {now}"));
        }
        if let Some(successor) = self.successor_of(name) {
            let stored = &mut self.messages.get_mut(name).unwrap().stored;
            *stored = Envelope { blocks: stored.blocks, ..successor };
            self.book("replaced", name.0);
            self.book("accepted", name.0);
        }
        self.put_to(name, chosen);
        Ok(self.messages[name].word())
    }

    /// The range of delays before the next attempt, by the message's back-off, else its topic's, else
    /// delayq's default. An invalid back-off counts as missing.
    fn backoff(&self, no: u32, msg: &Msg) -> (u64, u64) {
        let of_topic = || self.setting(no, "backoff").and_then(written).unwrap_or((2, vec![1000, 600_000]));
        let (kind, delays) = msg.stored.backoff.as_ref().map_or_else(of_topic, parts);
        let step = usize::from(msg.stored.attempt.max(1));
        if kind == 2 {
            let whole = delays[1].min(delays[0] << (step - 1).min(32));
            return (whole / 2, whole);
        }
        let delay = delays[step.min(delays.len()) - 1];
        (delay, delay)
    }

    pub(super) fn replay(&mut self, name: &Name, delay: u64) -> String {
        let Some(msg) = self.messages.get(name) else { return "unknown".into() };
        if msg.place != Place::Dead {
            return format!("not dead {}", msg.word());
        }
        let due = self.now() + delay;
        if self.expiry_at(name, due).is_some_and(|expires| expires <= due) {
            return "refused expiry not after the due time".into();
        }
        let msg = self.messages.get_mut(name).unwrap();
        (msg.stored.attempt, msg.stored.doomed, msg.stored.reason) = (0, false, None);
        self.move_to(name, due);
        format!("{} {due}", self.messages[name].word())
    }
}

fn parts(backoff: &Backoff) -> Delays {
    let ms = |delay: &Duration| delay.as_millis() as u64;
    match backoff {
        Backoff::Fixed(delay) => (1, vec![ms(delay)]),
        Backoff::Exponential { first, longest } => (2, vec![ms(first), ms(longest)]),
        Backoff::List(delays) => (3, delays.iter().map(ms).collect()),
    }
}

fn written(bytes: &[u8]) -> Option<Delays> {
    let (kind, rest) = bytes.split_first()?;
    let (delays, rest) = rest.as_chunks::<4>();
    let delays: Vec<u64> = delays.iter().map(|ms| u64::from(u32::from_be_bytes(*ms))).collect();
    let right = match kind {
        1 => delays.len() == 1,
        2 => delays.len() == 2 && delays[0] <= delays[1],
        3 => (1..=32).contains(&delays.len()),
        _ => false,
    };
    (right && rest.is_empty() && !delays.contains(&0)).then_some((*kind, delays))
}
