//! Watches etcd's alarms: an etcd that takes no writes answers everything else, and only the leader writes.

use crate::etcd::EtcdLink;
use crate::membership::Leaving;
use std::time::Duration;
use tokio::time::sleep;

const EVERY: Duration = Duration::from_secs(5);

pub(crate) async fn watch_alarms(link: EtcdLink, mut leaving: Leaving) {
    loop {
        tokio::select! {
            _ = leaving.changed() => return,
            () = sleep(EVERY) => {}
        }
        if let Err(error) = link.look_for_alarms().await {
            tracing::debug!(?error, "cannot read the alarms of etcd");
        }
    }
}
