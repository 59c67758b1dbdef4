//! A Redis behind sentinels: the sentinels' choice of a Redis, and the cost of a failover.

use delayq::admin::{Durability, Policy};
use delayq::protocol::SentinelSettings;
use delayq::{Admin, Client, Error, Fate, Message, Producer, ProducerOptions, Settings, Topic, UnixMillis};
use delayq_tests::deadline::{LONG, wait_for, wait_until, within};
use delayq_tests::deployment::{created, settings};
use delayq_tests::environment::at_length;
use delayq_tests::proxy::Proxy;
use delayq_tests::redis_server::{RedisOptions, RedisServer, SharedRedis, replicated};
use delayq_tests::sentinel::{SERVICE, Sentinel};
use delayq_tests::sentinel_group::SentinelGroup;
use delayq_tests::stall::Stall;
use delayq_tests::timing::{Timing, conclusive};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Maximum time from a known new master to a put there.
const BOUND: Duration = Duration::from_secs(3);

const FAR: UnixMillis = UnixMillis::new(4_102_444_800_000);

fn message(id: &str) -> Message {
    Message::new(Topic::new("orders").unwrap(), "x").at(FAR).id(id).unwrap()
}

type Answered = (String, Result<(), Error>, Instant);

struct Load {
    answered: Arc<Mutex<Vec<Answered>>>,
    stop: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

// === impl Load ===

impl Load {
    fn start(producer: Producer) -> Self {
        let (answered, stop) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let (log, stopped): (Arc<Mutex<Vec<Answered>>>, _) = (Arc::clone(&answered), Arc::clone(&stop));
        let task = tokio::spawn(async move {
            for n in 0.. {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let id = format!("load-{n}");
                let answer = producer.put(message(&id)).await.map(drop).map_err(|refused| refused.error);
                log.lock().unwrap().push((id, answer, Instant::now()));
            }
        });
        Self { answered, stop, task }
    }

    fn accepted(&self) -> usize {
        self.answered.lock().unwrap().iter().filter(|(_, answer, _)| answer.is_ok()).count()
    }

    async fn stop(self) -> Vec<Answered> {
        self.stop.store(true, Ordering::Relaxed);
        within("the load to end", LONG, self.task).await.unwrap();
        std::mem::take(&mut self.answered.lock().unwrap())
    }
}

async fn stored(redis: &SharedRedis) -> BTreeSet<String> {
    let keys: Vec<Vec<u8>> = redis.command(&["KEYS", "*:m:*"]).await;
    let id = |key: &Vec<u8>| {
        let at = key.windows(3).position(|three| three == b":m:").unwrap();
        String::from_utf8_lossy(&key[at + 3..])
            .trim_start_matches(|c: char| !c.is_ascii_alphabetic())
            .to_owned()
    };
    keys.iter().map(id).collect()
}

/// delayq's connections to this Redis, which alone speak RESP3. A Redis under demotion ends all connections.
async fn clients_of(redis: &SharedRedis) -> Vec<String> {
    let list: String = redis.try_command(&["CLIENT", "LIST", "TYPE", "normal"]).await.unwrap_or_default();
    list.lines().filter(|line| line.contains(" resp=3")).map(str::to_owned).collect()
}

async fn fails_over(
    break_it: impl AsyncFn(&mut SentinelGroup),
    mend_it: impl AsyncFn(&mut SentinelGroup),
) -> Timing {
    let (mut group, stall) = (SentinelGroup::start().await, Stall::watch());
    let (_, _, producer) = created(settings(group.url(), 2)).await;
    replicated(&group.redises, 0).await;
    let load = Load::start(producer.clone());
    wait_until("some puts", LONG, async || load.accepted() > 100).await;
    let broken = Instant::now();
    break_it(&mut group).await;
    let master = group.master_after(0).await;
    let known = Instant::now();
    wait_until("a put to reach the new master", LONG, async || {
        let _ = producer.put(message("after")).await;
        group.redises[master].command::<Vec<Vec<u8>>>(&["KEYS", "*after"]).await.len() == 1
    })
    .await;
    let (took, switched) = (known.elapsed(), Instant::now());
    let accepted = load.accepted();
    mend_it(&mut group).await;
    let former = &group.redises[0];
    assert_ne!(
        clients_of(&group.redises[master]).await,
        Vec::<String>::new(),
        "our connections are not seen"
    );
    wait_until("our connections to end", LONG, async || clients_of(former).await.is_empty()).await;
    wait_until("the former master to follow the new one", LONG, async || {
        assert_eq!(clients_of(former).await, Vec::<String>::new(), "connected to the former master");
        former.field("master_link_status").await == "up"
    })
    .await;
    wait_until("more puts", LONG, async || load.accepted() > accepted + 100).await;
    let answers = load.stop().await;
    let stored = stored(&group.redises[master]).await;
    for (id, answer, at) in &answers {
        match answer {
            // The failover may lose writes that the former master took around that time.
            Ok(()) if (broken - Duration::from_secs(1)..=switched).contains(at) => {}
            Ok(()) => assert!(stored.contains(id), "{id} was accepted, and is lost"),
            Err(error) => assert!(error.is_outage(), "{id}: {error}"),
        }
        if answer.as_ref().is_err_and(|error| error.fate() == Fate::NotApplied) {
            assert!(!stored.contains(id), "{id} was refused, and is there");
        }
    }
    Timing::of("a put after the new master was known", took, BOUND, stall.allow(BOUND))
}

async fn resume_former(group: &mut SentinelGroup) {
    group.redises[0].resume().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn puts_go_on_after_the_master_is_killed_and_none_that_was_replicated_is_lost() {
    conclusive(async || fails_over(async |group| _ = group.redises[0].kill().await, resume_former).await)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_was_frozen_gets_nothing_more_when_it_wakes() {
    let wake = async |group: &mut SentinelGroup| group.redises[0].thaw();
    conclusive(async || fails_over(async |group| group.redises[0].freeze(), wake).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_by_hand_is_followed_although_the_former_master_still_takes_writes() {
    let by_hand = async |group: &mut SentinelGroup| {
        group.sentinels[1].command::<()>(&["SENTINEL", "FAILOVER", SERVICE]).await;
    };
    conclusive(async || fails_over(by_hand, async |_| {}).await).await;
}

async fn reaches(settings: Settings) -> Result<(), Error> {
    Admin::new(Client::new(settings)).layout().await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_that_hang_or_are_gone_delay_nobody_while_one_is_left_and_are_named_when_none_is() {
    let mut group = SentinelGroup::start().await;
    let (_, _, producer) = created(settings(group.url(), 1)).await;
    let settings = || settings(group.url(), 1);
    group.sentinels[0].freeze();
    reaches(settings()).await.unwrap();
    group.sentinels[1].freeze();
    reaches(settings()).await.unwrap();
    group.sentinels[2].freeze();
    let late = Client::new(settings());
    let error = Admin::new(late.clone()).layout().await.unwrap_err();
    assert_eq!((error.fate(), error.is_outage()), (Fate::NotApplied, true));
    for sentinel in &group.sentinels {
        let named = format!("sentinel {}: no reply", sentinel.address());
        assert!(error.to_string().contains(&named), "{error}");
    }
    producer.put(message("without")).await.unwrap();
    group.sentinels[2].thaw();
    wait_until("the client that found none to find one", LONG, async || {
        Admin::new(late.clone()).layout().await.is_ok()
    })
    .await;
    let url = group.url();
    for sentinel in &mut group.sentinels {
        sentinel.thaw();
        sentinel.kill().await;
    }
    let error = reaches(delayq_tests::deployment::settings(url, 1)).await.unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
}

fn producer_behind(sentinels: &[String; 3]) -> Producer {
    let url = format!("redis+sentinel://{}/{SERVICE}", sentinels.join(","));
    Producer::start(Client::new(settings(url, 1)), ProducerOptions::default())
}

/// A Redis with another deployment of the same name and numbers.
async fn another_deployment() -> RedisServer {
    let other = RedisServer::start_with(RedisOptions::default()).await;
    let _ = created(settings(other.url(), 1)).await;
    other
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_foreign_sentinel_with_a_higher_epoch_overrules_nobody_and_a_failover_goes_on_without_it() {
    let (mut group, other) = (SentinelGroup::start().await, another_deployment().await);
    let _ = created(settings(group.url(), 1)).await;
    replicated(&group.redises, 0).await;
    let foreign = Sentinel::of_another_group(&other, 9).await;
    let named = || [foreign.address(), group.sentinels[0].address(), group.sentinels[1].address()];
    let producer = producer_behind(&named());
    for n in 0..20 {
        producer.put(message(&format!("connected-{n}"))).await.unwrap();
    }
    group.redises[0].command::<u64>(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    let late = producer_behind(&named());
    for n in 0..20 {
        late.put(message(&format!("late-{n}"))).await.unwrap();
    }
    assert_eq!((stored(&group.redises[0]).await.len(), stored(&other).await.len()), (40, 0));
    replicated(&group.redises, 0).await;
    group.redises[0].kill().await;
    let master = group.master_after(0).await;
    wait_until("a put to reach the new master", LONG, async || {
        let _ = producer.put(message("after")).await;
        stored(&group.redises[master]).await.contains("after")
    })
    .await;
    assert_eq!(stored(&other).await.len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_of_another_deployment_is_not_followed_even_if_most_sentinels_name_it() {
    let (group, other) = (SentinelGroup::start().await, another_deployment().await);
    let _ = created(settings(group.url(), 1)).await;
    let foreign = [Sentinel::of_another_group(&other, 9).await, Sentinel::of_another_group(&other, 9).await];
    let proxies = [0, 1, 2].map(|n| Proxy::start_for_redis(&group.sentinels[n].address()));
    let producer = producer_behind(&[0, 1, 2].map(|n| proxies[n].address()));
    producer.put(message("before")).await.unwrap();
    for (proxy, foreign) in proxies[1..].iter().zip(&foreign) {
        proxy.lead_to(&foreign.address());
        proxy.reset_open();
    }
    // A put that is under way when the sentinels change the master has an unknown fate.
    let refused = wait_for("a put to be refused", LONG, async || {
        let refused = producer.put(message("refused")).await.err().map(|refused| refused.error);
        refused.filter(|error| error.fate() == Fate::NotApplied && error.is_outage())
    })
    .await;
    assert!(refused.to_string().contains("keeps deployment"), "{refused}");
    for (proxy, sentinel) in proxies.iter().zip(&group.sentinels) {
        proxy.lead_to(&sentinel.address());
        proxy.reset_open();
    }
    wait_until("puts to go on", LONG, async || producer.put(message("again")).await.is_ok()).await;
    assert!(stored(&group.redises[0]).await.contains("again"));
    assert_eq!(stored(&other).await.len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_sentinels_refuse_is_named_and_their_password_is_their_own() {
    let group = SentinelGroup::start().await;
    let (_, _, producer) = created(settings(group.url(), 1)).await;
    let unknown = group.url().replace(SERVICE, "another");
    let error = reaches(settings(unknown, 1)).await.unwrap_err().to_string();
    assert!(error.contains("no master named another") || error.contains("No such master"), "{error}");
    for sentinel in &group.sentinels {
        sentinel.command::<()>(&["ACL", "SETUSER", "default", "resetpass", ">hunter2"]).await;
    }
    let error = reaches(settings(group.url(), 1)).await.unwrap_err().to_string();
    assert!(error.contains("NOAUTH") && error.contains(&group.sentinels[2].address()), "{error}");
    let with = |password: &str| {
        let mut settings = settings(group.url(), 1);
        let mut login = SentinelSettings::default();
        login.password = Some(password.into());
        settings.link = settings.link.sentinel(login);
        settings
    };
    let error = reaches(with("hunter3")).await.unwrap_err().to_string();
    assert!(error.contains("WRONGPASS") && !error.contains("hunter"), "{error}");
    reaches(with("hunter2")).await.unwrap();
    producer.put(message("any")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_reset_again_and_again_lose_no_put() {
    let group = SentinelGroup::start().await;
    let (_, _, producer) = created(settings(group.url(), 1)).await;
    let load = Load::start(producer);
    for _ in 0..20 {
        let before = load.accepted();
        group.redises[0].command::<u64>(&["CLIENT", "KILL", "TYPE", "normal"]).await;
        wait_for("a put after the reset", LONG, async || (load.accepted() > before + 5).then_some(())).await;
    }
    let answers = load.stop().await;
    let stored = stored(&group.redises[0]).await;
    assert!(answers.iter().all(|(id, answer, _)| answer.is_err() || stored.contains(id)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_put_that_a_replica_confirmed_is_lost_in_failovers() {
    let mut group = SentinelGroup::start().await;
    let (_, admin, producer) = created(settings(group.url(), 2)).await;
    let policy = Policy { durability: Some(Durability::Replicas(1)), ..Policy::default() };
    admin.topic(&Topic::new("orders").unwrap()).change_policy(&policy, &[]).await.unwrap();
    replicated(&group.redises, 0).await;
    let (load, mut master) = (Load::start(producer), 0);
    for _ in 0..at_length(1, 3) {
        let before = load.accepted();
        wait_until("puts that a replica confirms", LONG, async || load.accepted() > before + 200).await;
        group.redises[master].kill().await;
        let former = master;
        master = group.master_after(former).await;
        group.redises[former].resume().await;
        group.followed(master).await;
    }
    let answers = load.stop().await;
    let stored = stored(&group.redises[master]).await;
    let lost = answers.iter().filter(|(id, answer, _)| answer.is_ok() && !stored.contains(id));
    assert_eq!(lost.map(|(id, ..)| id).collect::<Vec<_>>(), Vec::<&String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_with_sentinels_that_cannot_be_read_is_refused_at_the_first_call() {
    let client = Client::new(Settings::new("redis+sentinel://:hunter2@localhost:1"));
    let producer = Producer::start(client.clone(), ProducerOptions::default());
    let error = producer.put(message("any")).await.unwrap_err().error;
    assert!(error.to_string().contains("names no service"), "{error}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
}
