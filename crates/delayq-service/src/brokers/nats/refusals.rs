//! Refusals of a user: the server reports these separately, and the request gets no answer.

use async_nats::{Event, ServerError};
use tokio::sync::watch;

/// The last refusal of a connection.
#[derive(Clone, Debug)]
pub struct NatsRefusals(watch::Sender<Option<String>>);

// === impl NatsRefusals ===

impl Default for NatsRefusals {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl NatsRefusals {
    /// Takes in an event of the connection.
    pub fn hear(&self, event: &Event) {
        if let Event::ServerError(ServerError::Other(words)) = event
            && words.to_lowercase().contains("permissions violation")
        {
            self.0.send_replace(Some(words.clone()));
        }
    }

    /// The last refusal, in the server's words.
    #[must_use]
    pub fn last(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    /// Waits for a refusal that names this part of a subject.
    pub async fn of(&self, part: &str) -> String {
        let mut words = self.0.subscribe();
        let found = words.wait_for(|words| words.as_ref().is_some_and(|words| words.contains(part))).await;
        found.ok().and_then(|words| words.clone()).unwrap_or_default()
    }
}
