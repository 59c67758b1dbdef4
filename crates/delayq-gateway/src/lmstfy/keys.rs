//! Tokens and limits. Redis keeps the SHA-256 of a token and a masked form; every gateway remembers what it read for a second,
//! so a revoked token ends everywhere within that.
//!
//! ```text
//! token POOL NAMESPACE HASH    {"description":…,"shown":…}
//! limit POOL NAMESPACE HASH    {"read":…,"write":…,"interval":…,"shown":…}
//! calls POOL NAMESPACE HASH r  the window of reads; w: of writes
//! ```

use super::config::DEFAULT_POOL;
use super::ids;
use delayq::{Admin, Error};
use delayq_service::host_now;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long a gateway remembers a token.
const REMEMBER: Duration = Duration::from_secs(1);
const MAX_KNOWN: usize = 10_000;
/// Characters of a token, and of its hash, in the masked form.
const SHOWN: (usize, usize) = (6, 8);

/// The hash is that of the token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TokenKey {
    pub(super) pool: String,
    pub(super) namespace: String,
    hash: String,
}

/// A limit in the order of lmstfy's fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Limit {
    /// Maximum consumes in the interval; 0: no limit.
    #[serde(default)]
    pub(super) read: i64,
    /// Maximum publishes.
    #[serde(default)]
    pub(super) write: i64,
    /// Length in seconds.
    #[serde(default)]
    pub(super) interval: i64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TokenNote {
    pub(super) description: String,
    pub(super) shown: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LimitNote {
    #[serde(flatten)]
    pub(super) limit: Limit,
    pub(super) shown: String,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct KnownToken {
    at: Instant,
    pub(super) is_token: bool,
    pub(super) limit: Option<Limit>,
}

pub(super) struct PoolTokens {
    admin: Admin,
    known: Mutex<HashMap<TokenKey, KnownToken>>,
}

// === impl TokenKey ===

impl TokenKey {
    pub(super) fn of(pool: &str, namespace: &str, token: &str) -> Self {
        let hash = hex::encode(Sha256::digest(token));
        Self { pool: pool.to_owned(), namespace: namespace.to_owned(), hash }
    }

    fn named(&self, kind: &str) -> String {
        format!("{kind} {} {} {}", self.pool, self.namespace, self.hash)
    }

    fn window(&self, side: &str) -> String {
        format!("{} {side}", self.named("calls"))
    }

    fn parse(name: &str, kind: &str) -> Option<Self> {
        let mut words = name.strip_prefix(kind)?.strip_prefix(' ')?.split(' ').map(str::to_owned);
        Some(Self { pool: words.next()?, namespace: words.next()?, hash: words.next()? })
    }
}

/// The masked form of a token: its start, and the start of its hash, which tells tokens of the same start apart.
pub(super) fn masked(token: &str) -> String {
    let start: String = token.chars().take(SHOWN.0).collect();
    format!("{start}…{}", &hex::encode(Sha256::digest(token))[..SHOWN.1])
}

// === impl PoolTokens ===

impl PoolTokens {
    pub(super) fn new(admin: Admin) -> Self {
        Self { admin, known: Mutex::default() }
    }

    pub(super) async fn known(&self, key: &TokenKey) -> Result<KnownToken, Error> {
        if let Some(known) = self.remembered(key) {
            return Ok(known);
        }
        let (token, limit) = (key.named("token"), key.named("limit"));
        let [token, limit] = self.admin.gateways().notes_of([&token, &limit]).await?;
        let limit = limit.and_then(|text| read::<LimitNote>(&text)).map(|note| note.limit);
        let known = KnownToken { at: Instant::now(), is_token: token.is_some(), limit };
        if known.is_token {
            let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if all.len() >= MAX_KNOWN {
                all.clear();
            }
            all.insert(key.clone(), known);
        }
        Ok(known)
    }

    fn remembered(&self, key: &TokenKey) -> Option<KnownToken> {
        let all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(key).filter(|known| known.at.elapsed() < REMEMBER).copied()
    }

    fn forget(&self, key: &TokenKey) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// False if the call is beyond `most`.
    pub(super) async fn allows(
        &self,
        key: &TokenKey,
        side: &str,
        most: i64,
        interval: i64,
    ) -> Result<bool, Error> {
        let count = self.admin.gateways().count_call(&key.window(side), seconds(interval)).await?;
        Ok(i64::try_from(count).is_ok_and(|count| count <= most))
    }

    /// Takes back a call that [`Self::allows`] counted.
    pub(super) async fn take_back(&self, key: &TokenKey, side: &str, interval: i64) {
        if let Err(error) = self.admin.gateways().take_back_call(&key.window(side), seconds(interval)).await {
            tracing::debug!(%error, "a call without effect stays counted");
        }
    }

    /// False if the token exists.
    pub(super) async fn add(&self, key: &TokenKey, token: &str, description: &str) -> Result<bool, Error> {
        let note = TokenNote { description: description.to_owned(), shown: masked(token) };
        self.admin.gateways().new_note(&key.named("token"), &text(&note)).await
    }

    pub(super) async fn delete(&self, key: &TokenKey) -> Result<(), Error> {
        let names = [key.named("token"), key.named("limit"), key.window("r"), key.window("w")];
        self.admin.gateways().delete_notes(&names).await?;
        self.forget(key);
        Ok(())
    }

    pub(super) async fn tokens(&self, pool: &str, namespace: &str) -> Result<Vec<TokenNote>, Error> {
        let notes = self.notes::<TokenNote>("token").await?;
        let of_it = |key: &TokenKey| key.pool == pool && key.namespace == namespace;
        Ok(notes.into_iter().filter(|(key, _)| of_it(key)).map(|(_, note)| note).collect())
    }

    pub(super) async fn limit(&self, key: &TokenKey) -> Result<Option<Limit>, Error> {
        let [note] = self.admin.gateways().notes_of([&key.named("limit")]).await?;
        Ok(note.and_then(|text| read::<LimitNote>(&text)).map(|note| note.limit))
    }

    /// False if there is a limit that may not be replaced.
    pub(super) async fn set_limit(
        &self,
        key: &TokenKey,
        shown: &str,
        limit: Limit,
        replaces: bool,
    ) -> Result<bool, Error> {
        let (name, note) = (key.named("limit"), text(&LimitNote { limit, shown: shown.to_owned() }));
        let is_set = match replaces {
            true => self.admin.gateways().note(&name, &note).await.map(|()| true)?,
            false => self.admin.gateways().new_note(&name, &note).await?,
        };
        self.forget(key);
        Ok(is_set)
    }

    pub(super) async fn delete_limit(&self, key: &TokenKey) -> Result<(), Error> {
        self.admin.gateways().delete_notes(&[key.named("limit"), key.window("r"), key.window("w")]).await?;
        self.forget(key);
        Ok(())
    }

    pub(super) async fn limits(&self) -> Result<Vec<(TokenKey, LimitNote)>, Error> {
        self.notes("limit").await
    }

    /// The key of a token, or of its masked form: a token that nobody has any more can be deleted by that.
    pub(super) async fn find(&self, pool: &str, namespace: &str, token: &str) -> Result<TokenKey, Error> {
        let given = TokenKey::of(pool, namespace, token);
        if !token.contains('…') {
            return Ok(given);
        }
        let notes = self.notes::<TokenNote>("token").await?;
        let is_it = |(key, note): &(TokenKey, TokenNote)| {
            key.pool == pool && key.namespace == namespace && note.shown == token
        };
        Ok(notes.into_iter().find(is_it).map_or(given, |(key, _)| key))
    }

    async fn notes<T: DeserializeOwned>(&self, kind: &str) -> Result<Vec<(TokenKey, T)>, Error> {
        let notes = self.admin.gateways().notes().await?;
        Ok(notes
            .iter()
            .filter_map(|(name, note)| Some((TokenKey::parse(name, kind)?, read(note)?)))
            .collect())
    }
}

pub(super) fn fresh() -> String {
    ids::fresh_text(host_now().get())
}

fn seconds(interval: i64) -> Duration {
    // The longest that Redis counts.
    Duration::from_secs(interval.unsigned_abs().clamp(1, 9_007_199_254))
}

fn read<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}

fn text(note: &impl Serialize) -> String {
    serde_json::to_string(note).expect("a note is made of texts and numbers")
}

/// Without a pool, the default one.
pub(super) fn split(given: &str) -> (&str, &str) {
    match given.split_once(':') {
        Some(("", token)) => (DEFAULT_POOL, token),
        Some(parts) => parts,
        None => (DEFAULT_POOL, given),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_pool_before_the_first_colon() {
        assert_eq!(split("abc"), ("default", "abc"));
        assert_eq!(split(":abc"), ("default", "abc"));
        assert_eq!(split("p2:a:b"), ("p2", "a:b"));
    }

    #[test]
    fn a_key_is_kept_without_its_token_and_read_back() {
        let key = TokenKey::of("p2", "ns", "01HTOKEN-01HTOKEN-01H");
        let name = key.named("token");
        assert!(!name.contains("01HTOKEN"));
        assert_eq!(TokenKey::parse(&name, "token"), Some(key));
        assert_eq!(TokenKey::parse(&name, "limit"), None);
        let shown = masked("01HTOKEN-01HTOKEN-01H");
        assert!(shown.starts_with("01HTOK…") && shown.chars().count() == 15, "{shown}");
    }
}
