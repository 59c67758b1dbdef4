//! Refusals of a user: the server reports these separately, and the request gets no answer.

use async_nats::{Event, ServerError};
use tokio::sync::watch;

#[derive(Clone)]
pub(super) struct Refusals(watch::Sender<Option<String>>);

// === impl Refusals ===

impl Refusals {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    pub(super) fn hear(&self, event: &Event) {
        if let Event::ServerError(ServerError::Other(words)) = event
            && words.to_lowercase().contains("permissions violation")
        {
            self.0.send_replace(Some(words.clone()));
        }
    }

    pub(super) fn last(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    pub(super) async fn of(&self, part: &str) -> String {
        let mut words = self.0.subscribe();
        let found = words.wait_for(|words| words.as_ref().is_some_and(|words| words.contains(part))).await;
        found.ok().and_then(|words| words.clone()).unwrap_or_default()
    }
}
