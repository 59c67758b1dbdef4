//! The tokens that requests may carry. The file has hashes only, and is read again after a change.

use crate::codes::TOKENS;
use crate::files::Changes;
use crate::problem::Problem;
use crate::rights::{Right, Rights};
use crate::tenants::Tenants;
use crate::token::{Hash, Token};
use delayq_service::when::moment;
use delayq_service::{Fault, Shutdown};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// The start of the word with the end of a token.
const UNTIL: &str = "until=";
/// The start of the word with the tenant of a token.
const TENANT: &str = "tenant=";

/// The tokens of the file, and those of tenants; clones share the state. Without a file, requests need no token.
#[derive(Clone, Debug)]
pub(crate) struct Tokens {
    file: Option<Arc<File>>,
    tenants: Tenants,
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    changes: Changes,
    /// By the hash of the token.
    tokens: RwLock<HashMap<Hash, Token>>,
}

// === impl Tokens ===

impl Tokens {
    /// Reads the file, if configured.
    ///
    /// # Errors
    /// [`TOKENS`]: the file cannot be read, or a line is not a name and a hash.
    pub(crate) fn read(path: Option<&Path>, tenants: Tenants) -> Result<Self, Fault> {
        let Some(path) = path else { return Ok(Self { file: None, tenants }) };
        let changes = Changes::of([path.to_owned()]);
        let tokens = read(path).map_err(|why| Fault::new(&TOKENS, format!("{}: {why}", path.display())))?;
        let file = File { path: path.to_owned(), changes, tokens: RwLock::new(tokens) };
        Ok(Self { file: Some(Arc::new(file)), tenants })
    }

    /// True if requests need a token.
    pub(crate) fn are_needed(&self) -> bool {
        self.file.is_some()
    }

    /// The token of this text, and the hash. The search is by hash, so the time of a search tells nothing about the tokens.
    ///
    /// # Errors
    /// The file has no such token, and those of tenants cannot be read.
    pub(crate) async fn known(&self, text: &str) -> Result<Option<(Hash, Token)>, Problem> {
        let hash: Hash = Sha256::digest(text).into();
        Ok(self.of_hash(&hash).await?.map(|token| (hash, token)))
    }

    /// The token with this hash; `None`: it was removed, or has ended.
    ///
    /// # Errors
    /// As [`Self::known`].
    pub(crate) async fn of_hash(&self, hash: &Hash) -> Result<Option<Token>, Problem> {
        match self.of_file(hash) {
            Some(token) => Ok(Some(token).filter(|token| !token.has_ended())),
            None if self.are_needed() => self.tenants.token(hash).await,
            None => Ok(None),
        }
    }

    /// As [`Self::of_hash`], without asking Redis.
    ///
    /// # Errors
    /// The file has no such token, and those of tenants could not be read for too long.
    pub(crate) fn as_read(&self, hash: &Hash) -> Result<Option<Token>, Problem> {
        match self.of_file(hash) {
            Some(token) => Ok(Some(token).filter(|token| !token.has_ended())),
            None => self.tenants.token_as_read(hash),
        }
    }

    fn of_file(&self, hash: &Hash) -> Option<Token> {
        self.file.as_ref()?.tokens.read().unwrap_or_else(PoisonError::into_inner).get(hash).cloned()
    }

    pub(crate) fn tenants(&self) -> &Tenants {
        &self.tenants
    }

    /// Follows changes of the file until shutdown. An unreadable file changes nothing.
    pub(crate) async fn follow(self, shutdown: Shutdown) {
        tokio::join!(self.tenants.follow(shutdown.clone()), self.follow_file(shutdown));
    }

    async fn follow_file(&self, shutdown: Shutdown) {
        let Some(file) = &self.file else { return shutdown.requested().await };
        let mut changes = file.changes.clone();
        while changes.next(&shutdown).await.is_some() {
            match read(&file.path) {
                Ok(tokens) => {
                    tracing::info!(tokens = tokens.len(), "tokens reloaded");
                    *file.tokens.write().unwrap_or_else(PoisonError::into_inner) = tokens;
                    self.tenants.changed();
                }
                Err(why) => tracing::error!(why, "the tokens are unchanged: their file cannot be used"),
            }
        }
    }
}

/// The line of a token with every right, without an end, in the file.
#[must_use]
pub fn token_line(name: &str, token: &str) -> String {
    format!("{name} {}\n", hex::encode(Sha256::digest(token)))
}

fn read(path: &Path) -> Result<HashMap<Hash, Token>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    // The line is not repeated: somebody may have written a token into it.
    let rights = Right::ALL.map(Right::word).join(", ");
    let refusal = |at| {
        format!(
            "line {at} is not a name and a SHA-256 in hex, followed by rights ({rights}), {TENANT}NAME and {UNTIL}TIME"
        )
    };
    let token = |(at, line)| parsed(line).ok_or_else(|| refusal(at));
    let tokens: HashMap<Hash, Token> = lines.map(token).collect::<Result<_, String>>()?;
    if tokens.is_empty() { Err("the file has no token".to_owned()) } else { Ok(tokens) }
}

fn parsed(line: &str) -> Option<(Hash, Token)> {
    let mut words = line.split_whitespace();
    let (name, hash) = (words.next()?.to_owned(), hex::decode(words.next()?).ok()?);
    let (mut rights, mut until, mut tenant) = (Vec::new(), None, None);
    for word in words {
        match (word.strip_prefix(UNTIL), word.strip_prefix(TENANT)) {
            (Some(end), _) if until.is_none() => until = Some(moment(end).ok()?),
            (_, Some(name)) if tenant.is_none() => tenant = Some(name.parse().ok()?),
            (None, None) => rights.push(word.parse().ok()?),
            _ => return None,
        }
    }
    let rights = if rights.is_empty() { Rights::EVERY } else { rights.into_iter().collect() };
    Some((Hash::try_from(hash).ok()?, Token { name, rights, tenant, until }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_hash_and_a_faulty_line_is_not_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        let line = token_line("shop", "secret");
        let hash = line.trim_end().strip_prefix("shop ").unwrap();
        let with = |name, text, words| token_line(name, text).replace('\n', words);
        let reader = with("desk", "seen", " until=2999-01-01T00:00:00Z read payload\n");
        let ended = with("old", "gone", " put until=2026-01-01T00:00:00Z\n");
        std::fs::write(&path, format!("# ours\n\n{line}{reader}{ended}")).unwrap();
        let tokens = read(&path).unwrap();
        let known = |text: &str| {
            let token = tokens.get(&Hash::from(Sha256::digest(text))).filter(|token| !token.has_ended());
            token.map(|token| (token.name.clone(), token.rights))
        };
        assert_eq!(known("secret"), Some(("shop".to_owned(), Rights::EVERY)));
        let reads = Rights::from_iter([Right::Read, Right::Payload]);
        assert_eq!(known("seen"), Some(("desk".to_owned(), reads)));
        assert_eq!(known("gone"), None);
        assert_eq!((known("Secret"), known(hash), known("")), (None, None, None));
        for text in [
            "",
            "# none\n",
            "shop hunter2\n",
            "hunter2\n",
            &format!("shop {hash} x\n"),
            &format!("shop {hash} until=x\n"),
            &format!("shop {hash} tenant=\n"),
            &format!("shop {hash} tenant=a/b\n"),
            &format!("shop {hash} tenant=a tenant=a\n"),
        ] {
            std::fs::write(&path, text).unwrap();
            let fault = read(&path).unwrap_err();
            assert!(!fault.contains("hunter2"), "{fault}");
        }
    }
}
