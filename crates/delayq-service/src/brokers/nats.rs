//! Access to a NATS server.

#[cfg(feature = "nats")]
mod acks;
#[cfg(feature = "nats")]
mod publish;
#[cfg(feature = "nats")]
mod refusals;

use crate::config::{Faults, Login, PemFiles, Secret, Section, TlsOff};
use crate::headers::rest_of;
use std::path::PathBuf;

#[cfg(feature = "nats")]
pub use publish::{NatsAnswer, NatsLetter, NatsPublisher};
#[cfg(feature = "nats")]
pub use refusals::NatsRefusals;

crate::section! {
    /// The address of a server or cluster, and the login.
    pub struct NatsAccess {
        ..files: PemFiles,
        ..login: Login,
        /// `nats://host:port` or `tls://host:port` of some servers of the cluster; default `nats://127.0.0.1:4222`. With `ca` or
        /// `cert`, too, every connection uses TLS.
        pub servers: Vec<String> = vec!["nats://127.0.0.1:4222".to_owned()],
        /// Token, in place of user and password; unset: none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub token: Option<Secret> = None,
        /// A file of credentials (JWT and key), in place of the others; unset: none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub credentials: Option<PathBuf> = None,
    }
}

// === impl NatsAccess ===

impl Section for NatsAccess {
    fn validate(&self, at: &mut Faults) {
        if self.servers.is_empty() {
            at.refuse("servers", "expected at least one server, such as [\"nats://127.0.0.1:4222\"]");
        }
        for server in &self.servers {
            let rest = server.strip_prefix("nats://").or_else(|| server.strip_prefix("tls://"));
            if rest.is_none_or(|rest| rest.is_empty() || rest.contains(['@', '/', '?', '#', ' ', ','])) {
                at.refuse(
                    "servers",
                    "expected nats://host:port or tls://host:port; passwords have their own keys",
                );
            }
        }
        self.files.validate(self.tls_off(), at);
        self.login.validate_whole(at);
        at.secret("token", self.token.as_ref());
        let ways = [self.login.username.is_some(), self.token.is_some(), self.credentials.is_some()];
        if ways.into_iter().filter(|way| *way).count() > 1 {
            at.contradiction(&["username", "token", "credentials"], "choose one login method");
        }
    }
}

impl NatsAccess {
    fn tls_off(&self) -> TlsOff {
        let PemFiles { ca, cert, .. } = &self.files;
        let tls =
            ca.is_some() || cert.is_some() || self.servers.iter().any(|server| server.starts_with("tls://"));
        (!tls).then_some(("servers", "`servers` has no tls:// address"))
    }

    /// The client's options; reads the secrets again.
    ///
    /// # Errors
    /// A secret or a file cannot be read.
    #[cfg(feature = "nats")]
    pub async fn options(&self, client: &str) -> Result<async_nats::ConnectOptions, String> {
        use secrecy::ExposeSecret;
        let mut options = async_nats::ConnectOptions::new().name(client);
        if let (Some(username), Some(password)) = (&self.login.username, &self.login.password) {
            options =
                options.user_and_password(username.clone(), password.reveal()?.expose_secret().to_owned());
        }
        if let Some(token) = &self.token {
            options = options.token(token.reveal()?.expose_secret().to_owned());
        }
        if let Some(path) = &self.credentials {
            let read = options.credentials_file(path).await;
            options = read.map_err(|error| format!("the credentials {}: {error}", path.display()))?;
        }
        if let Some(path) = &self.files.ca {
            options = options.add_root_certificates(path.clone()).require_tls(true);
        }
        if let (Some(cert), Some(key)) = (&self.files.cert, &self.files.key) {
            options = options.add_client_certificate(cert.clone(), key.clone()).require_tls(true);
        }
        Ok(options)
    }

    /// Connects.
    ///
    /// # Errors
    /// The cause, with the servers.
    #[cfg(feature = "nats")]
    pub async fn connect(&self, options: async_nats::ConnectOptions) -> Result<async_nats::Client, String> {
        let connected = options.connect(&self.servers).await;
        connected.map_err(|error| {
            self.files.explain(self.tls_off(), format!("{}: {error}", self.servers.join(", ")))
        })
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
            let access = NatsAccess { servers: vec![server.to_owned()], ..NatsAccess::default() };
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
