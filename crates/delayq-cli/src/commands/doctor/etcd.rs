//! etcd's members.

use super::Check;
use crate::deployment::Context;
use crate::fleet::observer;
use crate::verdicts::SILENT_ETCD;

pub(super) async fn checks(context: &Context) -> Vec<Check> {
    if !context.config.etcd.enabled {
        return vec![Check::good("etcd", "not used: a single timer owns every shard")];
    }
    let observer = match observer(&context.config) {
        Ok(observer) => observer,
        Err(fault) => return vec![Check::bad("etcd", fault.to_string(), "correct [etcd]")],
    };
    let healths = observer.health().await.into_iter().map(|health| match (health.version, health.error) {
        (Some(version), _) if !health.alarms.is_empty() => Check::new(
            "etcd",
            SILENT_ETCD,
            format!(
                "{}, version {version}, takes no writes: alarm {}",
                health.endpoint,
                health.alarms.join(", ")
            ),
            "compact and defragment it, then disarm the alarm, or raise its quota",
        ),
        (Some(version), _) if health.has_leader => {
            Check::good("etcd", format!("{}, version {version}", health.endpoint))
        }
        (Some(version), _) => Check::new(
            "etcd",
            SILENT_ETCD,
            format!("{}, version {version}, no leader", health.endpoint),
            "bring a majority of the members up",
        ),
        (None, fault) => Check::new(
            "etcd",
            SILENT_ETCD,
            format!("{}: {}", health.endpoint, fault.unwrap_or_default()),
            "start it, correct [etcd] endpoints, or set enabled = false",
        ),
    });
    healths.collect()
}
