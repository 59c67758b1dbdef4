//! `delayq init`.

use crate::deployment::Context;
use crate::failure::of_core;
use clap::Args;
use delayq_service::Fault;
use serde_json::json;

/// Create the deployment in Redis, or check that it exists
///
/// An existing one must have the same number of shards. Safe to repeat.
#[derive(Debug, Args)]
pub struct Init {}

// === impl Init ===

impl Init {
    /// Does it.
    ///
    /// # Errors
    /// A Redis that is unfit or cannot be used, or a deployment with other numbers.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let client = context.client();
        let admin = context.admin();
        admin.check_server().await.map_err(of_core)?;
        let created = admin.init().await.map_err(of_core)?;
        let (shards, namespace) = (client.shards(), &context.config.deployment.namespace);
        let value = json!({ "namespace": namespace, "shards": shards.get(), "created": created });
        context.output.print(&value, || match created {
            0 => format!("{namespace}: exists already, with {} in {}", shards.in_words(), client.address()),
            _ => format!("{namespace}: created {created} of {} in {}", shards.in_words(), client.address()),
        })
    }
}
