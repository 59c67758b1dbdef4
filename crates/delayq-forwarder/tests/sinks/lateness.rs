//! The lateness of each route.

use crate::stage::{Stage, route};
use delayq_forwarder::{FileConfig, SinkConfig};
use delayq_tests::deadline::{LONG, wait_until};

#[tokio::test(flavor = "multi_thread")]
async fn the_lateness_of_deliveries_is_shown_by_route_from_the_start() {
    let stage = Stage::new().await;
    let folder = tempfile::tempdir().unwrap();
    let file = FileConfig { dir: folder.path().to_owned(), rotate_at: None };
    let sink = SinkConfig { file: Some(file), ..SinkConfig::default() };
    let routes = vec![route("orders.*", "s", "x"), route("rest", "s", "x")];
    let running = stage.forward(stage.settings([("s", sink)], routes)).await.unwrap();
    let delivered = |route: &str| {
        let series = format!("delayq_forwarder_lateness_seconds_count{{route=\"{route}\",sink=\"s\"}}");
        assert!(running.metrics.encode().contains(&series), "{route} is not shown");
        running.metric(&series) as u64
    };
    assert_eq!((delivered("orders.*"), delivered("rest")), (0, 0));
    stage.put("orders.paid", 0, 2, 10).await;
    stage.put("orders.open", 2, 1, 10).await;
    stage.put("rest", 3, 4, 10).await;
    wait_until("all delivered", LONG, || async { delivered("orders.*") + delivered("rest") == 7 }).await;
    assert_eq!((delivered("orders.*"), delivered("rest")), (3, 4));
    running.stop().await;
}
