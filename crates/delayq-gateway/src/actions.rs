//! The log of who did what through a gateway: a stream of bounded length in Redis, which all gateways share.
//!
//! ```text
//!  guard: who, what, outcome ──┬─► equal actions of a second ─► one entry
//!  handler: messages, details ─┘
//! ```
//! So a program that cancels thousands of messages a second writes an entry a second. A gateway that is killed loses the entries of
//! its last second.

use crate::metrics::GatewayMetrics;
use crate::sessions::Caller;
use crate::tenant::Tenant;
use axum::http::StatusCode;
use axum::response::Response;
use delayq::admin::LoggedAction;
use delayq::{Admin, Error};
use delayq_service::Shutdown;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::mpsc;

/// The action of a dry run, which begins no operation.
pub(crate) const COUNT: &str = "countOperation";
/// The action of a settlement that buries messages.
pub(crate) const BURY: &str = "bury";
const GATHER: Duration = Duration::from_secs(1);
/// Maximum actions that wait for the log.
const MAX_WAITING: usize = 10_000;
/// Maximum entries that a page is searched in.
const MAX_SEARCHED: usize = 10_000;
const PAGE: usize = 500;

/// Clones share the log.
#[derive(Clone)]
pub(crate) struct Actions {
    waiting: mpsc::Sender<(Action, ActionTally)>,
    admin: Admin,
    metrics: GatewayMetrics,
}

/// Writes what [`Actions`] gathers.
pub(crate) struct Recording {
    arriving: mpsc::Receiver<(Action, ActionTally)>,
    admin: Admin,
    keep: u32,
    metrics: GatewayMetrics,
}

/// Names are those that the caller sees.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Action {
    /// The name of the token; `None`: no token is needed.
    who: Option<String>,
    tenant: Option<String>,
    /// The operation of the document, [`BURY`] or [`COUNT`].
    action: String,
    /// The names in the path.
    of: Vec<(String, String)>,
    /// The parameters, as sent.
    filter: Option<String>,
    /// Details from the body.
    with: Option<String>,
    /// `done`, or the code of the refusal.
    outcome: String,
}

/// How often, and how many messages were changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ActionTally {
    requests: u64,
    messages: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ActionEntry {
    #[serde(flatten)]
    pub(crate) action: Action,
    #[serde(flatten)]
    pub(crate) tally: ActionTally,
}

/// What a handler says of its action, as an extension of the answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Acted {
    /// In place of the operation.
    pub(crate) action: Option<&'static str>,
    pub(crate) messages: u64,
    pub(crate) with: Option<Value>,
}

/// A request of a route that acts, before its answer.
pub(crate) struct Acting {
    who: Option<String>,
    tenant: Option<String>,
    operation: &'static str,
    /// True if every answer is an action.
    always: bool,
    of: Vec<(String, String)>,
    filter: Option<String>,
}

// === impl ActionEntry ===

impl ActionEntry {
    /// The names in the path, as an object.
    pub(crate) fn of(&self) -> Value {
        self.action.of.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect()
    }

    /// The details from the body, as JSON.
    pub(crate) fn with(&self) -> Value {
        self.action.with.as_deref().and_then(|with| serde_json::from_str(with).ok()).unwrap_or_default()
    }
}

// === impl Actions ===

impl Actions {
    /// Keeps about `keep` entries; 0: no log.
    pub(crate) fn new(admin: Admin, keep: u32, metrics: GatewayMetrics) -> (Self, Recording) {
        let (waiting, arriving) = mpsc::channel(MAX_WAITING);
        let recording = Recording { arriving, admin: admin.clone(), keep, metrics: metrics.clone() };
        (Self { waiting, admin, metrics }, recording)
    }

    /// Never waits: without room, the action is counted as lost.
    pub(crate) fn record(&self, acting: Acting, response: &Response, code: Option<&str>) {
        let acted = response.extensions().get::<Acted>();
        if acting.always || acted.is_some() {
            self.note(acting, acted.cloned().unwrap_or_default(), response.status(), code);
        }
    }

    /// Like [`Self::record`], for an action without an answer.
    pub(crate) fn note(&self, acting: Acting, acted: Acted, status: StatusCode, code: Option<&str>) {
        let (action, tally) = acting.ended(acted, status, code);
        tracing::info!(?action, messages = tally.messages, "acted");
        if self.waiting.try_send((action, tally)).is_err() {
            self.metrics.actions_lost(1);
        }
    }

    /// At most `limit` entries, the newest first, and the place to go on; of the tenant alone, if there is one.
    pub(crate) async fn page(
        &self,
        tenant: Option<&Tenant>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<(LoggedAction, ActionEntry)>, Option<String>), Error> {
        let (mut found, mut after, mut searched) = (Vec::new(), after.map(str::to_owned), 0);
        while searched < MAX_SEARCHED {
            let page = self.admin.gateways().actions(after.as_deref(), PAGE).await?;
            let is_last = page.len() < PAGE;
            searched += page.len();
            for logged in page {
                after = Some(logged.id.clone());
                let Ok(entry) = serde_json::from_str::<ActionEntry>(&logged.text) else { continue };
                if tenant.is_none_or(|tenant| entry.action.tenant.as_deref() == Some(tenant.name())) {
                    found.push((logged, entry));
                }
                if found.len() >= limit {
                    return Ok((found, after));
                }
            }
            if is_last {
                return Ok((found, None));
            }
        }
        Ok((found, after))
    }
}

// === impl Acting ===

impl Acting {
    pub(crate) fn new(
        caller: &Caller,
        (operation, always): (&'static str, bool),
        of: Vec<(String, String)>,
        filter: Option<&str>,
    ) -> Self {
        let tenant = caller.tenant.as_ref().map(|tenant| tenant.name().to_owned());
        let filter = filter.filter(|filter| !filter.is_empty()).map(str::to_owned);
        Self { who: caller.name.clone(), tenant, operation, always, of, filter }
    }

    /// With names and parameters of a body.
    pub(crate) fn named(&mut self, of: Vec<(String, String)>, filter: String) {
        (self.of, self.filter) = (of, Some(filter).filter(|filter| !filter.is_empty()));
    }

    fn ended(self, acted: Acted, status: StatusCode, code: Option<&str>) -> (Action, ActionTally) {
        let Self { who, tenant, operation, of, filter, .. } = self;
        let done = if status.is_success() { "done" } else { status.as_str() };
        let outcome = code.unwrap_or(done).to_owned();
        let (action, with) =
            (acted.action.unwrap_or(operation).to_owned(), acted.with.map(|with| with.to_string()));
        let messages = acted.messages;
        (Action { who, tenant, action, of, filter, with, outcome }, ActionTally { requests: 1, messages })
    }
}

// === impl Recording ===

impl Recording {
    /// Until shutdown; then writes what has come.
    pub(crate) async fn run(mut self, shutdown: Shutdown) {
        let mut is_over = false;
        while !is_over {
            is_over = shutdown.or(tokio::time::sleep(GATHER)).await.is_none();
            let mut gathered: HashMap<Action, ActionTally> = HashMap::new();
            while let Ok((action, tally)) = self.arriving.try_recv() {
                gathered.entry(action).or_default().add(tally);
            }
            for (action, tally) in gathered {
                self.write(action, tally).await;
            }
        }
    }

    async fn write(&self, action: Action, tally: ActionTally) {
        if self.keep == 0 {
            return;
        }
        let text = serde_json::to_string(&ActionEntry { action, tally })
            .expect("an entry is made of texts and numbers");
        if let Err(error) = self.admin.gateways().record_action(&text, self.keep).await {
            tracing::warn!(%error, "an action is not in the log of actions");
            self.metrics.actions_lost(tally.requests);
        }
    }
}

// === impl ActionTally ===

impl ActionTally {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.messages += other.messages;
    }
}
