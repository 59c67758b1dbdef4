//! The spans of a message, as a collector decodes them.

use crate::stage::{Stage, route, topic};
use async_trait::async_trait;
use delayq::Message;
use delayq_forwarder::{FileConfig, SinkConfig};
use delayq_service::config::{Secret, TracesConfig};
use delayq_service::traces::{self, Exporter};
use delayq_service::{Metrics, Process, Program, Traces};
use delayq_tests::deadline::{LONG, wait_until, within};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

const TRACE: u128 = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;
const PUT: u64 = 0x00f0_67aa_0ba9_02b7;

#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Call>>>);

struct Call {
    token: Option<String>,
    sent: ExportTraceServiceRequest,
}

// === impl Collector ===

#[async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let token = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        let token = token.map(str::to_owned);
        self.0.lock().unwrap().push(Call { token, sent: request.into_inner() });
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    fn start(&self) -> String {
        let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let endpoint = format!("http://{}", incoming.local_addr().unwrap());
        let server = Server::builder().add_service(TraceServiceServer::new(self.clone()));
        tokio::spawn(server.serve_with_incoming(incoming));
        endpoint
    }

    fn spans(&self) -> Vec<Span> {
        let calls = self.0.lock().unwrap();
        let resources = calls.iter().flat_map(|call| &call.sent.resource_spans);
        let mut spans: Vec<Span> =
            resources.flat_map(|of| &of.scope_spans).flat_map(|of| of.spans.clone()).collect();
        spans.sort_by_key(|span| (span.start_time_unix_nano, span.end_time_unix_nano));
        spans
    }
}

fn to(endpoint: &str) -> TracesConfig {
    TracesConfig { endpoint: endpoint.to_owned(), ..TracesConfig::default() }
}

fn open(config: &TracesConfig) -> (Traces, Exporter, Metrics) {
    let process = Process::new(Program { name: "delayq-forwarder", version: "1.2.3" });
    let (traces, exporter) = traces::open(config, &process, "one").unwrap();
    (traces, exporter.unwrap(), process.metrics)
}

fn file(folder: &Path) -> SinkConfig {
    let file = FileConfig { dir: folder.to_owned(), rotate_at: None };
    SinkConfig { file: Some(file), ..SinkConfig::default() }
}

fn message(id: &str, trace: u128, flags: u8) -> Message {
    let header = format!("00-{trace:032x}-{PUT:016x}-{flags:02x}");
    Message::new(topic("t"), "x").id(id).unwrap().header("traceparent", header)
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<&str, &str> {
    let each = attributes.iter().map(|pair| match &pair.value.as_ref().unwrap().value {
        Some(any_value::Value::StringValue(text)) => (pair.key.as_str(), text.as_str()),
        other => panic!("{}: {other:?}", pair.key),
    });
    each.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_trace_leads_from_the_put_through_pump_and_reserve_to_the_delivery() {
    let (stage, collector) = (Stage::new().await, Collector::default());
    let config = TracesConfig {
        headers: [("authorization".to_owned(), Secret::plain("Bearer hunter2"))].into(),
        attributes: [("deployment.environment.name".to_owned(), "test".to_owned())].into(),
        ..to(&collector.start())
    };
    let (traces, exporter, metrics) = open(&config);
    let exporting = tokio::spawn(exporter.run());
    let folder = tempfile::tempdir().unwrap();
    let settings = stage.settings([("s", file(folder.path()))], vec![route("t", "s", "out")]);
    let running = stage.forward_traced(settings, traces).await.unwrap();
    let messages = vec![
        message("recorded", TRACE, 1),
        message("unrecorded", TRACE + 1, 0),
        Message::new(topic("t"), "x").id("untraced").unwrap(),
    ];
    for answer in stage.producer.put_many(messages).await {
        assert!(answer.unwrap().outcome.is_accepted());
    }
    stage.drained("t").await;
    running.stop().await;
    within("the last spans", LONG, exporting).await.unwrap().unwrap();

    let deliver = of_one_delivery(&collector.spans());
    let delivered = std::fs::read_to_string(folder.path().join("out")).unwrap();
    let records: Vec<Value> = delivered.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |id: &str| &records.iter().find(|record| record["id"] == id).unwrap()["headers"];
    assert_eq!(of("recorded")["traceparent"], format!("00-{TRACE:032x}-{deliver:016x}-01"));
    assert_eq!(of("unrecorded")["traceparent"], format!("00-{:032x}-{PUT:016x}-00", TRACE + 1));
    let text = metrics.encode();
    assert!(text.contains("delayq_traces_spans_total{outcome=\"exported\"} 3"), "{text}");

    let calls = collector.0.lock().unwrap();
    assert!(calls.iter().all(|call| call.token.as_deref() == Some("Bearer hunter2")));
    let resource = calls[0].sent.resource_spans[0].resource.as_ref().unwrap();
    let expected = [
        ("deployment.environment.name", "test"),
        ("service.instance.id", "one"),
        ("service.name", "delayq-forwarder"),
        ("service.version", "1.2.3"),
    ];
    assert_eq!(texts(&resource.attributes), BTreeMap::from(expected));
}

/// Returns the id of the last span.
fn of_one_delivery(spans: &[Span]) -> u64 {
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["delayq.pump", "delayq.reserve", "delayq.deliver"], "{spans:?}");
    for span in spans {
        assert_eq!(span.trace_id, TRACE.to_be_bytes());
        assert_eq!(span.parent_span_id, PUT.to_be_bytes());
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{span:?}");
        assert!(span.status.is_none(), "{span:?}");
        let about = texts(&span.attributes);
        assert_eq!((about["messaging.destination.name"], about["messaging.message.id"]), ("t", "recorded"));
    }
    let [pump, reserve, deliver] = spans else { unreachable!() };
    // The due time has whole milliseconds, so the message was due before ready.
    assert_eq!(pump.start_time_unix_nano % 1_000_000, 0);
    assert_eq!(pump.end_time_unix_nano, reserve.start_time_unix_nano);
    assert!(reserve.end_time_unix_nano <= deliver.start_time_unix_nano);
    assert_eq!((reserve.kind(), deliver.kind()), (SpanKind::Internal, SpanKind::Producer));
    u64::from_be_bytes(deliver.span_id[..].try_into().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_span_of_a_failed_delivery_says_why() {
    let (stage, collector) = (Stage::new().await, Collector::default());
    let (traces, exporter, _metrics) = open(&to(&collector.start()));
    let exporting = tokio::spawn(exporter.run());
    let folder = tempfile::tempdir().unwrap();
    // A folder in place of the file makes every write fail.
    std::fs::create_dir(folder.path().join("out")).unwrap();
    let settings = stage.settings([("s", file(folder.path()))], vec![route("t", "s", "{header.to}")]);
    let running = stage.forward_traced(settings, traces).await.unwrap();
    let put = stage.producer.put(message("a", TRACE, 1).header("to", "out")).await;
    assert!(put.unwrap().outcome.is_accepted());
    wait_until("a failed delivery", LONG, || async {
        collector.spans().iter().any(|span| span.name == "delayq.deliver")
    })
    .await;
    running.stop().await;
    within("the last spans", LONG, exporting).await.unwrap().unwrap();
    let spans = collector.spans();
    for span in spans.iter().filter(|span| span.name == "delayq.deliver") {
        let status = span.status.as_ref().unwrap();
        assert!(status.code() == StatusCode::Error && !status.message.is_empty(), "{status:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_put_back_as_its_destination_rests_makes_no_spans() {
    let (stage, collector) = (Stage::new().await, Collector::default());
    let (traces, exporter, _metrics) = open(&to(&collector.start()));
    let exporting = tokio::spawn(exporter.run());
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("out")).unwrap();
    let mut settings = stage.settings([("s", file(folder.path()))], vec![route("t", "s", "{header.to}")]);
    settings.forwarder.circuit_failures = 1;
    let running = stage.forward_traced(settings, traces).await.unwrap();
    // The sink accepts some messages, so that one destination rests, and not the sink.
    let to = |n| if n % 2 == 0 { "out" } else { "good" };
    let messages = (0..40).map(|n| message(&n.to_string(), TRACE, 1).header("to", to(n))).collect();
    for answer in stage.producer.put_many(messages).await {
        assert!(answer.unwrap().outcome.is_accepted());
    }
    wait_until("messages that are put back", LONG, || async {
        let text = running.metrics.encode();
        undelivered(&text, "delayq_forwarder_settled") > undelivered(&text, "delayq_forwarder_outcomes")
    })
    .await;
    running.stop().await;
    within("the last spans", LONG, exporting).await.unwrap().unwrap();
    let spans = collector.spans();
    let count = |name: &str| spans.iter().filter(|span| span.name == name).count();
    assert!(count("delayq.deliver") >= 20);
    assert_eq!(count("delayq.pump"), count("delayq.deliver"));
    assert_eq!(count("delayq.reserve"), count("delayq.deliver"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_its_route_cannot_encode_has_the_span_of_a_failed_delivery() {
    let (stage, collector) = (Stage::new().await, Collector::default());
    let (traces, exporter, _metrics) = open(&to(&collector.start()));
    let exporting = tokio::spawn(exporter.run());
    let folder = tempfile::tempdir().unwrap();
    let settings = stage.settings([("s", file(folder.path()))], vec![route("t", "s", "{header.to}")]);
    let running = stage.forward_traced(settings, traces).await.unwrap();
    assert!(stage.producer.put(message("a", TRACE, 1)).await.unwrap().outcome.is_accepted());
    wait_until("the failed delivery", LONG, || async {
        collector.spans().iter().any(|span| span.name == "delayq.deliver")
    })
    .await;
    running.stop().await;
    within("the last spans", LONG, exporting).await.unwrap().unwrap();
    let spans = collector.spans();
    let [.., deliver] = &spans[..] else { panic!("{spans:?}") };
    let (status, about) = (deliver.status.as_ref().unwrap(), texts(&deliver.attributes));
    assert!(status.code() == StatusCode::Error && status.message.contains("header.to"), "{status:?}");
    assert_eq!((about["delayq.sink"], about["delayq.outcome"]), ("s", "rejected"));
    assert_eq!(about.get("delayq.destination"), None);
}

fn undelivered(text: &str, name: &str) -> f64 {
    let lines = text.lines().filter(|line| line.starts_with(name) && !line.contains("\"delivered\""));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_gone_or_does_not_answer_changes_nothing() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for endpoint in [gone, silent.local_addr().unwrap()] {
        let stage = Stage::new().await;
        let (traces, exporter, metrics) = open(&to(&format!("http://{endpoint}")));
        let exporting = tokio::spawn(exporter.run());
        let folder = tempfile::tempdir().unwrap();
        let settings = stage.settings([("s", file(folder.path()))], vec![route("t", "s", "out")]);
        let running = stage.forward_traced(settings, traces).await.unwrap();
        // Three spans each: more than the queue holds.
        let messages = (0..4000).map(|n| message(&n.to_string(), TRACE, 1)).collect();
        for answer in stage.producer.put_many(messages).await {
            assert!(answer.unwrap().outcome.is_accepted());
        }
        stage.drained("t").await;
        assert_eq!(stage.numbers("t").await.delivered, 4000);
        running.stop().await;
        within("the end of the exporter", LONG, exporting).await.unwrap().unwrap();
        let text = metrics.encode();
        let spans = |outcome: &str| -> u64 {
            let line = format!("delayq_traces_spans_total{{outcome=\"{outcome}\"}} ");
            text.lines().find_map(|found| found.strip_prefix(&line)).unwrap().parse().unwrap()
        };
        let (exported, failed, dropped) = (spans("exported"), spans("failed"), spans("dropped"));
        assert_eq!((exported, failed + dropped), (0, 3 * 4000), "{failed} failed, {dropped} dropped");
        assert!(failed > 0 && dropped > 0, "{failed} failed, {dropped} dropped");
    }
}
