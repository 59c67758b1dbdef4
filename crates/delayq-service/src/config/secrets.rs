//! Collects every secret of a configuration, so that callers can keep the secrets out of other outputs.

use secrecy::SecretString;
use serde::Serialize;
use std::cell::RefCell;

thread_local! {
    /// Collects the secrets printed on this thread, while a collection runs.
    static FOUND: RefCell<Option<Vec<SecretString>>> = const { RefCell::new(None) };
}

/// Every secret of a configuration, including the current contents of files and variables; unreadable sources are
/// missing.
///
/// Printing a configuration visits every value once, so secrets of sections added later are found as well.
#[must_use]
pub fn secrets(config: &impl Serialize) -> Vec<SecretString> {
    FOUND.set(Some(Vec::new()));
    // Every configuration can be printed as JSON.
    let printed = serde_json::to_value(config);
    debug_assert!(printed.is_ok());
    FOUND.take().unwrap_or_default()
}

pub(super) fn found(secret: impl FnOnce() -> Option<SecretString>) {
    FOUND.with_borrow_mut(|found| {
        if let Some(found) = found {
            found.extend(secret());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::secrets;
    use crate::config::{ExposeSecret as _, Login, RedisConfig, Secret};

    #[test]
    fn plain_secrets_files_and_passwords_of_urls_are_found() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("password"), "of-a-file\n").unwrap();
        let of = |url: &str, password: Option<Secret>| {
            let login = Login { password, ..Login::default() };
            let config = RedisConfig { url: url.parse().unwrap(), login, ..RedisConfig::default() };
            secrets(&config).iter().map(|secret| secret.expose_secret().to_owned()).collect::<Vec<_>>()
        };
        let file = Secret::file(folder.path().join("password"));
        assert_eq!(of("redis://h:1", Some(file)), ["of-a-file"]);
        assert_eq!(of("redis://h:1", Some(Secret::plain("plain"))), ["plain"]);
        assert_eq!(of("redis://u:of-url@h:1", None), ["of-url"]);
        assert_eq!(of("unix:///s?pass=of-query", None), ["of-query"]);
        assert_eq!(of("redis://h:1", Some(Secret::file("/nowhere"))), Vec::<String>::new());
    }
}
