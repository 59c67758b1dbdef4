//! The status of an endpoint, including its alarms.

use super::link::{EtcdError, EtcdLink};
use etcd_client::StatusResponse;
use tokio::time::timeout;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) version: String,
    pub(crate) has_leader: bool,
    /// The names of the alarms that any member of etcd raised. With any alarm, etcd takes no writes.
    pub(crate) alarms: Vec<String>,
}

// === impl Status ===

impl Status {
    fn of(response: &StatusResponse) -> Self {
        Self {
            version: response.version().to_owned(),
            has_leader: response.leader() != 0,
            alarms: response.errors().iter().filter_map(|error| alarm(error)).collect(),
        }
    }
}

/// The name of an alarm, which etcd lists among its errors.
fn alarm(error: &str) -> Option<String> {
    let (_, name) = error.split_once("alarm:")?;
    Some(name.trim().to_owned())
}

// === impl EtcdLink ===

impl EtcdLink {
    /// Asks one endpoint after the other, each within the request deadline.
    pub(crate) async fn statuses(&self) -> Vec<(String, Result<Status, EtcdError>)> {
        let mut statuses = Vec::new();
        for endpoint in &self.config().endpoints {
            let ask = async {
                let mut client = self.connect(endpoint).await?;
                client.status().await.map(|status| Status::of(&status)).map_err(|e| EtcdError::of(&e))
            };
            let deadline = *self.config().call_deadline;
            let silent = || Err(EtcdError::Silent(format!("no reply within {deadline:?}")));
            let status = timeout(deadline, ask).await.unwrap_or_else(|_| silent());
            statuses.push((endpoint.to_string(), status));
        }
        statuses
    }

    /// [`Self::refusal`] returns the result.
    pub(crate) async fn look_for_alarms(&self) -> Result<(), EtcdError> {
        match self.present_status().await?.alarms.as_slice() {
            [] => self.note_write(),
            alarms => self.note_refusal(&format!("alarm {}", alarms.join(", "))),
        }
        Ok(())
    }

    /// Keeps a connection that does not answer: only the requests that matter give a connection up.
    async fn present_status(&self) -> Result<Status, EtcdError> {
        self.count_request();
        let deadline = *self.config().call_deadline;
        let status = async { self.client().await?.status().await.map_err(|error| EtcdError::of(&error)) };
        let answer = timeout(deadline, status).await;
        let silent = |_| EtcdError::Silent(format!("no reply within {deadline:?}"));
        answer.map_err(silent)?.map(|status| Status::of(&status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_is_known_among_other_errors() {
        assert_eq!(alarm("memberID:10501334649042878790 alarm:NOSPACE "), Some("NOSPACE".to_owned()));
        assert_eq!(alarm("etcdserver: no leader"), None);
    }
}
