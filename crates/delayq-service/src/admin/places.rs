//! The places for connections: a newcomer always gets one, at the cost of whoever holds the most.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::AbortHandle;

/// The connections that are open, at most so many.
#[derive(Clone, Debug)]
pub(super) struct Places {
    most: usize,
    /// Oldest first.
    open: Arc<Mutex<Vec<Open>>>,
    connections: Gauge,
    closed: Counter,
}

#[derive(Debug)]
struct Open {
    number: u64,
    from: IpAddr,
    task: AbortHandle,
}

// === impl Places ===

impl Places {
    pub(super) fn new(most: usize, connections: Gauge, closed: Counter) -> Self {
        Self { most, open: Arc::default(), connections, closed }
    }

    /// Answers a connection in a task of its own. Where all places are taken, the oldest connection of the address that
    /// holds the most is closed: whoever fills them all, on purpose or by mistake, keeps nobody else out.
    pub(super) fn take(
        &self,
        number: u64,
        from: IpAddr,
        connection: impl Future<Output = ()> + Send + 'static,
    ) {
        let mut open = self.lock();
        if open.len() >= self.most {
            let oldest = to_close(&open);
            let closed = open.remove(oldest);
            closed.task.abort();
            self.closed.inc();
            tracing::debug!(from = %closed.from, "too many connections to the admin endpoint: closed the oldest");
        }
        let places = self.clone();
        let task = tokio::spawn(async move {
            connection.await;
            places.give_back(number);
        });
        open.push(Open { number, from, task: task.abort_handle() });
        self.show(&open);
    }

    fn give_back(&self, number: u64) {
        let mut open = self.lock();
        open.retain(|open| open.number != number);
        self.show(&open);
    }

    fn show(&self, open: &[Open]) {
        self.connections.set(i64::try_from(open.len()).unwrap_or(i64::MAX));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Open>> {
        // A panic under the lock leaves the list as it was or complete.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The oldest connection of the address with the most; of two such addresses, the one that came first.
fn to_close(open: &[Open]) -> usize {
    let held = |from: IpAddr| open.iter().filter(|other| other.from == from).count();
    let most = open.iter().map(|open| held(open.from)).max().unwrap_or(0);
    open.iter().position(|open| held(open.from) == most).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_holds_the_most_gives_its_oldest() {
        let task = tokio::spawn(async {}).abort_handle();
        for (open, closed) in [("a", 0), ("abb", 1), ("abab", 0), ("cabbb", 2)] {
            let address = |c: char| IpAddr::from([127, 0, 0, u8::try_from(c).unwrap()]);
            let open = open.chars().map(|c| Open { number: 0, from: address(c), task: task.clone() });
            assert_eq!(to_close(&open.collect::<Vec<_>>()), closed);
        }
    }
}
