//! Gathering: waiting items of one key share a call, while calls of that key are in flight.
//!
//! ```text
//! items ─by key─► queues ─┬─ a key without a call in flight ─► the next pipeline ─► answered
//!                         └─ any other key ─► waits for the end of that call
//! ```
//! A lone item is therefore sent at once, and many callers reach the throughput of batches, across any number of
//! shards.
//!
//! Callers that were answered together come back together. If all items went into one pipeline, Redis and the callers
//! would work alternately. With nothing in flight, half of the items are therefore sent first, and the other half right
//! behind.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use tokio::sync::mpsc;

/// Minimum number of waiting items to split into two pipelines: with fewer items, the extra calls cost more than the
/// overlap gains.
const CUT: usize = 16;

pub(crate) struct Gathering {
    pub(crate) max_items: usize,
    /// Maximum bytes, which only a single item may exceed.
    pub(crate) max_bytes: usize,
    pub(crate) in_flight: usize,
}

pub(crate) trait Gathered {
    /// Items of one key share a call.
    type Key: Copy + Eq + Hash;

    fn key(&self) -> Self::Key;

    fn bytes(&self) -> usize;
}

struct Queues<T: Gathered> {
    queues: HashMap<T::Key, Queue<T>>,
    /// The keys with waiting items, the longest waiting key first.
    order: VecDeque<T::Key>,
}

struct Queue<T> {
    waiting: VecDeque<T>,
    under_way: usize,
}

struct Batch<T: Gathered> {
    items: Vec<T>,
    bytes: usize,
    keys: Vec<T::Key>,
}

// === impl Gathering ===

impl Gathering {
    /// Ends when no caller can add to the queue any more and every item is sent. Items come one or several at a time.
    pub(crate) async fn run<T, I, F>(self, mut queue: mpsc::UnboundedReceiver<I>, send: impl Fn(Vec<T>) -> F)
    where
        T: Gathered,
        I: IntoIterator<Item = T>,
        F: Future<Output = ()>,
    {
        let send = |batch: Batch<T>| {
            let sent = send(batch.items);
            async {
                sent.await;
                batch.keys
            }
        };
        let (mut under_way, mut queues, mut open) = (FuturesUnordered::new(), Queues::default(), true);
        loop {
            if queues.may_go(under_way.len(), self.in_flight) {
                // Callers that were answered just now often have the next item at once.
                tokio::task::yield_now().await;
                queues.fill(&mut queue);
                let share = self.share(&queues, under_way.len());
                under_way.push(send(queues.take(&self, share)));
            }
            let more = queues.may_go(under_way.len(), self.in_flight);
            tokio::select! {
                biased;
                Some(keys) = under_way.next(), if !under_way.is_empty() => queues.ended(&keys),
                () = std::future::ready(()), if more => {}
                items = queue.recv(), if open => match items {
                    Some(items) => queues.extend(items),
                    None => open = false,
                },
                else => return,
            }
            queues.fill(&mut queue);
        }
    }

    /// Half of all items for the first of several pipelines, so that the callers of one half work while Redis
    /// carries out the other half.
    fn share<T: Gathered>(&self, queues: &Queues<T>, under_way: usize) -> usize {
        let waiting = queues.waiting();
        let is_cut = under_way == 0 && self.in_flight > 1 && waiting >= CUT;
        if is_cut { waiting.div_ceil(2) } else { usize::MAX }
    }
}

// === impl Queues ===

impl<T: Gathered> Default for Queues<T> {
    fn default() -> Self {
        Self { queues: HashMap::new(), order: VecDeque::new() }
    }
}

impl<T: Gathered> Queues<T> {
    fn push(&mut self, item: T) {
        let key = item.key();
        let queue =
            self.queues.entry(key).or_insert_with(|| Queue { waiting: VecDeque::new(), under_way: 0 });
        if queue.waiting.is_empty() {
            self.order.push_back(key);
        }
        queue.waiting.push_back(item);
    }

    fn extend(&mut self, items: impl IntoIterator<Item = T>) {
        items.into_iter().for_each(|item| self.push(item));
    }

    fn fill(&mut self, queue: &mut mpsc::UnboundedReceiver<impl IntoIterator<Item = T>>) {
        while let Ok(items) = queue.try_recv() {
            self.extend(items);
        }
    }

    /// True if another of `in_flight` pipelines may be sent: an item waits for a key that may have a call.
    fn may_go(&self, under_way: usize, in_flight: usize) -> bool {
        let each = self.each(in_flight);
        under_way < in_flight && self.order.iter().any(|key| self.queues[key].under_way < each)
    }

    /// Maximum calls of one key in flight: 1 with many keys; with few keys, enough to keep every pipeline in use.
    fn each(&self, in_flight: usize) -> usize {
        (in_flight / self.queues.len().max(1)).max(1)
    }

    fn waiting(&self) -> usize {
        self.order.iter().map(|key| self.queues[key].waiting.len()).sum()
    }

    /// Takes the items of the next pipeline: all waiting items of keys that may have a call, as far as the limits
    /// allow, or only of some keys once these make up the share. A key is not split if its items have to wait for the
    /// end of a call.
    fn take(&mut self, limits: &Gathering, share: usize) -> Batch<T> {
        let each = self.each(limits.in_flight);
        let max_items = if each > 1 { limits.max_items.min(share) } else { limits.max_items };
        let mut batch = Batch { items: Vec::new(), bytes: 0, keys: Vec::new() };
        // One full round keeps the order.
        for _ in 0..self.order.len() {
            let Some(key) = self.order.pop_front() else { break };
            let queue = self.queues.get_mut(&key).expect("a waiting item has a queue");
            let may_go = queue.under_way < each && batch.items.len() < share;
            if may_go && batch.fill(max_items, limits.max_bytes, &mut queue.waiting) {
                queue.under_way += 1;
                batch.keys.push(key);
            }
            if !queue.waiting.is_empty() {
                self.order.push_back(key);
            }
        }
        batch
    }

    /// Notes that a pipeline with calls of these keys was sent, and is answered or continues without the queue.
    fn ended(&mut self, keys: &[T::Key]) {
        for key in keys {
            let queue = self.queues.get_mut(key).expect("an item in flight has a queue");
            queue.under_way -= 1;
            if queue.under_way == 0 && queue.waiting.is_empty() {
                self.queues.remove(key);
            }
        }
    }
}

// === impl Batch ===

impl<T: Gathered> Batch<T> {
    /// True if there was room for any item.
    fn fill(&mut self, max_items: usize, max_bytes: usize, waiting: &mut VecDeque<T>) -> bool {
        let before = self.items.len();
        while let Some(item) = waiting.front() {
            let bytes = self.bytes + item.bytes();
            if self.items.len() == max_items || !self.items.is_empty() && bytes > max_bytes {
                break;
            }
            self.bytes = bytes;
            self.items.extend(waiting.pop_front());
        }
        self.items.len() > before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Semaphore;

    /// An item: key, number, bytes.
    type Item = (char, u32, usize);

    impl Gathered for Item {
        type Key = char;

        fn key(&self) -> char {
            self.0
        }

        fn bytes(&self) -> usize {
            self.2
        }
    }

    fn gathering(in_flight: usize) -> Gathering {
        Gathering { max_items: 3, max_bytes: 10, in_flight }
    }

    /// The consecutive pipelines in which these items are sent.
    async fn pipelines(items: &[Item]) -> Vec<Vec<Item>> {
        let (queue, waiting) = mpsc::unbounded_channel();
        items.iter().for_each(|&item| queue.send([item]).expect("the receiver is there"));
        drop(queue);
        let sent = Mutex::new(Vec::new());
        let send = async |batch: Vec<Item>| {
            tokio::task::yield_now().await;
            sent.lock().expect("no code panics while holding the lock").push(batch);
        };
        gathering(1).run(waiting, send).await;
        sent.into_inner().expect("no code panics while holding the lock")
    }

    fn sizes(pipelines: &[Vec<Item>]) -> Vec<Vec<usize>> {
        pipelines.iter().map(|batch| batch.iter().map(|item| item.2).collect()).collect()
    }

    #[tokio::test]
    async fn a_pipeline_takes_no_more_than_its_count_and_its_bytes_and_an_item_that_is_larger_goes_alone() {
        let of = |sizes: &[usize]| -> Vec<Item> { sizes.iter().map(|&size| ('a', 0, size)).collect() };
        assert_eq!(sizes(&pipelines(&of(&[1, 1, 1, 1])).await), [vec![1, 1, 1], vec![1]]);
        assert_eq!(sizes(&pipelines(&of(&[6, 4, 1, 10])).await), [vec![6, 4], vec![1], vec![10]]);
        assert_eq!(sizes(&pipelines(&of(&[50, 1, 50, 50])).await), [vec![50], vec![1], vec![50], vec![50]]);
    }

    #[tokio::test]
    async fn a_pipeline_has_the_items_of_several_keys_those_of_one_key_together_and_in_order() {
        let pipelines = pipelines(&[('a', 1, 1), ('b', 2, 1), ('a', 3, 1), ('b', 4, 1)]).await;
        assert_eq!(pipelines, [vec![('a', 1, 1), ('a', 3, 1), ('b', 2, 1)], vec![('b', 4, 1)]]);
    }

    /// The test decides when each pipeline ends.
    struct Stage {
        sent: Mutex<Vec<Vec<Item>>>,
        count: AtomicUsize,
        may_end: HashMap<char, Semaphore>,
    }

    impl Stage {
        fn new() -> Self {
            let may_end = "abcdef".chars().map(|key| (key, Semaphore::new(0))).collect();
            Self { sent: Mutex::default(), count: AtomicUsize::new(0), may_end }
        }

        async fn send(&self, batch: Vec<Item>) {
            let key = batch[0].0;
            self.sent.lock().expect("no code panics while holding the lock").push(batch);
            self.count.fetch_add(1, Ordering::Relaxed);
            self.may_end[&key].acquire().await.expect("it is never closed").forget();
        }

        async fn sent(&self, count: usize) -> Vec<Item> {
            while self.count.load(Ordering::Relaxed) < count {
                tokio::task::yield_now().await;
            }
            self.sent.lock().expect("no code panics while holding the lock")[count - 1].clone()
        }
    }

    #[tokio::test]
    async fn a_lone_item_goes_at_once_though_pipelines_of_other_keys_are_not_answered() {
        let (stage, (queue, waiting)) = (Stage::new(), mpsc::unbounded_channel());
        let test = async {
            for (n, key) in ['a', 'b', 'c'].into_iter().enumerate() {
                queue.send([(key, 0, 1)]).expect("the gathering runs");
                assert_eq!(stage.sent(n + 1).await, [(key, 0, 1)]);
            }
        };
        tokio::select! {
            () = test => {}
            () = gathering(4).run(waiting, |batch| stage.send(batch)) => panic!("it ended"),
        }
    }

    #[tokio::test]
    async fn what_comes_for_a_key_while_its_call_is_under_way_goes_together_and_others_do_not_wait_for_it() {
        let (stage, (queue, waiting)) = (Stage::new(), mpsc::unbounded_channel());
        let test = async {
            let put = |item| queue.send([item]).expect("the gathering runs");
            for (n, key) in ['a', 'b', 'c'].into_iter().enumerate() {
                put((key, 0, 1));
                stage.sent(n + 1).await;
            }
            put(('a', 1, 1));
            put(('a', 2, 1));
            put(('d', 3, 1));
            assert_eq!(stage.sent(4).await, [('d', 3, 1)]);
            stage.may_end[&'a'].add_permits(1);
            assert_eq!(stage.sent(5).await, [('a', 1, 1), ('a', 2, 1)]);
        };
        tokio::select! {
            () = test => {}
            () = gathering(4).run(waiting, |batch| stage.send(batch)) => panic!("it ended"),
        }
    }

    #[tokio::test]
    async fn calls_of_a_single_key_use_every_pipeline() {
        let (stage, (queue, waiting)) = (Stage::new(), mpsc::unbounded_channel());
        let test = async {
            for n in 0..4 {
                queue.send([('a', n, 1)]).expect("the gathering runs");
                stage.sent(n as usize + 1).await;
            }
        };
        tokio::select! {
            () = test => {}
            () = gathering(4).run(waiting, |batch| stage.send(batch)) => panic!("it ended"),
        }
    }

    /// The keys and sizes of the pipelines for this many items of each key that wait together.
    async fn cut(keys: &[char], each: u32, in_flight: usize) -> Vec<Vec<(char, usize)>> {
        let (queue, waiting) = mpsc::unbounded_channel();
        queue
            .send((0..each).flat_map(|n| keys.iter().map(move |&key| (key, n, 1))).collect::<Vec<Item>>())
            .expect("the receiver is there");
        drop(queue);
        let sent = Mutex::new(Vec::new());
        let send = async |batch: Vec<Item>| {
            sent.lock().expect("no code panics while holding the lock").push(batch);
            tokio::task::yield_now().await;
        };
        Gathering { max_items: 1000, max_bytes: 1000, ..gathering(in_flight) }.run(waiting, send).await;
        let of = |batch: Vec<Item>| {
            batch.chunk_by(|a, b| a.0 == b.0).map(|some| (some[0].0, some.len())).collect()
        };
        sent.into_inner().expect("no code panics while holding the lock").into_iter().map(of).collect()
    }

    #[tokio::test]
    async fn what_waits_together_goes_in_two_halves_each_with_all_that_its_keys_have() {
        let halves = [vec![('a', 8), ('b', 8)], vec![('c', 8), ('d', 8)]];
        assert_eq!(cut(&['a', 'b', 'c', 'd'], 8, 4).await, halves);
        assert_eq!(cut(&['a', 'b', 'c'], 8, 4).await, [vec![('a', 8), ('b', 8)], vec![('c', 8)]]);
        assert_eq!(
            cut(&['a'], 16, 4).await,
            [vec![('a', 8)], vec![('a', 8)]],
            "calls of one key, side by side"
        );
        assert_eq!(cut(&['a', 'b'], 7, 4).await, [vec![('a', 7), ('b', 7)]], "few");
        assert_eq!(cut(&['a', 'b'], 8, 1).await, [vec![('a', 8), ('b', 8)]], "one at a time");
    }
}
