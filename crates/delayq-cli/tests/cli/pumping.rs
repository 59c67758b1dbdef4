//! `delayq work --pump`: workers that need no timer, share the shards, and take over from each other.

use crate::{delayq, deployed, done, run};
use delayq_tests::deadline::{LONG, SHORT, wait_until};
use delayq_tests::process::{Process, Signal, Stream};
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const MESSAGES: usize = 400;
/// The lock of a worker, a second, and time for a busy machine.
const TAKEN_OVER: Duration = Duration::from_secs(10 + 1 + 5);

/// A topic's leases last 30 s.
const LEASE: Duration = Duration::from_secs(30);

fn worker(redis: &SharedRedis) -> Process {
    delayq(redis).args(["work", "orders", "--pump", "-c", "8"]).start()
}

async fn owners(redis: &SharedRedis) -> Vec<String> {
    let timers: Value = serde_json::from_str(&done(redis, &["timers", "--json"]).await).unwrap();
    let owners = timers["owners"].as_array().unwrap();
    owners.iter().map(|owner| owner["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn two_workers_deliver_without_a_timer_and_one_takes_over_when_the_other_is_killed() {
    let redis = deployed(RedisServer::private().await).await;
    let mut first = worker(&redis);
    wait_until("the first worker to pump", LONG, async || {
        owners(&redis).await.iter().all(|owner| owner.starts_with("worker/"))
    })
    .await;
    let before = owners(&redis).await;
    let second = worker(&redis);
    for command in ["doctor", "check", "timers"] {
        let said = run(&redis, &[command]).await.stdout;
        assert!(!said.contains("no timer") && !said.contains("a single timer"), "{command}: {said}");
    }
    let doctor = run(&redis, &["doctor"]).await.stdout;
    assert!(doctor.contains("1 worker pumps 4 shards, without a timer"), "{doctor}");
    let line =
        |n: usize| format!("{{\"id\":\"m-{n}\",\"due\":\"+{}ms\",\"payload\":\"m-{n}\"}}\n", 200 + 5 * n);
    let lines: String = (0..MESSAGES).map(line).collect();
    let put = delayq(&redis).args(["put", "orders", "--from", "-"]).run(lines.as_bytes(), SHORT).await;
    assert_eq!(put.code, Some(0), "{put:?}");
    let delivered =
        || [&first, &second].map(|worker| worker.text(Stream::Out).lines().count()).iter().sum::<usize>();
    wait_until("a part of the messages", LONG, async || delivered() >= MESSAGES / 4).await;
    first.signal(Signal::KILL);
    first.wait_end(SHORT).await;
    let killed = Instant::now();
    let arrived = || {
        let mut arrived = BTreeMap::<String, usize>::new();
        for worker in [&first, &second] {
            worker
                .text(Stream::Out)
                .lines()
                .for_each(|line| *arrived.entry(line.to_owned()).or_default() += 1);
        }
        arrived
    };
    wait_until("every message", LONG, async || arrived().len() >= MESSAGES).await;
    // At least once: what the killed worker had printed and not acked comes again when its lease ends.
    let (took, arrived) = (killed.elapsed(), arrived());
    let again = arrived.values().filter(|&&times| times > 1).count();
    assert!(took < TAKEN_OVER + LEASE, "{took:?}");
    assert!(arrived.len() == MESSAGES && again <= 8, "{again} of {} came again", arrived.len());
    assert!(owners(&redis).await.iter().all(|owner| owner.starts_with("worker/") && !before.contains(owner)));
    let mut second = second;
    second.ends_well_by(Signal::INT, SHORT).await;
}
