//! Reserving: the messages to lease, the limits by pause and rate, and the time of the next call.

use super::{Call, Model, Outcome, Place, index_name, ms, same};
use crate::action::Reserve;
use crate::snapshot::{Name, lossy};

struct Allowance {
    messages: u64,
    /// Of a rate: µs between two messages, and the time when its bucket is empty, in µs.
    rate: Option<(f64, f64)>,
}

pub(super) struct Terms {
    pub(super) no: u32,
    pub(super) most: u64,
    max_bytes: u64,
    until: u64,
}

pub(super) enum Verdict {
    Ready(Name),
    /// Dropped or expired.
    Settled,
}

pub(super) struct Tally {
    pub(super) wanted: u64,
    bytes: u64,
    dropped: u64,
    expired: u64,
    wait: Option<u64>,
    at: usize,
}

// === impl Tally ===

impl Tally {
    fn is_full(&self, max_bytes: u64) -> bool {
        max_bytes > 0 && self.bytes >= max_bytes
    }

    /// True if the call may hand out no more.
    pub(super) fn is_spent(&self, terms: &Terms) -> bool {
        self.wanted == 0 || self.is_full(terms.max_bytes)
    }

    pub(super) fn come_back(&mut self, ms: f64) {
        let ms = ms.ceil() as u64;
        self.wait = Some(self.wait.map_or(ms, |wait| wait.min(ms)));
    }
}

// === impl Model ===

impl Model {
    pub(super) fn reserve(&mut self, reserve: &Reserve, call: &Call<'_>) -> Outcome {
        same("now", call.number(0)?, self.now_us)?;
        let mut tally = Tally { wanted: reserve.most, bytes: 0, dropped: 0, expired: 0, wait: None, at: 6 };
        for (place, topic) in reserve.topics.iter().enumerate() {
            let is_over = tally.wanted == 0 || tally.is_full(reserve.max_bytes);
            let Some(no) = self.no(topic).filter(|_| !is_over) else { continue };
            let until = self.now() + reserve.lease.unwrap_or_else(|| self.policy(no, "lease_ms"));
            same("place", call.number(tally.at)?, place as u64 + 1)?;
            same("lease end", call.number(tally.at + 1)?, until)?;
            let told = call.number(tally.at + 2)?;
            tally.at += 3;
            let allowance = self.allowance(no, &mut tally);
            let terms = Terms { no, most: allowance.messages, max_bytes: reserve.max_bytes, until };
            let taken = match self.group_limit(no, call) {
                Some(limit) => self.take_within(limit, &terms, &mut tally, call)?,
                None => self.take(&terms, &mut tally, call)?,
            };
            same("how many", told, taken)?;
            self.charge(no, &allowance, taken, &mut tally);
        }
        if tally.wanted > 0 && tally.is_full(reserve.max_bytes) {
            tally.come_back(0.0);
        }
        same("length", call.answer.len(), tally.at)?;
        let wait = tally.wait.map(|ms| ms.to_string()).unwrap_or_default();
        let numbers = [tally.dropped, tally.expired, 0, 0].map(|n| n.to_string());
        same("wait", &call.words[1], &wait)?;
        same("dropped, expired, buried, newer", &call.words[2..6], &numbers)
    }

    /// A leaky bucket: one message every `1 / rate` s, and a burst of 100 ms, at least one message. Neither
    /// an earlier clock nor an earlier rate fills the bucket further.
    fn allowance(&mut self, no: u32, tally: &mut Tally) -> Allowance {
        if self.setting(no, "paused").is_some() {
            return Allowance { messages: 0, rate: None };
        }
        let Some(rate) = self.setting(no, "rate") else {
            return Allowance { messages: u64::MAX, rate: None };
        };
        let now = self.now_us as f64;
        let interval = 1e6 / lossy(rate).parse::<f64>().unwrap();
        let burst = interval.max(100_000.0);
        let full = now + burst.ceil();
        let mut empty = (self.rates.get(&no).copied().unwrap_or(0) as f64).max(now);
        if empty > full {
            empty = full;
            self.rates.insert(no, full as u64);
        }
        let messages = ((now + burst - empty) / interval + 0.000_001).floor().max(0.0);
        if messages < 1.0 {
            tally.come_back((empty + interval - burst - now) / 1000.0);
        }
        Allowance { messages: messages as u64, rate: Some((interval, empty)) }
    }

    fn charge(&mut self, no: u32, allowance: &Allowance, taken: u64, tally: &mut Tally) {
        let Some((interval, empty)) = allowance.rate.filter(|_| taken > 0) else { return };
        self.rates.insert(no, (empty + taken as f64 * interval).round_ties_even() as u64);
        if taken >= allowance.messages && tally.wanted > 0 {
            tally.come_back(interval / 1000.0);
        }
    }

    fn take(&mut self, terms: &Terms, tally: &mut Tally, call: &Call<'_>) -> Result<u64, String> {
        let mut taken = 0;
        for entry in call.before.ready.get(&terms.no).into_iter().flatten() {
            if taken == terms.most || tally.is_spent(terms) {
                break;
            }
            match self.judge(entry, terms, tally, call) {
                Verdict::Ready(name) => {
                    self.hand_out(&name, entry, terms, (tally, call))?;
                    taken += 1;
                }
                Verdict::Settled => {}
            }
        }
        Ok(taken)
    }

    /// Settles an entry that is not to be leased.
    pub(super) fn judge(
        &mut self,
        entry: &[u8],
        terms: &Terms,
        tally: &mut Tally,
        call: &Call<'_>,
    ) -> Verdict {
        let Some(name) = self.ready_message(terms.no, entry, call.before) else {
            tally.dropped += 1;
            return Verdict::Settled;
        };
        if !self.messages[&name].is_expired(self.now()) {
            return Verdict::Ready(name);
        }
        tally.expired += 1;
        // The message may have blocked a group.
        if self.blocks_groups(terms.no) {
            tally.come_back(0.0);
        }
        self.finish(&name, "expired");
        Verdict::Settled
    }

    /// Returns the receipt.
    pub(super) fn hand_out(
        &mut self,
        name: &Name,
        entry: &[u8],
        terms: &Terms,
        (tally, call): (&mut Tally, &Call<'_>),
    ) -> Result<Vec<u8>, String> {
        let stamp = entry[entry.len() - 7..].iter().fold(0, |n, &byte| n << 8 | u64::from(byte));
        same("ready time", call.number(tally.at)?, stamp)?;
        let [receipt, envelope] = call.answer.get(tally.at + 1..tally.at + 3).ok_or("too few")? else {
            return Err("two parts behind the ready time".into());
        };
        same("envelope", envelope, &call.before.bodies[name])?;
        self.lease(name, receipt, terms.until)?;
        tally.at += 3;
        (tally.wanted, tally.bytes) = (tally.wanted - 1, tally.bytes + envelope.len() as u64);
        Ok(receipt.clone())
    }

    fn lease(&mut self, name: &Name, receipt: &[u8], until: u64) -> Outcome {
        let prefix = index_name(name);
        let (head, _gen) = receipt.split_at(receipt.len().saturating_sub(4));
        same("receipt", head, prefix.as_slice())?;
        let msg = self.messages.get_mut(name).unwrap();
        msg.place = Place::Leased { receipt: receipt.to_vec(), until };
        self.longest_lease = self.longest_lease.max(until - self.now_us / 1000);
        let msg = self.messages.get_mut(name).unwrap();
        msg.stored.at = ms(until);
        msg.stored.delivery += 1;
        msg.stored.attempt += 1;
        Ok(())
    }
}
