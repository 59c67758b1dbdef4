//! The state that all calls share.

use super::counters::Counters;
use super::keys::PoolTokens;
use crate::state::App;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Clones share the state.
#[derive(Clone)]
pub(super) struct Lmstfy(Arc<LmstfyParts>);

pub(super) struct LmstfyParts {
    pub(super) pools: BTreeMap<String, App>,
    pub(super) keys: PoolTokens,
    pub(super) checks_tokens: bool,
    pub(super) accounts: Accounts,
    pub(super) counters: Counters,
    pub(super) logs_access: AtomicBool,
    pub(super) is_local: bool,
    pub(super) admin_is_local: bool,
}

/// Users of the admin API, with hashes of passwords.
#[derive(Default)]
pub(super) struct Accounts(pub(super) HashMap<String, [u8; 32]>);

// === impl Lmstfy ===

impl Lmstfy {
    pub(super) fn new(parts: LmstfyParts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Deref for Lmstfy {
    type Target = LmstfyParts;

    fn deref(&self) -> &LmstfyParts {
        &self.0
    }
}

// === impl Accounts ===

impl Accounts {
    /// True if the request names a user and the password, or needs neither. Hashes are compared, so the time of the comparison
    /// tells nothing about the password.
    pub(super) fn admit(&self, headers: &HeaderMap) -> bool {
        let is_known = |(user, password): (String, String)| {
            let hash: [u8; 32] = Sha256::digest(password).into();
            self.0.get(&user).is_some_and(|known| *known == hash)
        };
        self.0.is_empty() || named(headers).is_some_and(is_known)
    }
}

fn named(headers: &HeaderMap) -> Option<(String, String)> {
    let (scheme, given) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let given = STANDARD.decode(given.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    let given = String::from_utf8(given).ok()?;
    let (user, password) = given.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}
