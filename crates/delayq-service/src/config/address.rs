//! A host with a port, and the optional address that a process listens on.

use super::text::Written;
use std::fmt;
use std::str::FromStr;

/// A host name or IP address with a port: `redis.internal:6379`, `[::1]:9440`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    host: String,
    port: u16,
}

/// The address to listen on; an empty string disables listening.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum Listen {
    /// Written `""`: do not listen.
    #[default]
    Off,
    /// Listen here; port 0 takes a free port.
    At(HostPort),
}

// === impl HostPort ===

impl HostPort {
    /// A host and a port. The host is not resolved.
    #[must_use]
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// The host without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(out, "[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refusal = || format!("`{text}` is not an address; write {}", Self::EXPECTED);
        if text.contains('@') {
            // The text before the @ may be a secret and is not repeated.
            return Err(format!("an address has no user and no password; write {}", Self::EXPECTED));
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(refusal)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let forbidden = |c: char| c.is_whitespace() || c.is_control() || "/@[]".contains(c);
        // A bare IPv6 address would lose its last group to the port.
        let sound = if bare.is_some() {
            host.contains("::") || host.matches(':').count() == 7
        } else {
            !host.contains(':')
        };
        let host = bare.unwrap_or(host);
        if host.is_empty() || !sound || host.contains(forbidden) {
            return Err(refusal());
        }
        Ok(Self { host: host.to_owned(), port: port.parse().map_err(|_| refusal())? })
    }
}

crate::written!(HostPort, "\"host:port\", with an IPv6 address in brackets: \"[::1]:9440\"");

// === impl Listen ===

impl fmt::Display for Listen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => Ok(()),
            Self::At(address) => address.fmt(out),
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() { Ok(Self::Off) } else { text.parse().map(Self::At) }
    }
}

crate::written!(Listen, "\"host:port\", or \"\" for none");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_names_and_both_kinds_of_addresses() {
        for (text, host, port) in
            [("localhost:80", "localhost", 80), ("127.0.0.1:0", "127.0.0.1", 0), ("[::1]:9440", "::1", 9440)]
        {
            let read: HostPort = text.parse().unwrap();
            assert_eq!((read.host(), read.port()), (host, port));
            assert_eq!(read.to_string(), text);
        }
        assert_eq!("".parse(), Ok(Listen::Off));
    }

    #[test]
    fn what_is_no_host_with_a_port_is_refused() {
        for text in [
            "",
            "localhost",
            "localhost:",
            ":80",
            "::1:80",
            "a:99999",
            "a b:1",
            "[x]:1",
            "user@h:1",
            "http://h:1",
        ] {
            assert!(text.parse::<HostPort>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_secret_in_an_address_is_not_repeated() {
        for text in ["user:hunter2@h:1", "amqp://user:hunter2@h:1/v", "user:hunter2@h", "user:hunter2@h:x"] {
            let refusal = text.parse::<HostPort>().unwrap_err();
            assert!(!refusal.contains("hunter2"), "{refusal}");
        }
    }
}
