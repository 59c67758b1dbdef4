//! The state that all requests share.

mod scope;

pub(crate) use scope::{Paged, Room, Scope};

use crate::actions::Actions;
use crate::dispatch::Dispatcher;
use crate::metrics::GatewayMetrics;
use crate::oidc::Oidc;
use crate::operations::Running;
use crate::quotas::TenantQuotas;
use crate::receipts::Receipts;
use crate::sessions::Sessions;
use crate::shown::Shown;
use crate::spool::SharedSpool;
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
    pub(crate) tokens: Tokens,
    pub(crate) sessions: Sessions,
    /// `None`: people log in with a token.
    pub(crate) oidc: Option<Oidc>,
    quotas: TenantQuotas,
    pub(crate) actions: Actions,
    pub(crate) operations: Running,
    pub(crate) metrics: GatewayMetrics,
    /// Bytes of bodies that may still be taken into memory.
    pub(crate) room: Arc<Semaphore>,
    pub(crate) body_timeout: Duration,
    pub(crate) lease: Duration,
    pub(crate) is_local: bool,
    shown: Shown,
    stopping: AtomicBool,
    unscoped: Unscoped,
}

pub(crate) struct AppSettings {
    pub(crate) tokens: Tokens,
    pub(crate) oidc: Option<Oidc>,
    pub(crate) quotas: TenantQuotas,
    pub(crate) actions: Actions,
    pub(crate) metrics: GatewayMetrics,
    pub(crate) room: Arc<Semaphore>,
    pub(crate) body_timeout: Duration,
    pub(crate) lease: Duration,
    pub(crate) is_local: bool,
    pub(crate) shown: Shown,
}

/// The clients of the deployment. They know names as Redis has them, so routes use them through [`Scope`] only.
pub(crate) struct Unscoped {
    pub(crate) producer: Producer,
    /// That of the producer; `None`: the producer has none.
    pub(crate) spool: Option<Arc<SharedSpool>>,
    pub(crate) admin: Admin,
    pub(crate) holder: Holder,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) receipts: Receipts,
}

// === impl App ===

impl App {
    pub(crate) fn new(settings: AppSettings, unscoped: Unscoped) -> Self {
        let AppSettings {
            tokens,
            oidc,
            quotas,
            actions,
            metrics,
            room,
            body_timeout,
            lease,
            is_local,
            shown,
        } = settings;
        let sessions = Sessions::new(
            tokens.clone(),
            unscoped.admin.clone(),
            oidc.as_ref().map(|oidc| oidc.groups().clone()),
        );
        let operations = Running::new(unscoped.admin.clone(), metrics.clone());
        let stopping = AtomicBool::new(false);
        Self(Arc::new(AppParts {
            tokens,
            sessions,
            oidc,
            quotas,
            actions,
            operations,
            metrics,
            room,
            body_timeout,
            lease,
            is_local,
            shown,
            stopping,
            unscoped,
        }))
    }

    /// For callers that no tenant limits.
    pub(crate) fn unscoped(&self) -> &Unscoped {
        &self.unscoped
    }

    pub(crate) fn quotas(&self) -> &TenantQuotas {
        &self.quotas
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
