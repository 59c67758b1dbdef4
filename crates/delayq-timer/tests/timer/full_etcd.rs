//! An etcd that takes no writes: reads and keep-alives work, and no plan replaces a timer that dies.

use crate::bounds::KILLED_WITH_FULL_ETCD;
use crate::drill::Drill;
use crate::fleet::Fleet;
use crate::stand::{Running, Stand};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::etcd_server::{EtcdCluster, EtcdOptions};
use delayq_tests::timing::conclusive;

const SHARDS: u16 = 12;
const TIMERS: usize = 6;
/// etcd's quota: the existing keys fit, and a few of the values below fill the rest.
const QUOTA: &str = "2000000";
const VALUE_BYTES: usize = 100_000;

async fn fill(etcd: &EtcdCluster) {
    let value = "x".repeat(VALUE_BYTES);
    while etcd.try_ctl(&["put", "elsewhere", &value]).await.is_ok() {}
}

async fn make_room(etcd: &EtcdCluster) {
    etcd.compact().await;
    etcd.ctl(&["defrag"]).await;
    etcd.ctl(&["alarm", "disarm"]).await;
}

async fn all(timers: &[Running], what: &str, so: impl Fn(&Running) -> bool) {
    wait_until(what, LONG, async || timers.iter().all(&so)).await;
}

fn names_the_alarm(timer: &Running) -> bool {
    timer.readiness.unready().iter().any(|unready| unready.reason.contains("alarm NOSPACE"))
}

#[tokio::test(flavor = "multi_thread")]
async fn half_of_six_timers_killed_while_etcd_takes_no_writes_leave_no_shard_to_nobody() {
    conclusive(async || {
        let etcd =
            EtcdCluster::start_with(EtcdOptions::default().arguments(["--quota-backend-bytes", QUOTA]));
        let drill = Drill::new(Fleet::on(Stand::new(SHARDS).await, etcd.await)).await;
        let mut timers = Vec::new();
        for n in 0..TIMERS {
            timers.push(drill.timer(&format!("timer-{n}")).await);
        }
        drill.fleet.share(&timers.iter().collect::<Vec<_>>()).await;
        fill(&drill.fleet.etcd).await;
        all(&timers, "every timer to name the alarm", names_the_alarm).await;
        let left = timers.split_off(TIMERS / 2);
        for timer in timers {
            timer.kill().await;
        }
        let due = drill.stand().now_ms().await + 500;
        drill.put((0..200).map(|n| due + n)).await;
        wait_until("a timer that is left to say what is overdue", LONG, async || {
            left.iter().any(|timer| timer.metric("delayq_timer_oldest_overdue_seconds") >= 1.0)
        })
        .await;
        let owned = |timer: &Running| timer.metric("delayq_timer_shards");
        let adopted = async || (left.iter().map(owned).sum::<f64>() - f64::from(SHARDS)).abs() < 0.5;
        wait_until("every shard to be pumped", LONG, adopted).await;
        assert!(left.iter().all(|timer| timer.metric("delayq_timer_etcd_refuses_writes") > 0.5));
        all(&left, "nothing to be overdue", |timer| {
            timer.metric("delayq_timer_oldest_overdue_seconds") < 1.0
        })
        .await;
        let timing = drill.judge(&KILLED_WITH_FULL_ETCD).await.timing;
        make_room(&drill.fleet.etcd).await;
        for timer in &left {
            timer.is_ready().await;
        }
        drill.fleet.share(&left.iter().collect::<Vec<_>>()).await;
        timing
    })
    .await;
}
