//! Gathering: while one call is under way, what comes in goes together into the next.

use futures_util::{StreamExt, stream::FuturesUnordered};
use std::time::Duration;
use tokio::sync::mpsc;

/// How much is gathered for one call, and how many calls are under way at once.
pub(crate) struct Gathering {
    pub(crate) most: usize,
    /// Bytes, which only a single one may exceed.
    pub(crate) most_bytes: usize,
    pub(crate) in_flight: usize,
    pub(crate) linger: Duration,
}

/// What is gathered by its size.
pub(crate) trait Weighed {
    /// About how many bytes it takes in a call.
    fn bytes(&self) -> usize;
}

/// What was gathered, and what came behind it that does not fit.
struct Batch<T> {
    items: Vec<T>,
    bytes: usize,
    over: Option<T>,
}

// === impl Gathering ===

impl Gathering {
    /// Hands what comes in to `send`, until nobody can add to the queue any more and all is answered.
    pub(crate) async fn run<T: Weighed, F>(self, mut queue: mpsc::Receiver<T>, send: impl Fn(Vec<T>) -> F)
    where
        F: Future<Output = ()>,
    {
        let mut under_way = FuturesUnordered::new();
        let mut over = None;
        loop {
            let mut batch = Batch { items: Vec::new(), bytes: 0, over: None };
            if let Some(first) = over.take() {
                batch.push(first);
            }
            tokio::select! {
                biased;
                Some(()) = under_way.next(), if !under_way.is_empty() => {
                    over = batch.items.pop();
                    continue;
                }
                () = std::future::ready(()), if !batch.items.is_empty() && under_way.len() < self.in_flight => {}
                one = queue.recv(), if batch.items.is_empty() && under_way.len() < self.in_flight => match one {
                    Some(one) => batch.push(one),
                    None => break,
                },
            }
            self.fill(&mut batch, &mut queue);
            if batch.over.is_none() && batch.items.len() < self.most {
                self.wait_for_more().await;
                self.fill(&mut batch, &mut queue);
            }
            over = batch.over;
            under_way.push(send(batch.items));
        }
        while under_way.next().await.is_some() {}
    }

    /// Takes what waits, as far as it goes into one call.
    fn fill<T: Weighed>(&self, batch: &mut Batch<T>, queue: &mut mpsc::Receiver<T>) {
        while batch.over.is_none()
            && batch.items.len() < self.most
            && let Ok(one) = queue.try_recv()
        {
            if batch.bytes + one.bytes() > self.most_bytes {
                batch.over = Some(one);
            } else {
                batch.push(one);
            }
        }
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

// === impl Batch ===

impl<T: Weighed> Batch<T> {
    fn push(&mut self, one: T) {
        self.bytes += one.bytes();
        self.items.push(one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    impl Weighed for usize {
        fn bytes(&self) -> usize {
            *self
        }
    }

    async fn batches(sizes: &[usize]) -> Vec<Vec<usize>> {
        let (queue, waiting) = mpsc::channel(sizes.len());
        for &size in sizes {
            queue.try_send(size).expect("there is room for all");
        }
        drop(queue);
        let sent = Mutex::new(Vec::new());
        let gathering = Gathering { most: 3, most_bytes: 10, in_flight: 1, linger: Duration::ZERO };
        let send = async |batch| {
            tokio::task::yield_now().await;
            sent.lock().expect("nothing panics while it holds this").push(batch);
        };
        gathering.run(waiting, send).await;
        sent.into_inner().expect("nothing panics while it holds this")
    }

    #[tokio::test]
    async fn a_call_takes_no_more_than_its_count_and_its_bytes_and_one_that_is_larger_goes_alone() {
        assert_eq!(batches(&[1, 1, 1, 1]).await, [vec![1, 1, 1], vec![1]]);
        assert_eq!(batches(&[6, 4, 1, 10]).await, [vec![6, 4], vec![1], vec![10]]);
        assert_eq!(batches(&[50, 1, 50, 50]).await, [vec![50], vec![1], vec![50], vec![50]]);
    }
}
