//! A call that passed the checks.

use super::call::QueueCall;
use super::job;
use super::parameters::Parameters;
use super::reply::{Refusal, internal};
use super::state::Lmstfy;
use crate::input::Whole;
use crate::server::{Outgoing, Peer};
use crate::state::App;
use axum::body::Body;
use axum::http::HeaderMap;
use delayq::{Target, Topic};
use std::time::Duration;

/// How long a body is dropped that nobody reads.
const UNREAD: Duration = Duration::from_secs(30);

/// A call that passed the checks.
pub(super) struct CheckedCall {
    pub(super) lmstfy: Lmstfy,
    /// The engine of the pool.
    pub(super) app: App,
    pub(super) pool: String,
    pub(super) call: QueueCall,
    /// The topics: one, unless several queues are consumed.
    pub(super) topics: Vec<Topic>,
    pub(super) query: Parameters,
    pub(super) headers: HeaderMap,
    pub(super) connection: Option<(Outgoing, Peer)>,
}

// === impl CheckedCall ===

impl CheckedCall {
    pub(super) fn topic(&self) -> &Topic {
        &self.topics[0]
    }

    /// The message of a job's id; `None`: no message can have this id. A growth may have added the shard that it names.
    pub(super) async fn target(&self, job_id: &str) -> Result<Option<Target>, Refusal> {
        let Some(target) = job::target(job_id) else { return Ok(None) };
        let client = self.app.unscoped().admin.client();
        let exists = || target.id.shard().is_none_or(|shard| client.shards().contains(shard));
        if !exists() {
            // Any call of a shard that has grown says so.
            self.app.unscoped().admin.topic(self.topic()).count().await.map_err(internal)?;
        }
        Ok(exists().then_some(target))
    }
}

/// Answers a request whose body nobody reads: the rest of the body is dropped.
pub(super) fn refused(body: Body, refusal: Refusal) -> Refusal {
    Whole::discard(body, UNREAD);
    refusal
}
