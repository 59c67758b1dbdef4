//! The notes of operations: two slots for running operations, and a note for each ended operation.

use super::state::{Operation, Phase};
use crate::tenant::Tenant;
use delayq::admin::NoteVersion;
use delayq::{Admin, Error, UnixMillis};
use std::collections::HashMap;
use std::time::Duration;

/// Operations at a time, without a tenant.
pub(crate) const SLOTS: [&str; 2] = ["slot/0", "slot/1"];
/// Operations of tenants at a time: one of each tenant.
pub(crate) const TENANT_SLOTS: [&str; 4] = ["slot/2", "slot/3", "slot/4", "slot/5"];
/// Retention of ended operations.
const KEPT_FOR: Duration = Duration::from_hours(7 * 24);
const MAX_KEPT: usize = 100;

#[derive(Clone)]
pub(crate) struct Store(Admin);

pub(crate) enum Begun {
    InSlot,
    /// As many operations as may run are under way.
    Full,
}

pub(crate) enum Saved {
    /// Under this version, at this time on the clock of Redis.
    Yes(u64, UnixMillis),
    /// Another process replaced the note.
    Other(Option<Box<Operation>>, u64),
}

// === impl Store ===

impl Store {
    pub(crate) fn new(admin: Admin) -> Self {
        Self(admin)
    }

    pub(crate) async fn begin(&self, operation: &Operation) -> Result<Begun, Error> {
        let text = text_of(operation);
        let slots = match &operation.order.tenant {
            None => &SLOTS[..],
            Some(tenant) if self.is_under_way(tenant).await? => &[],
            Some(_) => &TENANT_SLOTS,
        };
        for slot in slots {
            if self.0.operations().swap_note(slot, 0, &text).await?.swapped {
                return Ok(Begun::InSlot);
            }
        }
        Ok(Begun::Full)
    }

    async fn is_under_way(&self, tenant: &Tenant) -> Result<bool, Error> {
        for slot in TENANT_SLOTS {
            let found = self.in_slot(slot).await?;
            if found.is_some_and(|(_, operation)| operation.order.tenant.as_ref() == Some(tenant)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The operation in a slot, with the version of the note.
    pub(crate) async fn in_slot(&self, slot: &str) -> Result<Option<(u64, Operation)>, Error> {
        let found = self.0.operations().note(slot).await?;
        Ok(found.and_then(|(version, text)| Some((version, operation_of(&text)?))))
    }

    pub(crate) async fn save(&self, slot: &str, version: u64, operation: &Operation) -> Result<Saved, Error> {
        let text = text_of(operation);
        let NoteVersion { swapped, now, version: found, text: stored } =
            self.0.operations().swap_note(slot, version, &text).await?;
        // A save of unknown fate was made.
        let is_saved = swapped || stored == text;
        Ok(if is_saved {
            Saved::Yes(found, now)
        } else {
            Saved::Other(operation_of(&stored).map(Box::new), found)
        })
    }

    /// Keeps an ended operation, and frees its slot. Safe to repeat.
    pub(crate) async fn archive(&self, slot: &str, version: u64, operation: &Operation) -> Result<(), Error> {
        self.0.operations().swap_note(&operation.id, 0, &text_of(operation)).await?;
        self.0.operations().swap_note(slot, version, "").await?;
        self.prune(operation.ended_ms().unwrap_or_default()).await
    }

    /// Every operation, the latest first.
    pub(crate) async fn all(&self) -> Result<Vec<Operation>, Error> {
        let notes = self.0.operations().notes().await?;
        let mut all: Vec<Operation> =
            notes.into_values().filter_map(|(_, text)| operation_of(&text)).collect();
        all.sort_by(|one, other| (other.began_ms, &other.id).cmp(&(one.began_ms, &one.id)));
        // On the way out of a slot, an operation has two notes.
        all.dedup_by(|one, other| one.id == other.id);
        Ok(all)
    }

    pub(crate) async fn get(&self, id: &str) -> Result<Option<Operation>, Error> {
        for slot in all_slots() {
            if let Some((_, operation)) =
                self.in_slot(slot).await?.filter(|(_, operation)| operation.id == id)
            {
                return Ok(Some(operation));
            }
        }
        let kept = self.0.operations().note(id).await?;
        Ok(kept.and_then(|(_, text)| operation_of(&text)).filter(|operation| operation.id == id))
    }

    /// Asks the holder to end an operation. Returns the operation; `None`: there is none.
    pub(crate) async fn abort(&self, id: &str, by: Option<&str>) -> Result<Option<Operation>, Error> {
        for slot in all_slots() {
            while let Some((version, mut operation)) =
                self.in_slot(slot).await?.filter(|(_, one)| one.id == id)
            {
                if operation.phase.is_over() || operation.phase == Phase::Aborting {
                    return Ok(Some(operation));
                }
                operation.abort(by);
                if let Saved::Yes(..) = self.save(slot, version, &operation).await? {
                    return Ok(Some(operation));
                }
            }
        }
        self.get(id).await
    }

    /// No tenant displaces the operations of another.
    async fn prune(&self, now_ms: u64) -> Result<(), Error> {
        let mut kept = HashMap::<Option<Tenant>, usize>::new();
        for operation in self.all().await? {
            let Some(at) = operation.ended_ms() else { continue };
            let kept = kept.entry(operation.order.tenant).or_default();
            *kept += 1;
            if *kept > MAX_KEPT || at.saturating_add(KEPT_FOR.as_millis() as u64) <= now_ms {
                self.0.operations().swap_note(&operation.id, 1, "").await?;
            }
        }
        Ok(())
    }
}

pub(super) fn all_slots() -> impl Iterator<Item = &'static str> {
    SLOTS.into_iter().chain(TENANT_SLOTS)
}

fn text_of(operation: &Operation) -> String {
    serde_json::to_string(operation).expect("an operation is text and numbers")
}

/// `None` if the note is of another version of the gateway.
fn operation_of(text: &str) -> Option<Operation> {
    serde_json::from_str(text).ok()
}
