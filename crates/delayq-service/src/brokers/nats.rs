//! Access to a NATS server.

#[cfg(feature = "nats")]
mod acks;
#[cfg(feature = "nats")]
mod publish;
#[cfg(feature = "nats")]
mod refusals;

use crate::config::{Faults, PemFiles, Secret};
use crate::headers::rest_of;
use std::path::Path;

#[cfg(feature = "nats")]
pub use publish::{NatsAnswer, NatsLetter, NatsPublisher};
#[cfg(feature = "nats")]
pub use refusals::NatsRefusals;

/// The keys for the address and login of a server or cluster.
#[derive(Clone, Copy, Debug)]
pub struct NatsAccess<'c> {
    /// `nats://host:port` or `tls://host:port`.
    pub servers: &'c [String],
    /// User.
    pub username: Option<&'c str>,
    /// Password.
    pub password: Option<&'c Secret>,
    /// Token, in place of user and password.
    pub token: Option<&'c Secret>,
    /// A file of credentials, in place of user, password and token.
    pub credentials: Option<&'c Path>,
    /// The file of the authority.
    pub ca: Option<&'c Path>,
    /// The file of the client's certificate.
    pub cert: Option<&'c Path>,
    /// The file of its key.
    pub key: Option<&'c Path>,
}

// === impl NatsAccess ===

impl<'c> NatsAccess<'c> {
    /// The TLS files, and whether TLS is on.
    #[must_use]
    pub fn files(&self) -> PemFiles<'c> {
        let Self { ca, cert, key, .. } = *self;
        let tls = ca.or(cert).is_some() || self.servers.iter().any(|server| server.starts_with("tls://"));
        PemFiles { ca, cert, key, off: (!tls).then_some(("servers", "`servers` has no tls:// address")) }
    }

    /// Checks the keys, which have the names of the fields.
    pub fn validate(&self, at: &mut Faults) {
        if self.servers.is_empty() {
            at.refuse("servers", "expected at least one server, such as [\"nats://127.0.0.1:4222\"]");
        }
        for server in self.servers {
            let rest = server.strip_prefix("nats://").or_else(|| server.strip_prefix("tls://"));
            if rest.is_none_or(|rest| rest.is_empty() || rest.contains(['@', '/', '?', '#', ' ', ','])) {
                at.refuse(
                    "servers",
                    "expected nats://host:port or tls://host:port; passwords have their own keys",
                );
            }
        }
        at.secret("password", self.password);
        at.secret("token", self.token);
        self.files().validate(at);
        if self.username.is_some() != self.password.is_some() {
            at.contradiction(&["username", "password"], "user and password must be set together");
        }
        let ways = [self.username.is_some(), self.token.is_some(), self.credentials.is_some()];
        if ways.into_iter().filter(|way| *way).count() > 1 {
            at.contradiction(&["username", "token", "credentials"], "choose one login method");
        }
    }

    /// The client's options; reads the secrets again.
    ///
    /// # Errors
    /// A secret or a file cannot be read.
    #[cfg(feature = "nats")]
    pub async fn options(&self, client: &str) -> Result<async_nats::ConnectOptions, String> {
        use secrecy::ExposeSecret;
        let mut options = async_nats::ConnectOptions::new().name(client);
        if let (Some(username), Some(password)) = (self.username, self.password) {
            options =
                options.user_and_password(username.to_owned(), password.reveal()?.expose_secret().to_owned());
        }
        if let Some(token) = self.token {
            options = options.token(token.reveal()?.expose_secret().to_owned());
        }
        if let Some(path) = self.credentials {
            let read = options.credentials_file(path).await;
            options = read.map_err(|error| format!("the credentials {}: {error}", path.display()))?;
        }
        if let Some(path) = self.ca {
            options = options.add_root_certificates(path.to_owned()).require_tls(true);
        }
        if let (Some(cert), Some(key)) = (self.cert, self.key) {
            options = options.add_client_certificate(cert.to_owned(), key.to_owned()).require_tls(true);
        }
        Ok(options)
    }

    /// Connects.
    ///
    /// # Errors
    /// The cause, with the servers.
    #[cfg(feature = "nats")]
    pub async fn connect(&self, options: async_nats::ConnectOptions) -> Result<async_nats::Client, String> {
        let connected = options.connect(self.servers).await;
        connected.map_err(|error| self.files().explain(format!("{}: {error}", self.servers.join(", "))))
    }
}

/// True if a header is a command to the server, such as `Nats-Rollup`, which purges a stream.
#[must_use]
pub fn commands_nats(header: &str) -> bool {
    rest_of(header, "nats-").is_some()
}

/// Checks that messages may be published to a subject. Refuses the server's own subjects, such as `$JS.API.…`, which
/// deletes streams, or `_INBOX.…`, where requests await their answers.
///
/// # Errors
/// Why the subject is refused.
pub fn nats_subject(text: &str) -> Result<(), String> {
    let plain = !text.is_empty()
        && text.split('.').all(|token| !token.is_empty() && token != "*" && token != ">")
        && !text.contains(|c: char| c.is_whitespace() || c.is_control());
    if !plain {
        return Err(format!("`{text}` is not a valid subject to publish to"));
    }
    let first = text.split('.').next().unwrap_or_default();
    if first.starts_with('$') || ["_INBOX", "_R_", "_GR_"].contains(&first) {
        return Err(format!(
            "the subject `{text}` is reserved for the server: {first} accepts no deliveries"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_host_with_a_port_and_nothing_that_would_be_ignored() {
        for (server, expected) in [
            ("nats://h:4222", true),
            ("tls://[::1]:4222", true),
            ("h:4222", false),
            ("nats://", false),
            ("nats://h:4222/stream", false),
            ("nats://h:4222?tls_first=true", false),
            ("nats://a:4222,b:4222", false),
            ("nats://user@h:4222", false),
        ] {
            let access = NatsAccess {
                servers: &[server.to_owned()],
                username: None,
                password: None,
                token: None,
                credentials: None,
                ca: None,
                cert: None,
                key: None,
            };
            let mut at = Faults::default();
            access.validate(&mut at);
            assert_eq!(at.into_sentences().is_empty(), expected, "{server}");
        }
    }

    #[test]
    fn a_subject_has_no_wildcards_spaces_or_empty_parts_and_is_not_the_servers_own() {
        for (text, expected) in [
            ("a", true),
            ("a.b-c", true),
            ("a.$JS.API", true),
            ("_INBOXES.a", true),
            ("", false),
            ("a..b", false),
            ("a.*", false),
            (">", false),
            ("a b", false),
            ("$JS.API.STREAM.DELETE.S", false),
            ("$SYS.REQ.USER.INFO", false),
            ("$KV.bucket.key", false),
            ("_INBOX.abc.1", false),
            ("_R_.abc", false),
        ] {
            assert_eq!(nats_subject(text).is_ok(), expected, "{text}");
        }
    }
    #[test]
    fn a_header_that_commands_the_server_is_known_in_any_case() {
        for (name, expected) in
            [("Nats-Rollup", true), ("nats-ttl", true), ("natsy", false), ("x-nats-x", false)]
        {
            assert_eq!(commands_nats(name), expected, "{name}");
        }
    }
}
