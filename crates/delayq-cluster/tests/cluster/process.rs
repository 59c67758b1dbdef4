//! A member in a process of its own, to be frozen and killed.
//!
//! The process is this test binary again, running [`a_member_of_its_own`] only.

use crate::fleet::{Floor, Member, config, s};
use delayq_cluster::{Cluster, Handle};
use delayq_tests::deadline::LONG;
use delayq_tests::etcd_server::EtcdCluster;
use delayq_tests::process::{Process, Signal};
use delayq_tests::timing::conclusive;
use std::io::Write;
use std::process::Command;
use std::time::Duration;
use tokio::time::Instant;

const ENDPOINT: &str = "DELAYQ_TEST_MEMBER_OF";

/// Starts the process, and waits until the process owns half of 16 shards.
async fn start_member(endpoint: &str) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "process::a_member_of_its_own", "--ignored", "--nocapture"]);
    command.env(ENDPOINT, endpoint);
    let mut process = Process::spawn("a member", command);
    process.wait_for_line("owns=8 trust=trusted", LONG).await;
    process
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the process that another test starts"]
async fn a_member_of_its_own() {
    let Ok(endpoint) = std::env::var(ENDPOINT) else { return };
    let handle = Cluster::start(config(&[endpoint], "process", 16)).await.unwrap();
    let mut views = handle.subscribe();
    let mut tick = tokio::time::interval(Duration::from_millis(50));
    loop {
        tokio::select! {
            changed = views.changed() => {
                if changed.is_err() {
                    return;
                }
                say(&handle, views.borrow_and_update().planned.len(), "planned");
            }
            // The handle must answer better than the tasks, which have not run yet after a freeze.
            _ = tick.tick() => say(&handle, handle.view().planned.len(), "-"),
        }
    }
}

fn say(handle: &Handle, owned: usize, why: &str) {
    println!("says owns={owned} trust={} {why}", handle.trust().name());
    std::io::stdout().flush().unwrap();
}

async fn planned(member: &Member, shards: usize) -> Duration {
    let (started, mut views) = (Instant::now(), member.handle.subscribe());
    let came = tokio::time::timeout(LONG, views.wait_for(|view| view.planned.len() == shards)).await;
    assert!(came.is_ok(), "{} are planned, not {shards}", member.handle.view().planned.len());
    started.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_frozen_for_three_leases_knows_it_when_it_wakes_and_joins_again() {
    conclusive(async || {
        let etcd = EtcdCluster::start_one().await;
        let floor = Floor::new();
        let well = Member::join(config(&etcd.endpoints(), "well", 16), &floor).await;
        let mut process = start_member(&etcd.endpoints()[0]).await;
        planned(&well, 8).await;

        process.signal(Signal::STOP);
        let frozen = Instant::now();
        let granted = well.handle.granted_ttl().unwrap();
        let took = planned(&well, 16).await;
        println!("a frozen process' shards are owned elsewhere after {took:?} (lease {granted:?})");
        let timing = floor.judge("the take-over from a frozen process", took, granted + s(2));
        tokio::time::sleep_until(frozen + granted * 3).await;

        // Output from before the freeze comes first; the first words after the thaw show a lease without trust.
        let mark = process.mark();
        process.signal(Signal::CONT);
        let woke = Instant::now();
        process.wait_for_line_from(mark, "owns=0", LONG).await;
        println!("it stopped its shards {:?} after it woke", woke.elapsed());
        let said: Vec<String> = process.lines().into_iter().skip(mark).map(|line| line.text).collect();
        let owning: Vec<&String> = said.iter().take_while(|line| !line.contains("owns=0")).collect();
        let since_it_woke = owning.iter().skip_while(|line| line.contains("owns=8 trust=trusted -"));
        assert!(since_it_woke.into_iter().all(|line| !line.contains("trust=trusted -")), "{said:?}");
        process.wait_for_line_from(mark + owning.len(), "owns=8 trust=trusted", LONG).await;
        planned(&well, 8).await;

        process.end_by(Signal::KILL, LONG).await;
        let took = planned(&well, 16).await;
        println!("a killed process' shards are owned elsewhere after {took:?}");
        timing.and(floor.judge("the take-over from a killed process", took, granted + s(2)))
    })
    .await;
}
