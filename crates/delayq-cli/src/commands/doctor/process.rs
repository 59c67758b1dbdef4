//! The process that the configuration is for, if on this host: the reason for not being ready, for example a resting
//! destination.

use crate::deployment::Context;
use delayq_look::Check;
use delayq_service::config::Listen;
use delayq_service::unready;

/// No check if no process listens there: the process may run on another host.
pub(super) async fn check(context: &Context) -> Option<Check> {
    let Listen::At(address) = context.config.admin.listen.clone() else { return None };
    let shown = address.to_string();
    let answer = tokio::task::spawn_blocking(move || unready(&address)).await.ok()?.ok()?;
    Some(match answer {
        None => Check::good("process", format!("{shown} is ready")),
        Some(why) => Check::bad("process", format!("{shown} is not ready: {why}"), "see its log"),
    })
}
