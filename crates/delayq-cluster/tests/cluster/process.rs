//! A member in a process of its own, to be frozen and killed as processes are.
//!
//! The process is this test binary again, running [`a_member_of_its_own`] only.

use crate::etcd::Etcd;
use crate::fleet::{Floor, Member, config, s};
use crate::reader::ClaimReader;
use delayq_cluster::{Cluster, Handle};
use delayq_tests::deadline::LONG;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{Instant, timeout};

/// The endpoint that the process joins, for the process itself.
const ENDPOINT: &str = "DELAYQ_TEST_MEMBER_OF";

struct Process {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(endpoint: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "process::a_member_of_its_own", "--ignored", "--nocapture"])
            .env(ENDPOINT, endpoint)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, said }
    }

    /// Waits until it says something with this in it.
    async fn until_said(&mut self, what: &str) -> String {
        let listen = async {
            loop {
                let line = self.said.next_line().await.unwrap().expect("the process goes on");
                if line.contains(what) {
                    return line;
                }
            }
        };
        timeout(LONG, listen).await.unwrap_or_else(|_| panic!("it did not say {what:?} within {LONG:?}"))
    }

    async fn signal(&self, signal: &str) {
        let pid = self.child.id().unwrap().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status().await.unwrap();
        assert!(sent.success());
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the process that another test starts"]
async fn a_member_of_its_own() {
    let Ok(endpoint) = std::env::var(ENDPOINT) else { return };
    let (handle, mut ownership) = Cluster::join(config(&[endpoint], "process", 16)).await.unwrap();
    let mut owned = 0;
    let mut tick = tokio::time::interval(Duration::from_millis(50));
    loop {
        tokio::select! {
            change = ownership.next() => {
                let Some(change) = change else { return };
                ownership.confirm(&change.lost);
                owned = owned + change.gained.len() - change.lost.len();
                let reasons: Vec<_> = change.lost.iter().map(|lost| &lost.reason).collect();
                say(&handle, owned, &format!("{reasons:?}"));
            }
            // The handle is asked too: it must know better than the tasks, which have not run yet after a freeze.
            _ = tick.tick() => say(&handle, owned, "-"),
        }
    }
}

fn say(handle: &Handle, owned: usize, reasons: &str) {
    println!("says owns={owned} trust={} {reasons}", handle.trust().name());
    std::io::stdout().flush().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_frozen_for_three_leases_knows_it_when_it_wakes_and_joins_anew() {
    let etcd = Etcd::single();
    let floor = Floor::new();
    let reader = ClaimReader::start(&etcd.endpoints()[0]).await;
    let well = Member::join(config(&etcd.endpoints(), "well", 16), &floor).await;
    let mut process = Process::start(&etcd.endpoints()[0]);
    process.until_said("owns=8 trust=trusted").await;
    floor.until("well has half", |work| work.of("well") == 8).await;

    process.signal("STOP").await;
    let frozen = Instant::now();
    let granted = well.handle.granted_ttl().unwrap();
    let took = floor.until("well takes all", |work| work.of("well") == 16).await;
    println!("a frozen process' shards are owned elsewhere after {took:?} (lease {granted:?})");
    floor.judge("the take-over from a frozen process", took, granted + s(2));
    // The time itself is what is tested.
    tokio::time::sleep_until(frozen + granted * 3).await;

    // Whatever it had said before it froze comes first; the first words after it woke are of a lease not trusted.
    process.signal("CONT").await;
    let woke = Instant::now();
    let first = process.until_said("owns=").await;
    let mut said = vec![first];
    while !said.last().unwrap().contains("owns=0") {
        said.push(process.until_said("owns=").await);
    }
    println!("it stopped its shards {:?} after it woke", woke.elapsed());
    let late_trust =
        said.iter().skip_while(|line| line.contains("owns=8 trust=trusted -")).collect::<Vec<_>>();
    assert!(
        late_trust.iter().all(|line| !line.contains("trust=trusted -") || line.contains("owns=0")),
        "{said:?}"
    );
    process.until_said("owns=8 trust=trusted").await;
    floor.until("well has half", |work| work.of("well") == 8).await;

    process.child.kill().await.unwrap();
    let took = floor.until("well takes all", |work| work.of("well") == 16).await;
    println!("a killed process' shards are owned elsewhere after {took:?}");
    floor.judge("the take-over from a killed process", took, granted + s(2));
    assert_eq!(floor.work().overlaps, []);
    reader.judge(16, 1).await;
}
