//! The members of etcd.

use super::causes::{ETCD_AWAY, ETCD_FULL, ETCD_MISCONFIGURED, ETCD_WITHOUT_LEADER};
use super::check::Check;
use delayq_cluster::EndpointHealth;
use delayq_service::Fault;

pub(super) fn judge(members: &Result<Vec<EndpointHealth>, Fault>) -> Vec<Check> {
    match members {
        Ok(members) => members.iter().map(member).collect(),
        Err(fault) => vec![ETCD_MISCONFIGURED.found(fault.to_string(), []).with("why", fault.to_string())],
    }
}

fn member(EndpointHealth { endpoint, version, has_leader, alarms, error }: &EndpointHealth) -> Check {
    match version {
        Some(version) if !alarms.is_empty() => {
            let alarms = alarms.join(", ");
            let found = format!("{endpoint}, version {version}, accepts no writes: alarm {alarms}");
            ETCD_FULL.found(found, [endpoint.as_str().into(), alarms.into()])
        }
        Some(version) if *has_leader => Check::good("etcd", format!("{endpoint}, version {version}")),
        Some(version) => {
            let found = format!("{endpoint}, version {version}, no leader");
            ETCD_WITHOUT_LEADER.found(found, [endpoint.as_str().into()])
        }
        None => {
            let why = error.as_deref().unwrap_or_default();
            ETCD_AWAY.found(format!("{endpoint}: {why}"), [endpoint.as_str().into()]).with("why", why)
        }
    }
}
