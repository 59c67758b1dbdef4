//! A look at the deployment: Redis's shards and topics, and the exports of the processes.

use crate::deployment::Context;
use delayq_look::{Look, ProcessSeen, Want, Which, exporters};
use delayq_service::config::HostPort;
use std::time::Instant;

/// Maximum topics counted at each look, because a count asks every shard.
const TOPICS: usize = 100;

/// The deployment at a single moment.
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) look: Look,
    pub(super) processes: Vec<ProcessSeen>,
    /// The reason, if the registrations could not be read.
    pub(super) unregistered: Option<String>,
}

// === impl Sample ===

impl Sample {
    /// Takes a look. Costs Redis three short scripts a shard, and another script for each topic and shard.
    pub(super) async fn take(context: &Context, endpoints: &[HostPort]) -> Self {
        let at = Instant::now();
        let want = Want { layouts: true, topics: Which::All(Some(TOPICS)), ..Want::default() };
        let (look, (processes, unregistered)) = tokio::join!(
            Look::take(&context.deployment, want),
            exporters(&context.deployment, context.endpoints(endpoints))
        );
        Self { at, look, processes, unregistered }
    }

    /// The missing parts of Redis and etcd, a line each.
    pub(super) fn missing(&self) -> Vec<String> {
        let shards = self.look.shards.as_ref().err().map(|why| format!("shards: {why}"));
        let processes = self.unregistered.as_ref().map(|why| format!("processes: {why}"));
        shards.into_iter().chain(self.look.missing()).chain(processes).collect()
    }
}
