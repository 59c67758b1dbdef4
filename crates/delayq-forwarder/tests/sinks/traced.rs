//! From a late delivery to the trace.

use crate::stage::{Stage, route, topic};
use delayq::Message;
use delayq_forwarder::{FileConfig, SinkConfig};
use delayq_tests::deadline::{LONG, wait_until};

const RECORDED: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const UNRECORDED: &str = "5bf92f3577b34da6a3ce929d0e0e4736";

#[tokio::test(flavor = "multi_thread")]
async fn the_lateness_of_a_delivery_names_the_trace_that_is_recorded_of_it() {
    let stage = Stage::new().await;
    for (trace, flags) in [(UNRECORDED, "00"), (RECORDED, "01")] {
        let message = Message::new(topic("t"), "x")
            .header("traceparent", format!("00-{trace}-00f067aa0ba902b7-{flags}"));
        assert!(stage.producer.put(message).await.unwrap().outcome.is_accepted());
    }
    let folder = tempfile::tempdir().unwrap();
    let file = FileConfig { dir: folder.path().to_owned(), rotate_at: None };
    let sink = SinkConfig { file: Some(file), ..SinkConfig::default() };
    let running = stage.forward(stage.settings([("s", sink)], vec![route("t", "s", "x")])).await.unwrap();
    wait_until("both delivered", LONG, || async {
        running.metric("delayq_forwarder_lateness_seconds_count") >= 2.0
    })
    .await;
    let text = running.metrics.encode();
    let exemplar = format!(" # {{trace_id=\"{RECORDED}\"}} ");
    let named = text.lines().filter(|line| line.contains("trace_id"));
    for line in named {
        assert!(
            line.starts_with("delayq_forwarder_lateness_seconds_bucket{") && line.contains(&exemplar),
            "{line}"
        );
    }
    assert!(text.contains(&exemplar), "{text}");
    running.stop().await;
}
