//! Export by OTLP over gRPC.
//!
//! During a call the next spans gather, so calls grow with the collector's latency, up to a bound. The SDK's processor
//! is not used: it drops without a metric, and cannot take the times, ids and parents that are known here.

use super::counts::{Counts, DROPPED, EXPORTED, FAILED};
use super::span::{Own, Span};
use crate::codes::CONFIG_FAULTY;
use crate::config::{ExposeSecret, TracesConfig};
use crate::fault::Fault;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as OtlpSpan, Status};
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue, MetadataMap};
use tonic::transport::{Channel, ClientTlsConfig};

/// Maximum number of spans in one call.
const BATCH: usize = 512;
/// Maximum time of a call, and of a connection attempt.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Rest after a failure of the collector.
const REST: Duration = Duration::from_secs(1);
/// Maximum time for the last spans after the last producer is dropped; counts against the drain.
const LAST: Duration = Duration::from_secs(1);

/// Sends queued spans to the collector.
#[derive(Debug)]
pub struct Exporter {
    queued: Receiver<Span>,
    ended: CancellationToken,
    under_way: u64,
    client: TraceServiceClient<Channel>,
    headers: MetadataMap,
    resource: Resource,
    scope: InstrumentationScope,
    counts: Counts,
}

struct Refusal {
    /// `None`: all of the call.
    spans: Option<u64>,
    why: String,
}

// === impl Exporter ===

impl Exporter {
    /// Connects on first use.
    pub(super) fn new(
        config: &TracesConfig,
        own: Own<'_>,
        (queued, ended): (Receiver<Span>, CancellationToken),
        counts: Counts,
    ) -> Result<Self, Fault> {
        let refuse = |why: String| Fault::new(&CONFIG_FAULTY, format!("traces.{why}"));
        Ok(Self {
            queued,
            ended,
            under_way: 0,
            client: TraceServiceClient::new(channel(&config.endpoint).map_err(refuse)?),
            headers: headers(config).map_err(refuse)?,
            resource: resource(config, own),
            scope: InstrumentationScope {
                name: "delayq".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                ..InstrumentationScope::default()
            },
            counts,
        })
    }

    /// Exports until the last producer of spans is dropped; then exports the queue for at most a second, unless the
    /// collector is down.
    ///
    /// # Errors
    /// Never: a collector that is down is logged, and its spans are counted.
    pub async fn run(mut self) -> Result<(), Fault> {
        let ended = self.ended.clone();
        let too_late = async {
            ended.cancelled().await;
            tokio::time::sleep(LAST).await;
        };
        tokio::select! {
            () = self.export_all() => {}
            () = too_late => {}
        }
        self.counts.add(FAILED, self.under_way);
        self.counts.add(DROPPED, self.queued.len() as u64);
        Ok(())
    }

    async fn export_all(&mut self) {
        let (mut batch, mut failing) = (Vec::with_capacity(BATCH), false);
        while self.queued.recv_many(&mut batch, BATCH).await > 0 {
            let count = batch.len() as u64;
            self.under_way = count;
            let taken = self.export(batch.drain(..).map(otlp).collect()).await;
            self.under_way = 0;
            let refused = taken.as_ref().map_or_else(|refusal| refusal.spans.unwrap_or(count), |()| 0);
            self.counts.add(FAILED, refused);
            self.counts.add(EXPORTED, count.saturating_sub(refused));
            log_change(&taken, std::mem::replace(&mut failing, taken.is_err()));
            if refused >= count {
                if self.ended.is_cancelled() {
                    return;
                }
                tokio::time::sleep(REST).await;
            }
        }
    }

    async fn export(&mut self, spans: Vec<OtlpSpan>) -> Result<(), Refusal> {
        let scope_spans = ScopeSpans { scope: Some(self.scope.clone()), spans, ..ScopeSpans::default() };
        let resource_spans = ResourceSpans {
            resource: Some(self.resource.clone()),
            scope_spans: vec![scope_spans],
            ..ResourceSpans::default()
        };
        let mut request =
            tonic::Request::new(ExportTraceServiceRequest { resource_spans: vec![resource_spans] });
        *request.metadata_mut() = self.headers.clone();
        let answer = self.client.export(request).await.map_err(|status| Refusal {
            spans: None,
            why: format!("{}: {}", status.code(), status.message()),
        })?;
        let partial = answer.into_inner().partial_success.unwrap_or_default();
        match u64::try_from(partial.rejected_spans) {
            Ok(0) | Err(_) => Ok(()),
            Ok(spans) => Err(Refusal { spans: Some(spans), why: partial.error_message }),
        }
    }
}

/// Logs when a collector starts to fail, and when it recovers.
fn log_change(taken: &Result<(), Refusal>, failing: bool) {
    match taken {
        Err(Refusal { why, .. }) if !failing => {
            tracing::warn!(why, "the collector does not accept spans; counting the lost ones");
        }
        Ok(()) if failing => tracing::info!("the collector accepts spans again"),
        _ => {}
    }
}

fn channel(endpoint: &str) -> Result<Channel, String> {
    let refuse = |error: tonic::transport::Error| format!("endpoint: `{endpoint}` cannot be used: {error}");
    let channel = Channel::from_shared(endpoint.to_owned())
        .map_err(|error| format!("endpoint: `{endpoint}` cannot be used: {error}"))?
        .connect_timeout(TIMEOUT)
        .timeout(TIMEOUT);
    let channel = match endpoint.starts_with("https://") {
        true => channel.tls_config(ClientTlsConfig::new().with_native_roots()).map_err(refuse)?,
        false => channel,
    };
    Ok(channel.connect_lazy())
}

fn headers(config: &TracesConfig) -> Result<MetadataMap, String> {
    let mut headers = MetadataMap::new();
    for (name, secret) in &config.headers {
        let refuse = |why: &dyn std::fmt::Display| format!("headers.{name}: {why}");
        let key: AsciiMetadataKey = name.parse().map_err(|error| refuse(&error))?;
        let secret = secret.reveal().map_err(|why| refuse(&why))?;
        let mut value: AsciiMetadataValue = secret
            .expose_secret()
            .parse()
            .map_err(|_| refuse(&"the value contains characters that no header can"))?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

fn resource(config: &TracesConfig, own: Own<'_>) -> Resource {
    let own = own.into_iter().filter(|(name, _)| !config.attributes.contains_key(*name));
    let given = config.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let attributes = own.chain(given).map(|(name, value)| attribute(name, value.to_owned())).collect();
    Resource { attributes, ..Resource::default() }
}

fn attribute(name: &str, value: String) -> KeyValue {
    let value = Some(AnyValue { value: Some(any_value::Value::StringValue(value)) });
    KeyValue { key: name.to_owned(), value, ..KeyValue::default() }
}

fn otlp(span: Span) -> OtlpSpan {
    let Span { name, own, parent, sends, start, end, attributes, failure } = span;
    OtlpSpan {
        trace_id: own.trace.to_be_bytes().to_vec(),
        span_id: own.span.to_be_bytes().to_vec(),
        parent_span_id: parent.to_be_bytes().to_vec(),
        name: name.to_owned(),
        kind: if sends { SpanKind::Producer } else { SpanKind::Internal }.into(),
        start_time_unix_nano: start.0.saturating_mul(1000),
        end_time_unix_nano: end.0.saturating_mul(1000),
        attributes: attributes.into_iter().map(|(name, value)| attribute(name, value)).collect(),
        status: failure.map(|message| Status { message, code: StatusCode::Error.into() }),
        ..OtlpSpan::default()
    }
}
