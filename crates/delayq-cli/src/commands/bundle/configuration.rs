//! The configuration in force without any secret, and the secrets to keep out of everything else.

use crate::deployment::Global;
use crate::whole::WholeConfig;
use delayq_service::Fault;
use delayq_service::config::{Environment, MASK, SecretString, load, secrets as secrets_of};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Minimum length of a path part that is taken for a token, as in the URLs of some webhooks.
const TOKEN: usize = 16;
/// Words in the name of a header that mark a login.
const LOGINS: [&str; 8] = ["auth", "cookie", "key", "pass", "secret", "session", "signature", "token"];

pub(super) struct Configuration {
    pub(super) shown: Result<String, String>,
    /// Origin of the configuration: the file, and the names of the variables that override parts of the file.
    pub(super) sources: Value,
    pub(super) secrets: Vec<SecretString>,
    /// Secrets that the configuration has in plain view: headers, and tokens in paths.
    pub(super) more: Vec<String>,
}

// === impl Configuration ===

impl Configuration {
    pub(super) fn of(global: &Global) -> Self {
        let loaded = load::<WholeConfig>(&global.source(), &Environment::of_process());
        let mut loaded = match loaded {
            Ok(loaded) => loaded,
            Err(faults) => {
                let why = Fault::from(faults).to_string();
                return Self { shown: Err(why), sources: json!({}), secrets: Vec::new(), more: Vec::new() };
            }
        };
        // An overridden secret is not in force, but must be kept out as well.
        let mut secrets = secrets_of(&loaded.config);
        global.apply(&mut loaded.config.deployment, &mut loaded.config.redis);
        secrets.extend(secrets_of(&loaded.config));
        if let Ok(file) = load::<WholeConfig>(&global.source(), &Environment::empty()) {
            secrets.extend(secrets_of(&file.config));
        }
        let mut more = Vec::new();
        let mut config = toml::Value::try_from(&loaded.config).expect("a configuration holds plain values");
        of_files(&config, &mut more);
        strip(&mut config, &mut more);
        let shown = toml::to_string(&config).map_err(|error| error.to_string());
        let sources = json!({ "source": loaded.source, "overridden": loaded.overridden });
        Self { shown, sources, secrets, more }
    }
}

/// Collects the lines of private keys and credentials from the files that the configuration names.
fn of_files(config: &toml::Value, more: &mut Vec<String>) {
    for (name, value) in config.as_table().into_iter().flatten() {
        match value {
            toml::Value::String(path) if ["key", "credentials"].contains(&name.as_str()) => {
                let text = std::fs::read_to_string(path).unwrap_or_default();
                let lines = text.lines().filter(|line| line.len() >= TOKEN && !line.starts_with("---"));
                more.extend(lines.map(str::to_owned));
            }
            value => of_files(value, more),
        }
    }
}

/// Masks possible secrets that are not marked as secret: paths of webhooks, and headers and destinations of routes.
fn strip(config: &mut toml::Value, more: &mut Vec<String>) {
    let sinks = config.get_mut("sinks").and_then(toml::Value::as_table_mut).into_iter().flatten();
    let mut webhooks = BTreeSet::new();
    for (name, sink) in sinks {
        if let Some(toml::Value::String(url)) = sink.get_mut("webhook").and_then(|hook| hook.get_mut("url")) {
            webhooks.insert(name.clone());
            more.extend(tokens(url));
            if let Some((scheme, rest)) = url.split_once("://") {
                let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
                *url = format!("{scheme}://{host}/{}", if path.is_empty() { "" } else { MASK });
            }
        }
    }
    let routes = config.get_mut("routes").and_then(toml::Value::as_array_mut).into_iter().flatten();
    for route in routes {
        let of = |key| route.get(key).and_then(toml::Value::as_str);
        if let Some(to) = of("to").filter(|_| of("sink").is_some_and(|sink| webhooks.contains(sink))) {
            more.extend(tokens(to));
        }
        let headers = route.get_mut("headers").and_then(toml::Value::as_table_mut).into_iter().flatten();
        for (name, value) in headers {
            if let toml::Value::String(text) = value {
                more.extend(literals(name, text));
                MASK.clone_into(text);
            }
        }
    }
}

fn tokens(path: &str) -> Vec<String> {
    let parts = path.split(['/', '{', '}', '?', '&', '=']).filter(|part| part.len() >= TOKEN);
    parts.map(str::to_owned).collect()
}

/// The words of a header's value that are not filled in and may be a secret. Every word of a login counts. In any other
/// header a word counts if long enough for a token and, unlike a name, with a digit.
fn literals(name: &str, template: &str) -> Vec<String> {
    let name = name.to_ascii_lowercase();
    let is_login = LOGINS.iter().any(|word| name.contains(word));
    let is_token = |word: &str| word.len() >= TOKEN && word.contains(|c: char| c.is_ascii_digit());
    let words = template.split_whitespace().filter(|word| !word.contains(['{', '}']));
    words.filter(|word| is_login || is_token(word)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_be_a_secret_is_searched_for_elsewhere() {
        let text = "[sinks.hook.webhook]\nurl = 'https://h/a-token-of-a-path/x'\n[sinks.log.kafka]\nbrokers \
                    = ['h:1']\n[[routes]]\ntopic = 'a'\nsink = 'hook'\nto = \
                    'in/a-token-of-a-route'\nheaders = { X-Api-Key = 'short', origin = 'billing \
                    0123456789abcdef', content-type = 'application/json' }\n[[routes]]\ntopic = 'b'\nsink = \
                    'log'\nto = 'customer-notifications'\n";
        let mut config = toml::from_str(text).unwrap();
        let mut more = Vec::new();
        strip(&mut config, &mut more);
        more.sort();
        let expected = ["0123456789abcdef", "a-token-of-a-path", "a-token-of-a-route", "short"];
        assert_eq!(more, expected);
        let shown = toml::to_string(&config).unwrap();
        assert!(shown.contains("https://h/***") && shown.contains("customer-notifications"), "{shown}");
        assert!(!shown.contains("billing"), "{shown}");
    }
}
