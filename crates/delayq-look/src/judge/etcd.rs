//! The members of etcd.

use super::causes::{ETCD_AWAY, ETCD_FULL, ETCD_MISCONFIGURED, ETCD_WITHOUT_LEADER};
use super::check::Check;
use delayq_cluster::EndpointHealth;
use delayq_service::Fault;

pub(super) fn judge(members: &Result<Vec<EndpointHealth>, Fault>) -> Vec<Check> {
    match members {
        Ok(members) => members.iter().map(member).collect(),
        Err(fault) => vec![ETCD_MISCONFIGURED.found(fault.to_string())],
    }
}

fn member(EndpointHealth { endpoint, version, has_leader, alarms, error }: &EndpointHealth) -> Check {
    match version {
        Some(version) if !alarms.is_empty() => {
            let alarms = alarms.join(", ");
            ETCD_FULL.found(format!("{endpoint}, version {version}, accepts no writes: alarm {alarms}"))
        }
        Some(version) if *has_leader => Check::good("etcd", format!("{endpoint}, version {version}")),
        Some(version) => ETCD_WITHOUT_LEADER.found(format!("{endpoint}, version {version}, no leader")),
        None => ETCD_AWAY.found(format!("{endpoint}: {}", error.as_deref().unwrap_or_default())),
    }
}
