//! Turns bound the work that a gateway does for a tenant at a time. Further requests of the tenant wait, and requests of others do not.
//!
//! Work is counted in messages: a single put costs as much as several lines. The bound limits how long the
//! calls of another tenant wait at the processor, and behind the same connection to Redis.

use crate::problem::Problem;
use crate::quotas::{TenantQuotas, UNDER_WAY};
use crate::tenant::Tenant;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// Messages of one call for a tenant: two calls are under way, so Redis need not wait for the gateway.
pub(crate) const STEP: usize = 32;
/// In messages: a request costs the gateway and Redis at least as much as so many lines.
const REQUEST: u32 = 4;
/// In bytes: copying so many costs as much as a message.
const BYTES: usize = 16 * 1024;
/// A refusal may cost no call, so a client repeats at once: the turn of a refused request lasts so long, and that of a call with
/// refused messages as long as if each were such a request.
const REFUSED: Duration = Duration::from_millis(1);

/// The turn of a request. Clones share the turn.
#[derive(Clone)]
pub(crate) struct TenantTurn(Arc<TurnParts>);

struct TurnParts {
    quotas: TenantQuotas,
    tenant: Tenant,
    held: Mutex<Option<OwnedSemaphorePermit>>,
}

// === impl TenantTurn ===

impl TenantTurn {
    /// Waits for the turn of a request.
    ///
    /// # Errors
    /// The requests of the tenant take too long.
    pub(crate) async fn of_request(quotas: &TenantQuotas, tenant: &Tenant) -> Result<Self, Problem> {
        let permit = quotas.turn(tenant, REQUEST).await?;
        let (quotas, tenant) = (quotas.clone(), tenant.clone());
        Ok(Self(Arc::new(TurnParts { quotas, tenant, held: Mutex::new(Some(permit)) })))
    }

    /// Ends the turn while the request waits for the client, or for a message.
    pub(crate) fn pause(&self) {
        drop(self.held().take());
    }

    /// Replaces the held turn by a turn for a body with so many bytes.
    pub(crate) async fn resume(&self, bytes: usize) -> Result<(), Problem> {
        let cost = REQUEST.saturating_add(u32::try_from(bytes / BYTES).unwrap_or(UNDER_WAY));
        self.hold(cost).await
    }

    /// Replaces the held turn by a turn for a call with so many messages.
    pub(crate) async fn step(&self, messages: usize) -> Result<(), Problem> {
        self.hold(cost_of(messages)).await
    }

    /// Waits for the turn of a call that is under way together with others.
    pub(crate) async fn part(&self, messages: usize) -> OwnedSemaphorePermit {
        self.0.quotas.long_turn(&self.0.tenant, cost_of(messages)).await
    }

    /// Ends the turn of a request that was refused.
    pub(crate) fn refused(&self) {
        if let Some(permit) = self.held().take() {
            end_later(permit, REFUSED);
        }
    }

    /// Ends the held turn first, or all requests of the tenant could wait for each other.
    async fn hold(&self, cost: u32) -> Result<(), Problem> {
        let cost = cost.min(UNDER_WAY);
        if self.held().as_ref().is_some_and(|held| held.num_permits() >= cost as usize) {
            return Ok(());
        }
        self.pause();
        let permit = self.0.quotas.turn(&self.0.tenant, cost).await?;
        *self.held() = Some(permit);
        Ok(())
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<OwnedSemaphorePermit>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for TenantTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TenantTurn({})", self.0.tenant)
    }
}

/// Ends the turn of a call, of whose messages so many were refused.
pub(crate) fn end_part(permit: OwnedSemaphorePermit, refused: usize) {
    let after = lasting(permit.num_permits(), refused);
    if !after.is_zero() {
        end_later(permit, after);
    }
}

/// How long a turn with so many permits lasts after the refusals.
fn lasting(permits: usize, refused: usize) -> Duration {
    REFUSED.mul_f64(refused as f64 * f64::from(REQUEST) / permits as f64)
}

fn end_later(permit: OwnedSemaphorePermit, after: Duration) {
    tokio::spawn(async move {
        tokio::time::sleep(after).await;
        drop(permit);
    });
}

fn cost_of(messages: usize) -> u32 {
    u32::try_from(messages).unwrap_or(UNDER_WAY).clamp(REQUEST, UNDER_WAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_message_takes_as_much_of_the_turns_as_a_refused_request() {
        let request = REFUSED * REQUEST;
        for (permits, refused) in [(4, 0), (4, 1), (4, 4), (32, 1), (32, 32)] {
            let taken = lasting(permits, refused) * u32::try_from(permits).unwrap();
            assert_eq!(taken, request * u32::try_from(refused).unwrap(), "{refused} of {permits}");
        }
    }
}
