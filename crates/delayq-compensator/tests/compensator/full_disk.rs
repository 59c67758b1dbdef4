//! A spool on a disk that is full to the last page.

use crate::{lasting_redis, message, topic};
use delayq::spool::SpoolRecord;
use delayq::{Admin, Fate, UnixMillis};
use delayq_compensator::{Compensator, CompensatorConfig, Deps, SourcesMetrics, build};
use delayq_service::{Fault, Metrics, Readiness, Shutdown};
use delayq_spool::{SpoolError, SpoolReader, SpoolSettings, SpoolWriter};
use delayq_tests::deadline::{LONG, SHORT, wait_until, within};
use delayq_tests::deployment::Deployment;
use delayq_tests::redis_server::RedisServer;
use delayq_tests::small_disk::SmallDisk;
use tokio::task::JoinHandle;

struct Host {
    disk: SmallDisk,
    deployment: Deployment<RedisServer>,
    spool: SpoolWriter,
    readiness: Readiness,
    shutdown: Shutdown,
    running: JoinHandle<Result<(), Fault>>,
}

const RECORDS: usize = 700;

fn record(n: usize) -> SpoolRecord {
    SpoolRecord::put(&message(&format!("m{n}")), Fate::NotApplied, UnixMillis::new(1))
}

async fn built(
    deployment: &Deployment<RedisServer>,
    disk: &SmallDisk,
    readiness: &Readiness,
) -> Result<Compensator, Fault> {
    let deps = Deps {
        client: deployment.client.clone(),
        spool: disk.path().to_owned(),
        holder: "the test".to_owned(),
        metrics: SourcesMetrics::register(&Metrics::new()),
        readiness: readiness.clone(),
    };
    build(CompensatorConfig::default(), deps).await
}

// === impl Host ===

impl Host {
    /// `None` where no disk can be mounted.
    async fn start(kib: u32) -> Option<Self> {
        let disk = SmallDisk::mount(kib)?;
        let mut deployment = Deployment::on(lasting_redis().await, 4).await;
        deployment.server.kill().await;
        let spool = SpoolWriter::open(disk.path(), &SpoolSettings::default()).unwrap();
        spool.append((0..RECORDS).map(record).collect()).await.unwrap();
        let (readiness, shutdown) = (Readiness::new(), Shutdown::new());
        let compensator = built(&deployment, &disk, &readiness).await.unwrap();
        disk.fill();
        let full = spool.append(vec![record(RECORDS)]).await.unwrap_err();
        assert!(matches!(full, SpoolError::DiskFull { .. } | SpoolError::Io { .. }), "{full}");
        deployment.server.resume().await;
        let running = tokio::spawn(compensator.run(shutdown.clone()));
        Some(Self { disk, deployment, spool, readiness, shutdown, running })
    }

    async fn is_resubmitted(&self) {
        let admin = Admin::new(self.deployment.client.clone());
        wait_until("everything that waits to be put", LONG, || async {
            admin.topic(&topic()).count().await.is_ok_and(|numbers| numbers.delayed >= RECORDS as u64)
        })
        .await;
    }

    async fn ends_empty(self) {
        let stats = || SpoolReader::open_beside(self.disk.path()).unwrap().stats().unwrap();
        wait_until("nothing to wait any more", LONG, || async { stats().waiting == 0 }).await;
        assert!(stats().balances(), "{:?}", stats());
        self.shutdown.request();
        within("the compensator's end", SHORT, self.running).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn what_waits_on_a_full_disk_gets_out_by_the_room_that_was_kept_for_it() {
    let Some(host) = Host::start(20 << 10).await else { return };
    host.is_resubmitted().await;
    host.disk.clear();
    host.spool.append(vec![record(RECORDS + 1)]).await.unwrap();
    let room = host.disk.path().join("room");
    wait_until("room to be kept again", LONG, || async { room.exists() }).await;
    host.ends_empty().await;
}

#[tokio::test]
async fn on_a_disk_without_any_room_what_waits_keeps_its_place_until_there_is_some() {
    let Some(host) = Host::start(2 << 10).await else { return };
    wait_until("the compensator to say so", LONG, || async {
        host.readiness.unready().iter().any(|unready| unready.reason.contains("is full"))
    })
    .await;
    host.disk.clear();
    host.is_resubmitted().await;
    wait_until("it to be ready again", LONG, || async { host.readiness.unready().is_empty() }).await;
    host.ends_empty().await;
}

#[tokio::test]
async fn what_opening_a_spool_writes_has_the_room_that_was_kept_on_a_full_disk() {
    let Some(disk) = SmallDisk::mount(20 << 10) else { return };
    let (deployment, readiness) = (Deployment::on(lasting_redis().await, 4).await, Readiness::new());
    drop(built(&deployment, &disk, &readiness).await.unwrap());
    // The compensator must write the whole file again; an upgrade of the spool adds less.
    std::fs::remove_file(disk.path().join("spool.db")).unwrap();
    disk.fill();
    assert!(disk.path().join("room").exists());
    let compensator = built(&deployment, &disk, &readiness).await.unwrap();
    assert!(!disk.path().join("room").exists());
    drop(compensator);
}

#[tokio::test]
async fn a_compensator_that_starts_on_a_full_disk_gets_out_what_waits_there() {
    let Some(disk) = SmallDisk::mount(20 << 10) else { return };
    let (deployment, readiness) = (Deployment::on(lasting_redis().await, 4).await, Readiness::new());
    drop(built(&deployment, &disk, &readiness).await.unwrap());
    let spool = SpoolWriter::open(disk.path(), &SpoolSettings::default()).unwrap();
    spool.append((0..RECORDS).map(record).collect()).await.unwrap();
    drop(spool);
    // The last user removes the index of the log.
    wait_until("the spool to be closed", SHORT, || async { !disk.path().join("spool.db-shm").exists() })
        .await;
    disk.fill();
    let shutdown = Shutdown::new();
    let running = tokio::spawn(built(&deployment, &disk, &readiness).await.unwrap().run(shutdown.clone()));
    let stats = || SpoolReader::open_beside(disk.path()).unwrap().stats().unwrap();
    wait_until("nothing to wait any more", LONG, || async { stats().waiting == 0 }).await;
    let admin = Admin::new(deployment.client.clone());
    assert_eq!(admin.topic(&topic()).count().await.unwrap().delayed, RECORDS as u64);
    shutdown.request();
    within("the compensator's end", SHORT, running).await.unwrap().unwrap();
}
