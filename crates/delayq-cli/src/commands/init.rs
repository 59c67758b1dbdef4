//! `delayq init`.

use crate::deployment::Context;
use crate::failure::of_core;
use crate::fleet::replace_deployment;
use clap::Args;
use delayq_service::Fault;
use serde_json::json;

/// Create the deployment in Redis, or check that it exists
///
/// An existing one must have the same number of shards. Safe to repeat.
#[derive(Debug, Args)]
pub struct Init {
    /// Record this deployment in etcd in the place of the recorded one, whose Redis is gone for good
    ///
    /// The first timer records the identity of its deployment, and timers of another one are refused.
    #[arg(long)]
    replace: bool,
}

// === impl Init ===

impl Init {
    /// Creates the deployment if missing.
    ///
    /// # Errors
    /// Redis is unfit or cannot be used, or the deployment has other numbers.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let client = context.client();
        let admin = context.admin();
        admin.check_server().await.map_err(of_core)?;
        let created = admin.init().await.map_err(of_core)?;
        let identity = admin.identify().await.map_err(of_core)?;
        let replaced = match self.replace {
            true => replace_deployment(&context.config, identity).await?,
            false => None,
        };
        let (shards, namespace) = (client.shards(), &context.config.deployment.namespace);
        let mut value = json!({ "namespace": namespace, "shards": shards.get(), "created": created, "identity": identity });
        if let Some(replaced) = replaced {
            value["replaced_identity"] = json!(replaced);
        }
        context.output.print(&value, || {
            let (shards, address) = (shards.in_words(), client.address());
            let mut text = match created {
                0 => format!("{namespace}: already exists, with {shards} in {address}"),
                _ => format!("{namespace}: created {created} of {shards} in {address}"),
            };
            if let Some(replaced) = replaced {
                let (before, now) = (replaced.short(), identity.short());
                text.push_str(&format!("; etcd recorded deployment {before}, and now records {now}"));
            }
            text
        })
    }
}
