//! Connection slots: a new connection always gets a slot, at the cost of the address with the most connections.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::AbortHandle;

#[derive(Clone, Debug)]
pub(super) struct Slots {
    max: usize,
    /// Oldest first.
    open: Arc<Mutex<Vec<ClientSlot>>>,
    connections: Gauge,
    closed: Counter,
}

#[derive(Debug)]
struct ClientSlot {
    number: u64,
    from: IpAddr,
    task: AbortHandle,
}

// === impl Slots ===

impl Slots {
    pub(super) fn new(max: usize, connections: Gauge, closed: Counter) -> Self {
        Self { max, open: Arc::default(), connections, closed }
    }

    /// Serves a connection in its own task. If no slot is free, closes the oldest connection of the address with the
    /// most, so that a client that fills all slots cannot keep other clients out.
    pub(super) fn occupy(
        &self,
        number: u64,
        from: IpAddr,
        connection: impl Future<Output = ()> + Send + 'static,
    ) {
        let mut open = self.lock();
        if open.len() >= self.max {
            let oldest = to_close(&open);
            let closed = open.remove(oldest);
            closed.task.abort();
            self.closed.inc();
            tracing::debug!(from = %closed.from, "too many connections to the admin endpoint: closed the oldest");
        }
        let slots = self.clone();
        let task = tokio::spawn(async move {
            connection.await;
            slots.release(number);
        });
        open.push(ClientSlot { number, from, task: task.abort_handle() });
        self.show(&open);
    }

    fn release(&self, number: u64) {
        let mut open = self.lock();
        open.retain(|open| open.number != number);
        self.show(&open);
    }

    fn show(&self, open: &[ClientSlot]) {
        self.connections.set(i64::try_from(open.len()).unwrap_or(i64::MAX));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ClientSlot>> {
        // A panic under the lock leaves the list unchanged or complete.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The oldest connection of the address with the most; of two such addresses, the earlier.
fn to_close(open: &[ClientSlot]) -> usize {
    let held = |from: IpAddr| open.iter().filter(|other| other.from == from).count();
    let most = open.iter().map(|open| held(open.from)).max().unwrap_or(0);
    open.iter().position(|open| held(open.from) == most).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_address_that_holds_the_most_loses_its_oldest() {
        let task = tokio::spawn(async {}).abort_handle();
        for (open, closed) in [("a", 0), ("abb", 1), ("abab", 0), ("cabbb", 2)] {
            let address = |c: char| IpAddr::from([127, 0, 0, u8::try_from(c).unwrap()]);
            let open = open.chars().map(|c| ClientSlot { number: 0, from: address(c), task: task.clone() });
            assert_eq!(to_close(&open.collect::<Vec<_>>()), closed);
        }
    }
}
