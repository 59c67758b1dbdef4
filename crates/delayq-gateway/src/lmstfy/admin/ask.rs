//! A request that passed the account's check.

use crate::input::Whole;
use crate::lmstfy::parameters::Parameters;
use crate::lmstfy::reply::{Refusal, error};
use crate::lmstfy::state::Lmstfy;
use crate::state::Scope;
use axum::body::Body;
use axum::http::HeaderMap;

/// Maximum bytes of a body.
const MAX_BODY: usize = 64 * 1024;

/// A request that passed the account's check.
pub(super) struct AdminRequest {
    pub(super) lmstfy: Lmstfy,
    pub(super) query: Parameters,
    pub(super) headers: HeaderMap,
}

// === impl AdminRequest ===

impl AdminRequest {
    /// The whole body.
    pub(super) async fn whole(&self, body: Body) -> Result<bytes::Bytes, Refusal> {
        let app = self.lmstfy.pools.values().next().expect("there is the default pool");
        let whole = Whole::read(body, &self.headers, &Scope::whole(app), MAX_BODY).await;
        let whole = whole.map_err(|problem| error(problem.kind().status().as_u16(), problem.detail()))?;
        Ok(whole.bytes.clone())
    }
}
