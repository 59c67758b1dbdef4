//! Readiness means that spooled records move, not only that Redis answers.

use super::{FAR, Host, message};
use delayq::spool::SpoolRecord;
use delayq::{Client, Fate};
use delayq_compensator::{CompensatorConfig, Deps, SourcesMetrics, build};
use delayq_service::{Fault, Metrics, Readiness, Shutdown};
use delayq_tests::deadline::{SHORT, wait_until, within};
use delayq_tests::deployment::settings;
use std::time::Duration;
use tokio::task::JoinHandle;

struct Running {
    readiness: Readiness,
    shutdown: Shutdown,
    task: JoinHandle<Result<(), Fault>>,
}

// === impl Running ===

impl Running {
    /// Calls wait for an answer for up to `deadline`.
    async fn start(host: &Host, deadline: Duration) -> Self {
        let (readiness, shutdown) = (Readiness::new(), Shutdown::new());
        let mut settings = settings(host.deployment.server.url(), 4);
        settings.link.deadline = deadline;
        let deps = Deps {
            client: Client::new(settings),
            spool: host.folder.path().to_owned(),
            holder: "the test".to_owned(),
            metrics: SourcesMetrics::register(&Metrics::new()),
            readiness: readiness.clone(),
        };
        let compensator = build(CompensatorConfig::default(), deps).await.unwrap();
        let running =
            Self { readiness, shutdown: shutdown.clone(), task: tokio::spawn(compensator.run(shutdown)) };
        running.is_ready().await;
        running
    }

    async fn is_ready(&self) {
        wait_until("the compensator to be ready", SHORT, || async { self.readiness.unready().is_empty() })
            .await;
    }

    async fn is_unready(&self, why: &str) {
        wait_until(why, SHORT, || async {
            self.readiness.unready().iter().any(|unready| unready.reason.contains(why))
        })
        .await;
    }

    async fn stop(self) {
        self.shutdown.request();
        within("the compensator's end", SHORT, self.task).await.unwrap().unwrap();
    }
}

async fn spool(host: &Host, id: &str) {
    host.spool.append(vec![SpoolRecord::put(&message(id), Fate::NotApplied, FAR)]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compensator_whose_step_does_not_end_is_not_ready_until_it_does() {
    let host = Host::start().await;
    let running = Running::start(&host, Duration::from_secs(60)).await;
    host.deployment.server.freeze();
    spool(&host, "a").await;
    running.is_unready("no record has been settled for 2 s").await;
    host.deployment.server.thaw();
    running.is_ready().await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compensator_that_may_not_put_is_not_ready_until_it_may() {
    let host = Host::start().await;
    let running = Running::start(&host, Duration::from_secs(2)).await;
    let () = host.deployment.server.command(&["ACL", "SETUSER", "default", "-evalsha"]).await;
    spool(&host, "a").await;
    running.is_unready("evalsha").await;
    // A record that can still be read does not restore readiness in between.
    spool(&host, "b").await;
    running.is_unready("evalsha").await;
    let () = host.deployment.server.command(&["ACL", "SETUSER", "default", "+evalsha"]).await;
    running.is_ready().await;
    running.stop().await;
}
