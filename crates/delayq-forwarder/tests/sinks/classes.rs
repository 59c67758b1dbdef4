//! The classes that routes name.

use crate::stage::{Stage, route};
use delayq_forwarder::{FileConfig, RouteConfig, SinkConfig};
use delayq_tests::deadline::{LONG, wait_until};

#[tokio::test(flavor = "multi_thread")]
async fn the_lateness_of_deliveries_is_shown_by_the_class_of_their_route_from_the_start() {
    let stage = Stage::new().await;
    let folder = tempfile::tempdir().unwrap();
    let file = FileConfig { dir: folder.path().to_owned(), rotate_at: None };
    let sink = SinkConfig { file: Some(file), ..SinkConfig::default() };
    let orders = RouteConfig { class: Some("orders".to_owned()), ..route("orders.*", "s", "x") };
    let routes = vec![orders, route("rest", "s", "x")];
    let running = stage.forward(stage.settings([("s", sink)], routes)).await.unwrap();
    let delivered = |class: &str| {
        let series = format!("delayq_forwarder_lateness_seconds_count{{class=\"{class}\",sink=\"s\"}}");
        assert!(running.metrics.encode().contains(&series), "{class} is not shown");
        running.metric(&series) as u64
    };
    assert_eq!((delivered("orders"), delivered("default")), (0, 0));
    stage.put("orders.paid", 0, 2, 10).await;
    stage.put("orders.open", 2, 1, 10).await;
    stage.put("rest", 3, 4, 10).await;
    wait_until("all delivered", LONG, || async { delivered("orders") + delivered("default") == 7 }).await;
    assert_eq!((delivered("orders"), delivered("default")), (3, 4));
    running.stop().await;
}
