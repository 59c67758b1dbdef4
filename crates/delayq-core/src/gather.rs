//! Gathering: while one call is under way, what comes in goes together into the next.

use futures_util::{StreamExt, stream::FuturesUnordered};
use std::time::Duration;
use tokio::sync::mpsc;

/// How much is gathered for one call, and how many calls are under way at once.
pub(crate) struct Gathering {
    pub(crate) most: usize,
    pub(crate) in_flight: usize,
    pub(crate) linger: Duration,
}

// === impl Gathering ===

impl Gathering {
    /// Hands what comes in to `send`, until nobody can add to the queue any more and all is answered.
    pub(crate) async fn run<T, F>(self, mut queue: mpsc::Receiver<T>, send: impl Fn(Vec<T>) -> F)
    where
        F: Future<Output = ()>,
    {
        let mut under_way = FuturesUnordered::new();
        loop {
            let mut gathered = Vec::new();
            tokio::select! {
                biased;
                Some(()) = under_way.next(), if !under_way.is_empty() => continue,
                count = queue.recv_many(&mut gathered, self.most), if under_way.len() < self.in_flight => {
                    if count == 0 {
                        break;
                    }
                }
            }
            if gathered.len() < self.most {
                self.wait_for_more().await;
                while gathered.len() < self.most
                    && let Ok(one) = queue.try_recv()
                {
                    gathered.push(one);
                }
            }
            under_way.push(send(gathered));
        }
        while under_way.next().await.is_some() {}
    }

    /// Lets those come that go along: for so long as is set, or else those that can run already. Who was answered just now
    /// often has the next one at once.
    async fn wait_for_more(&self) {
        if self.linger.is_zero() {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(self.linger).await;
        }
    }
}
