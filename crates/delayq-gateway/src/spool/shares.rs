//! How much of the spool each tenant takes.
//!
//! Counted are the bytes that this gateway appended since the spool was empty last: the compensator, a process of its own, says
//! no more. So a share is free again once everything has left the spool.

use crate::tenant::Tenant;
use delayq::spool::{GroupRecord, SpoolAction, SpoolRecord};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A tenant takes at most this part of the spool, and up to twice as much behind what waits of the same message.
const PART: u64 = 4;
/// Approximate bytes of a record besides payload and headers.
const HEAD_BYTES: usize = 256;

#[derive(Debug)]
pub(super) struct Shares {
    most: u64,
    /// The bytes by the name of the tenant.
    taken: Mutex<HashMap<String, u64>>,
}

/// What a call appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Anywhere,
    /// Only where something of the same message or group waits.
    Behind,
}

// === impl Shares ===

impl Shares {
    pub(super) fn of(max_bytes: u64) -> Self {
        Self { most: max_bytes / PART, taken: Mutex::default() }
    }

    pub(super) const fn most(&self) -> u64 {
        self.most
    }

    /// From now on, what begins with the prefix of the tenant counts.
    pub(super) fn know(&self, tenant: &Tenant) {
        let mut taken = self.taken();
        if !taken.contains_key(tenant.name()) {
            taken.insert(tenant.name().to_owned(), 0);
        }
    }

    /// Everything has left the spool.
    pub(super) fn reset(&self) {
        self.taken().values_mut().for_each(|bytes| *bytes = 0);
    }

    /// Takes room for a record of this name, a topic or a group. `Err`: the share is used up.
    pub(super) fn take(&self, name: &str, bytes: u64, place: Place) -> Result<(), ()> {
        let most = if place == Place::Behind { 2 * self.most } else { self.most };
        match owner(&mut self.taken(), name) {
            Some(taken) if *taken + bytes > most => Err(()),
            Some(taken) => {
                *taken += bytes;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Gives room back that was not needed.
    pub(super) fn give_back(&self, name: &str, bytes: u64) {
        if let Some(taken) = owner(&mut self.taken(), name) {
            *taken = taken.saturating_sub(bytes);
        }
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn owner<'t>(taken: &'t mut HashMap<String, u64>, name: &str) -> Option<&'t mut u64> {
    taken.get_mut(name.split_once('/')?.0)
}

pub(super) fn bytes_of(record: &SpoolRecord) -> u64 {
    let content = match &record.action {
        SpoolAction::Put(message) => {
            let headers = message.headers.iter().map(|(name, value)| name.len() + value.len());
            message.payload.len() + headers.sum::<usize>()
        }
        _ => 0,
    };
    (HEAD_BYTES + content) as u64
}

/// The name by which a change of a group belongs to a tenant.
pub(super) fn name_of(record: &GroupRecord) -> &str {
    record.topic.as_ref().map_or(record.group.as_str(), |topic| topic.as_str())
}

pub(super) const OF_A_GROUP: u64 = HEAD_BYTES as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_takes_its_part_alone_and_twice_as_much_behind_what_waits() {
        let (shares, acme) = (Shares::of(400), "acme".parse().unwrap());
        assert_eq!(shares.take("acme/orders", 1_000, Place::Anywhere), Ok(()), "nobody is limited yet");
        shares.know(&acme);
        assert_eq!(shares.take("acme/orders", 80, Place::Anywhere), Ok(()));
        assert_eq!(shares.take("acme/mails", 30, Place::Anywhere), Err(()));
        assert_eq!(shares.take("acme/mails", 30, Place::Behind), Ok(()));
        assert_eq!(shares.take("acme/mails", 91, Place::Behind), Err(()));
        for other in ["orders", "globex/orders", "acme2/orders", "acme"] {
            assert_eq!(shares.take(other, 1_000, Place::Anywhere), Ok(()), "{other}");
        }
        shares.give_back("acme/orders", 80);
        assert_eq!(shares.take("acme/orders", 70, Place::Anywhere), Ok(()));
        shares.reset();
        assert_eq!(shares.take("acme/orders", 100, Place::Anywhere), Ok(()));
    }
}
