//! A spool whose files are deleted under a running compensator.

use super::{FAR, Host, message};
use delayq::spool::SpoolRecord;
use delayq::{Fate, PutOutcome, State, UnixMillis};
use delayq_compensator::{CompensatorConfig, Deps, SourcesMetrics, build};
use delayq_service::{Metrics, Readiness, Shutdown};
use delayq_tests::deadline::{LONG, SHORT, wait_until, within};
use std::fs;

#[tokio::test]
async fn what_waits_in_a_deleted_spool_is_carried_out_and_then_what_is_in_the_next_one() {
    let mut host = Host::start().await;
    host.deployment.server.kill().await;
    let record = |id| SpoolRecord::put(&message(id), Fate::NotApplied, UnixMillis::new(1));
    host.spool.append(vec![record("deleted")]).await.unwrap();
    let (shutdown, readiness) = (Shutdown::new(), Readiness::new());
    let deps = Deps {
        client: host.deployment.client.clone(),
        spool: host.folder.path().to_owned(),
        holder: "the test".to_owned(),
        metrics: SourcesMetrics::register(&Metrics::new()),
        readiness: readiness.clone(),
    };
    let built = build(CompensatorConfig::default(), deps).await.unwrap();
    for name in ["spool.db", "spool.db-wal", "spool.db-shm"] {
        fs::remove_file(host.folder.join(name)).unwrap();
    }
    host.spool.append(vec![record("next")]).await.unwrap();
    let running = tokio::spawn(built.run(shutdown.clone()));
    host.deployment.server.resume().await;
    for id in ["deleted", "next"] {
        wait_until(id, LONG, || async {
            host.present(message(id).at(UnixMillis::new(1)).at(FAR)).await
                == PutOutcome::Exists(State::Delayed, FAR)
        })
        .await;
    }
    wait_until("it to be ready", LONG, || async { readiness.unready().is_empty() }).await;
    shutdown.request();
    within("the compensator's end", SHORT, running).await.unwrap().unwrap();
}
