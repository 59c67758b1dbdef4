//! The worker against a real Redis: the outcome of a message by its handler, and the messages that a stop gives back.

use delayq::admin::{ListState, TimeRange};
use delayq::worker::{Failure, Job};
use delayq::{Client, Consumer, ConsumerOptions, Error, Message, Settings, Topic, Worker};
use delayq_tests::deadline::{LONG, wait_until, within};
use delayq_tests::deployment::Deployment;
use delayq_tests::redis_server::RedisServer;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

struct Scene {
    deployment: Deployment,
    topic: Topic,
    stopping: CancellationToken,
}

impl Scene {
    async fn new() -> Self {
        let (topic, stopping) = (Topic::new("orders").unwrap(), CancellationToken::new());
        Self { deployment: Deployment::new(2).await, topic, stopping }
    }

    async fn put(&self, count: usize) {
        let message = |n| Message::new(self.topic.clone(), format!("{n}")).max_attempts(1);
        self.deployment.put((0..count).map(message)).await;
    }

    fn worker(&self) -> Worker {
        Worker::new(self.deployment.client.clone())
    }

    fn run(&self, worker: Worker) -> JoinHandle<Result<(), Error>> {
        tokio::spawn(worker.run(self.stopping.clone().cancelled_owned()))
    }

    async fn stop(&self, running: JoinHandle<Result<(), Error>>) {
        self.stopping.cancel();
        within("the worker's end", LONG, running).await.unwrap().unwrap();
    }

    async fn numbers(&self) -> (u64, u64, u64, u64) {
        let numbers = self.deployment.admin.topic(&self.topic).count().await.unwrap();
        (numbers.delivered, numbers.dead, numbers.ready, numbers.leased)
    }

    async fn until(&self, numbers: (u64, u64, u64, u64)) {
        wait_until("the numbers", LONG, async || self.numbers().await == numbers).await;
    }

    async fn reasons(&self) -> Vec<String> {
        let dead = ListState::Dead { newest_first: false };
        let listed = self.deployment.admin.topic(&self.topic).list(dead, TimeRange::ALL, 100).await.unwrap();
        listed.into_iter().map(|listed| listed.envelope.unwrap().reason.unwrap()).collect()
    }

    /// Returns the reason of the death of a message with one attempt.
    async fn death<F>(&self, handler: impl Fn(Job) -> F + Send + Sync + 'static) -> String
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.put(1).await;
        let running = self.run(self.worker().handle(self.topic.clone(), handler));
        self.until((0, 1, 0, 0)).await;
        self.stop(running).await;
        self.reasons().await.remove(0)
    }

    async fn take_first_attempts(&self, count: usize) {
        let options = ConsumerOptions::new([self.topic.clone()]).concurrency(count);
        let mut consumer = Consumer::start(self.deployment.client.clone(), options).unwrap();
        for _ in 0..count {
            let delivery = within("a delivery", LONG, consumer.next()).await.unwrap();
            assert_eq!(delivery.attempt(), 1, "{delivery:?}");
            delivery.ack().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_its_handler_has_handled_is_delivered() {
    let scene = Scene::new().await;
    scene.put(100).await;
    let running = scene.run(scene.worker().handle(scene.topic.clone(), async |_| Ok(())));
    scene.until((100, 0, 0, 0)).await;
    scene.stop(running).await;
}

#[tokio::test]
async fn the_error_of_a_handler_and_its_sources_are_the_reason_of_a_dead_letter() {
    #[derive(Debug, thiserror::Error)]
    #[error("no price")]
    struct NoPrice(#[source] io::Error);
    let scene = Scene::new().await;
    let handler = async |_| Err(NoPrice(io::Error::other("the shop is closed")))?;
    assert_eq!(scene.death(handler).await, "no price: the shop is closed");
}

#[tokio::test]
async fn a_reason_that_is_too_long_is_cut_between_two_characters() {
    let scene = Scene::new().await;
    let handler = async |_| Err(Failure::retry(format!("x{}", "é".repeat(1_000))));
    assert_eq!(scene.death(handler).await, format!("x{}", "é".repeat(499)));
}

#[tokio::test]
async fn a_panic_of_a_handler_is_a_failed_attempt_with_its_message_and_the_worker_works_on() {
    let scene = Scene::new().await;
    let handler = async |job: Job| match job.payload() {
        b"0" => panic!("order {} is odd", 17),
        _ => Ok(()),
    };
    scene.put(3).await;
    let running = scene.run(scene.worker().handle(scene.topic.clone(), handler));
    scene.until((2, 1, 0, 0)).await;
    scene.stop(running).await;
    assert_eq!(scene.reasons().await, ["panicked: order 17 is odd"]);
}

#[tokio::test]
async fn a_failure_says_whether_the_message_is_buried_or_when_it_comes_again() {
    let scene = Scene::new().await;
    let message = |payload: &str| Message::new(scene.topic.clone(), payload).max_attempts(5);
    scene.deployment.put([message("bury"), message("soon"), message("late")]).await;
    let handler = async |job: Job| match (job.payload(), job.attempt()) {
        (b"bury", _) => Err(Failure::bury("of no use")),
        (b"soon", 1) => Err(Failure::retry_after(Duration::ZERO, "not yet")),
        (b"late", _) => Err(Failure::retry_after(Duration::from_secs(3600), "not yet")),
        _ => Ok(()),
    };
    let running = scene.run(scene.worker().handle(scene.topic.clone(), handler));
    scene.until((1, 1, 0, 0)).await;
    scene.stop(running).await;
    assert_eq!(scene.reasons().await, ["of no use"]);
    assert_eq!(scene.deployment.admin.topic(&scene.topic).count().await.unwrap().delayed, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_handlers_run_at_once_than_are_allowed() {
    let scene = Scene::new().await;
    let apart = Topic::new("invoices").unwrap();
    scene.put(50).await;
    scene.deployment.put((0..20).map(|n| Message::new(apart.clone(), format!("{n}")))).await;
    let most = [Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0))];
    let handler = |most: &Arc<AtomicUsize>| {
        let (most, running) = (Arc::clone(most), Arc::new(AtomicUsize::new(0)));
        move |_| {
            let (most, running) = (Arc::clone(&most), Arc::clone(&running));
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                running.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        }
    };
    let worker = scene.worker().concurrency(4).handle(scene.topic.clone(), handler(&most[0]));
    let running = scene.run(worker.handle_apart(apart.clone(), 1, handler(&most[1])));
    scene.until((50, 0, 0, 0)).await;
    let is_done = async || scene.deployment.admin.topic(&apart).count().await.unwrap().delivered == 20;
    wait_until("the other topic", LONG, is_done).await;
    scene.stop(running).await;
    let most = most.map(|most| most.load(Ordering::SeqCst));
    assert!((1..=4).contains(&most[0]) && most[1] == 1, "{most:?}");
}

/// A handler that reports its start, and ends on permission.
fn held(
    may_end: &Arc<Semaphore>,
) -> (impl Fn(Job) -> BoxedHandling + Send + Sync + use<>, mpsc::Receiver<()>) {
    let (begin, begun) = mpsc::channel(100);
    let may_end = Arc::clone(may_end);
    let handler = move |_| -> BoxedHandling {
        let (begin, may_end) = (begin.clone(), Arc::clone(&may_end));
        Box::pin(async move {
            begin.send(()).await.unwrap();
            may_end.acquire().await.unwrap().forget();
            Ok(())
        })
    };
    (handler, begun)
}

type BoxedHandling = std::pin::Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_waits_for_handlers_and_gives_back_what_nobody_began_with_its_attempt() {
    let (scene, may_end) = (Scene::new().await, Arc::new(Semaphore::new(0)));
    scene.put(20).await;
    let (handler, mut begun) = held(&may_end);
    let running = scene.run(scene.worker().concurrency(4).handle(scene.topic.clone(), handler));
    for _ in 0..4 {
        within("a handler", LONG, begun.recv()).await.unwrap();
    }
    scene.stopping.cancel();
    scene.until((0, 0, 16, 4)).await;
    may_end.add_permits(4);
    scene.stop(running).await;
    assert_eq!(scene.numbers().await, (4, 0, 16, 0));
    scene.take_first_attempts(16).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_that_do_not_end_within_the_grace_do_not_cost_their_messages_an_attempt() {
    let (scene, may_end) = (Scene::new().await, Arc::new(Semaphore::new(0)));
    scene.put(8).await;
    let (handler, mut begun) = held(&may_end);
    let worker = scene.worker().concurrency(3).grace(Duration::ZERO);
    let running = scene.run(worker.handle(scene.topic.clone(), handler));
    for _ in 0..3 {
        within("a handler", LONG, begun.recv()).await.unwrap();
    }
    scene.stop(running).await;
    assert_eq!(scene.numbers().await, (0, 0, 8, 0));
    scene.take_first_attempts(8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_future_is_dropped_gives_everything_back_with_its_attempt() {
    let (scene, may_end) = (Scene::new().await, Arc::new(Semaphore::new(0)));
    scene.put(8).await;
    let (handler, mut begun) = held(&may_end);
    let running = scene.run(scene.worker().concurrency(3).handle(scene.topic.clone(), handler));
    for _ in 0..3 {
        within("a handler", LONG, begun.recv()).await.unwrap();
    }
    running.abort();
    scene.until((0, 0, 8, 0)).await;
    scene.take_first_attempts(8).await;
}

#[tokio::test]
async fn a_worker_of_a_deployment_that_was_never_created_ends_with_the_reason() {
    let server = RedisServer::start().await;
    let worker = Worker::new(Client::new(Settings::new(server.url())));
    let worker = worker.handle(Topic::new("orders").unwrap(), async |_| Ok(()));
    let ended = within("the worker's end", LONG, worker.run(std::future::pending())).await;
    assert!(matches!(ended, Err(Error::Uninitialised(_))), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_returns_a_message_puts_it_by_the_ack() {
    let scene = Scene::new().await;
    scene.put(2).await;
    let handler = async |job: Job| {
        let next = || Message::new(job.topic.clone(), format!("{}+", String::from_utf8_lossy(job.payload())));
        Ok::<_, Failure>(match job.payload() {
            b"0" => Some(next()),
            b"0+" => Some(next().with_id(job.id.clone())),
            b"1" => Some(next().id("another").unwrap().max_attempts(1)),
            _ => None,
        })
    };
    let running = scene.run(scene.worker().handle(scene.topic.clone(), handler));
    // 0, 0+ and 0++ are delivered. The next message of 1 breaks a rule, and 1 has one attempt.
    scene.until((3, 1, 0, 0)).await;
    scene.stop(running).await;
    let reasons = scene.reasons().await;
    assert!(
        reasons[0].starts_with("a next message has no id, or the id, the group and the topic"),
        "{reasons:?}"
    );
}
