//! The tokens that requests may carry. The file has hashes only, and is read again after a change.

use crate::codes::TOKENS;
use delayq_service::{Fault, Shutdown};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

/// Interval of looks at the file: a removed token lives on for so long.
const LOOK_EVERY: Duration = Duration::from_secs(1);

type Hash = [u8; 32];

/// The tokens of this gateway; clones share the state. Without a file, requests need no token.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens {
    file: Option<Arc<File>>,
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    /// Names by the hash of the token.
    names: RwLock<HashMap<Hash, String>>,
}

// === impl Tokens ===

impl Tokens {
    /// Reads the file, if configured.
    ///
    /// # Errors
    /// [`TOKENS`]: the file cannot be read, or a line is not a name and a hash.
    pub(crate) fn read(path: Option<&Path>) -> Result<Self, Fault> {
        let Some(path) = path else { return Ok(Self::default()) };
        let names = names(path).map_err(|why| Fault::new(&TOKENS, format!("{}: {why}", path.display())))?;
        let file = File { path: path.to_owned(), names: RwLock::new(names) };
        Ok(Self { file: Some(Arc::new(file)) })
    }

    /// True if requests need a token.
    pub(crate) fn are_needed(&self) -> bool {
        self.file.is_some()
    }

    /// The name of a token. The search is by hash, so its time tells nothing about the tokens.
    pub(crate) fn name(&self, token: &str) -> Option<String> {
        let names = self.file.as_ref()?.names.read().unwrap_or_else(PoisonError::into_inner);
        let hash: Hash = Sha256::digest(token).into();
        names.get(&hash).cloned()
    }

    /// Follows changes of the file until shutdown. An unreadable file changes nothing.
    pub(crate) async fn follow(self, shutdown: Shutdown) {
        let Some(file) = self.file else { return shutdown.requested().await };
        let mut seen = changed_at(&file.path);
        while shutdown.or(tokio::time::sleep(LOOK_EVERY)).await.is_some() {
            let now = changed_at(&file.path);
            if now == seen {
                continue;
            }
            seen = now;
            match names(&file.path) {
                Ok(names) => {
                    tracing::info!(tokens = names.len(), "the tokens were read again");
                    *file.names.write().unwrap_or_else(PoisonError::into_inner) = names;
                }
                Err(why) => tracing::error!(why, "the tokens are unchanged: their file cannot be used"),
            }
        }
    }
}

/// The line of a token in the file: its name and its hash.
#[must_use]
pub fn token_line(name: &str, token: &str) -> String {
    format!("{name} {}\n", hex::encode(Sha256::digest(token)))
}

/// The modification time and the length of the file: two writes may share a tick of the clock.
fn changed_at(path: &Path) -> Option<(SystemTime, u64)> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

fn names(path: &Path) -> Result<HashMap<Hash, String>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let name = |(at, line): (usize, &str)| {
        let mut words = line.split_whitespace();
        let (name, hash, more) = (words.next(), words.next(), words.next());
        let hash = hash.filter(|_| more.is_none()).and_then(|hash| hex::decode(hash).ok());
        let hash = hash.and_then(|hash| Hash::try_from(hash).ok());
        // The line is not repeated: somebody may have written a token into it.
        let hash = hash.ok_or_else(|| format!("line {at} is not a name and a SHA-256 in hex"))?;
        Ok((hash, name.unwrap_or_default().to_owned()))
    };
    let names: HashMap<Hash, String> = lines.map(name).collect::<Result<_, String>>()?;
    if names.is_empty() { Err("it has no token".to_owned()) } else { Ok(names) }
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
        std::fs::write(&path, format!("# ours\n\n{line}")).unwrap();
        let tokens = Tokens::read(Some(&path)).unwrap();
        assert_eq!(tokens.name("secret").as_deref(), Some("shop"));
        assert_eq!((tokens.name("Secret"), tokens.name(hash), tokens.name("")), (None, None, None));
        for text in ["", "# none\n", "shop hunter2\n", "hunter2\n", &format!("shop {hash} x\n")] {
            std::fs::write(&path, text).unwrap();
            let fault = Tokens::read(Some(&path)).unwrap_err().to_string();
            assert!(!fault.contains("hunter2"), "{fault}");
        }
        assert!(!Tokens::read(None).unwrap().are_needed());
    }
}
