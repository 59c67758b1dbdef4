//! Bulkheads: how late eight destinations are, alone, and beside a dead and a slow one with a backlog.
//!
//! Each destination is a sink of its own, with a stream in one Redis; the dead and the slow one reach it through
//! proxies. Both runs are made three times, in turn; the medians count.

use crate::deployment::Deployment;
use crate::due;
use crate::receivers::{connect, read_streams};
use delayq_tests::proxy::{Flow, Proxy};
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use std::time::Duration;
use tokio::sync::mpsc;

const FINE: usize = 8;
const RATE: usize = 100;
const SECONDS: usize = 8;
const BACKLOG: usize = 20_000;
const ROUNDS: usize = 3;
const SHARDS: u16 = 16;
const AHEAD_MS: u64 = 2500;
/// What the slow destination waits in each direction.
const SLOWNESS: Duration = Duration::from_millis(250);

/// A percentile each, in milliseconds.
#[derive(Clone, Copy)]
struct Lateness {
    p50: f64,
    p99: f64,
    /// The highest p99 of one destination.
    worst_p99: f64,
}

fn sink(name: &str, address: &str) -> String {
    format!(
        "[sinks.{name}]\nrequired = false\n[sinks.{name}.redis-stream.redis]\nurl = \"redis://{address}/\"\n\n\
         [[routes]]\ntopic = \"{name}\"\nsink = \"{name}\"\nto = \"{name}\"\n\n"
    )
}

async fn round(beside: bool) -> Lateness {
    let redis = RedisServer::start_with(RedisOptions::default().append_only("everysec")).await;
    let target = RedisServer::private().await;
    let names: Vec<String> = (0..FINE).map(|n| format!("fine{n}")).collect();
    let mut text: String = names.iter().map(|name| sink(name, &target.address())).collect();
    let (dead, slow) = (Proxy::start(&target.address()), Proxy::start(&target.address()));
    if beside {
        text += &sink("dead", &dead.address());
        text += &sink("slow", &slow.address());
        dead.refuse().await;
        slow.set_both(Flow::Delay(SLOWNESS));
    }
    let deployment = Deployment::new(&redis, SHARDS).await;
    let from = u64::try_from(due::now().as_millis()).unwrap() + AHEAD_MS;
    let dues = due::spread(RATE, SECONDS, from);
    for name in &names {
        deployment.put_due(name, &dues).await;
    }
    let _timer = deployment.timer().await;
    let _forwarder = deployment.forwarder_process(&text).await;
    if beside {
        for name in ["dead", "slow"] {
            deployment.fill(name, BACKLOG).await;
            deployment.put_due(name, &dues).await;
        }
    }
    let (seen, mut late) = mpsc::unbounded_channel();
    let (connection, keys) = (connect(&target).await, names.clone());
    let reading = tokio::spawn(read_streams(connection, keys, move |key, late| {
        let _ = seen.send((key.to_owned(), late));
    }));
    let mut waits = vec![Vec::new(); FINE];
    for _ in 0..dues.len() * FINE {
        let (key, late) = late.recv().await.expect("the reader goes on");
        waits[names.iter().position(|name| *name == key).unwrap()].push(late);
    }
    reading.abort();
    let worst = waits.iter_mut().map(|waits| due::percentile_ms(waits, 0.99)).fold(0.0, f64::max);
    let mut all: Vec<u64> = waits.concat();
    Lateness {
        p50: due::percentile_ms(&mut all, 0.5),
        p99: due::percentile_ms(&mut all, 0.99),
        worst_p99: worst,
    }
}

/// The median of each percentile.
fn median(rounds: &[Lateness]) -> Lateness {
    let of = |part: fn(&Lateness) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(part).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Lateness { p50: of(|one| one.p50), p99: of(|one| one.p99), worst_p99: of(|one| one.worst_p99) }
}

/// Measures both, and says whether the eight keep their lateness.
pub(crate) async fn run() {
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        alone.push(round(false).await);
        beside.push(round(true).await);
    }
    let (alone, beside) = (median(&alone), median(&beside));
    println!(
        "{FINE} destinations, {RATE} messages a second each; due → consumer has it, ms; medians of {ROUNDS}"
    );
    println!("{:<44}{:>8}{:>8}{:>12}", "", "p50", "p99", "worst p99");
    for (name, Lateness { p50, p99, worst_p99 }) in
        [("alone", alone), ("beside a dead and a slow one with a backlog", beside)]
    {
        println!("{name:<44}{p50:>8.2}{p99:>8.2}{worst_p99:>12.2}");
    }
    let ratio = beside.p99 / alone.p99;
    let verdict = if ratio <= 1.5 { "holds" } else { "missed" };
    println!("p99 beside / alone: {ratio:.2} (<= 1.5: {verdict})");
}
