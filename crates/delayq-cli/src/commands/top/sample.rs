//! A look at the deployment: Redis's shards and topics, and the exports of the processes.

use crate::deployment::Context;
use crate::endpoints::known;
use crate::exposition::Exposition;
use delayq_look::{Look, Want, Which};
use delayq_service::config::HostPort;
use futures_util::future::join_all;
use std::time::Instant;

/// Maximum topics counted at each look, because a count asks every shard.
const TOPICS: usize = 100;

/// The deployment at a single moment.
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) look: Look,
    pub(super) processes: Vec<Process>,
    /// The reason, if the registrations could not be read.
    pub(super) unregistered: Option<String>,
}

/// A process: the exported metrics, or the reason for the missing answer.
pub(super) struct Process {
    pub(super) name: String,
    pub(super) exported: Result<Exposition, String>,
    pub(super) ready: bool,
}

// === impl Sample ===

impl Sample {
    /// Takes a look. Costs Redis three short scripts a shard, and another script for each topic and shard.
    pub(super) async fn take(context: &Context, endpoints: &[HostPort]) -> Self {
        let at = Instant::now();
        let want = Want { layouts: true, topics: Which::All(Some(TOPICS)), ..Want::default() };
        let (look, (processes, unregistered)) =
            tokio::join!(Look::take(&context.deployment, want), processes(context, endpoints));
        Self { at, look, processes, unregistered }
    }

    /// The missing parts of Redis and etcd, a line each.
    pub(super) fn missing(&self) -> Vec<String> {
        let shards = self.look.shards.as_ref().err().map(|why| format!("shards: {why}"));
        let processes = self.unregistered.as_ref().map(|why| format!("processes: {why}"));
        shards.into_iter().chain(self.look.missing()).chain(processes).collect()
    }
}

async fn processes(context: &Context, given: &[HostPort]) -> (Vec<Process>, Option<String>) {
    let (endpoints, unregistered) = known(&context.config, given).await;
    let processes = endpoints.into_iter().map(|endpoint| async move {
        let (metrics, ready) = tokio::join!(endpoint.get("/metrics"), endpoint.get("/readyz"));
        Process {
            exported: metrics.map(|text| Exposition::read(&text)),
            ready: ready.is_ok_and(|answer| answer.contains("\"ready\":true")),
            name: endpoint.name,
        }
    });
    (join_all(processes).await, unregistered)
}
