//! Every secret of a configuration, for those who have to keep them out of something else.

use secrecy::SecretString;
use serde::Serialize;
use std::cell::RefCell;

thread_local! {
    /// What the secrets that are being printed on this thread add themselves to, if anybody collects them.
    static FOUND: RefCell<Option<Vec<SecretString>>> = const { RefCell::new(None) };
}

/// Every secret of a configuration, with those that files and variables hold now; what cannot be read is missing.
///
/// Printing a configuration passes each of its values once: so a secret of a section that is added later is found as well.
#[must_use]
pub fn secrets(config: &impl Serialize) -> Vec<SecretString> {
    FOUND.set(Some(Vec::new()));
    // What cannot be printed as JSON was not printed any further: there is no such configuration.
    let printed = serde_json::to_value(config);
    debug_assert!(printed.is_ok());
    FOUND.take().unwrap_or_default()
}

/// A secret is being printed.
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
    use crate::config::{ExposeSecret as _, RedisConfig, Secret};

    #[test]
    fn plain_secrets_files_and_passwords_of_urls_are_found() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("password"), "of-a-file\n").unwrap();
        let of = |url: &str, password: Option<Secret>| {
            let config = RedisConfig { url: url.parse().unwrap(), password, ..RedisConfig::default() };
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
