//! The state that all requests share.

use crate::dispatch::Dispatcher;
use crate::metrics::GatewayMetrics;
use crate::receipts::Receipts;
use crate::sessions::Sessions;
use crate::tokens::Tokens;
use delayq::protocol::Holder;
use delayq::{Admin, Producer};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Clones share the state.
#[derive(Clone)]
pub(crate) struct App(Arc<AppParts>);

pub(crate) struct AppParts {
    pub(crate) producer: Producer,
    pub(crate) admin: Admin,
    pub(crate) holder: Holder,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) receipts: Receipts,
    pub(crate) tokens: Tokens,
    pub(crate) sessions: Sessions,
    pub(crate) metrics: GatewayMetrics,
    /// Bytes of bodies that may still be taken into memory.
    pub(crate) room: Arc<Semaphore>,
    pub(crate) body_timeout: Duration,
    pub(crate) lease: Duration,
    pub(crate) is_local: bool,
    pub(crate) stopping: AtomicBool,
}

// === impl App ===

impl App {
    pub(crate) fn new(parts: AppParts) -> Self {
        Self(Arc::new(parts))
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

impl Deref for App {
    type Target = AppParts;

    fn deref(&self) -> &AppParts {
        &self.0
    }
}
