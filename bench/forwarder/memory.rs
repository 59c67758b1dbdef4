//! The memory of a forwarder while a slow destination takes a great many messages that are ready.
//!
//! The destination is a stream behind a proxy that delays: with 8,192 messages on their way and a tenth of a second
//! there and back, it takes about 80,000 a second at most.

use crate::deployment::{BODY_BYTES, Deployment};
use delayq_tests::proxy::{Flow, Proxy};
use delayq_tests::redis_server::RedisServer;
use std::time::Duration;

const SHARDS: u16 = 16;
const TOPIC: &str = "t";
const DELAY: Duration = Duration::from_millis(50);
const EVERY: Duration = Duration::from_secs(1);
/// What the process needs to get going does not count: the samples of the first part of the messages.
const SETTLED: f64 = 0.05;

/// The resident memory of a process.
fn resident_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Measures, and says whether it stays within a fifth of its median.
pub(crate) async fn run(count: usize) {
    let (redis, target) = (RedisServer::private().await, RedisServer::private().await);
    let slow = Proxy::start(&target.address());
    slow.set_both(Flow::Delay(DELAY));
    let deployment = Deployment::new(&redis, SHARDS).await;
    deployment.fill(TOPIC, count).await;
    let text = format!(
        "[sinks.s.redis-stream]\nmax_len = 1000\ntrimming_loses_messages = true\n\
         [sinks.s.redis-stream.redis]\nurl = \"redis://{}/\"\n\n\
         [[routes]]\ntopic = \"{TOPIC}\"\nsink = \"s\"\nto = \"out\"\n",
        slow.address()
    );
    println!("{count} messages of {BODY_BYTES} bytes are ready; a sample each {EVERY:?}");
    let forwarder = deployment.forwarder_process(&text).await;
    let start = std::time::Instant::now();
    let mut samples = Vec::new();
    loop {
        let pending = deployment.pending(TOPIC).await;
        let resident = resident_kib(forwarder.process.id());
        println!("{:>6.0} s{pending:>10} pending{resident:>10} KiB", start.elapsed().as_secs_f64());
        if pending == 0 {
            break;
        }
        if (pending as f64) < count as f64 * (1.0 - SETTLED) {
            samples.push(resident);
        }
        tokio::time::sleep(EVERY).await;
    }
    let rate = count as f64 / start.elapsed().as_secs_f64();
    samples.sort_unstable();
    let (Some(&least), Some(&most)) = (samples.first(), samples.last()) else {
        println!("too few messages for a sample");
        return;
    };
    let median = samples[samples.len() / 2] as f64;
    let (down, up) = (least as f64 / median - 1.0, most as f64 / median - 1.0);
    let verdict = if down >= -0.2 && up <= 0.2 { "flat" } else { "not flat" };
    println!(
        "{rate:.0} messages a second; median {median:.0} KiB, {:+.0} % to {:+.0} %: {verdict} (within 20 %)",
        down * 100.0,
        up * 100.0
    );
}
