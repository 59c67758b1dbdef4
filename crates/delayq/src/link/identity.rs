//! The client certificate, and the meaning of a failed handshake.

use redis::ClientTlsConfig;
use std::fmt;

/// Failure texts that are unrelated to the client's own certificate: the connection is refused, the name is unknown, or
/// the client refuses the server's certificate.
const OTHER_CAUSES: [&str; 4] = ["connection refused", "lookup", "peer certificate", "verify failed"];

/// Texts of a failed handshake, with meaning and cure.
const MEANINGS: [(&str, &str); 8] = [
    (
        "causedasendentity",
        "the server's certificate is an authority's, as `openssl req -x509` makes them by default: make one \
         with `-addext basicConstraints=critical,CA:FALSE`, or have an authority sign one, and put the \
         certificate or its authority into `ca`",
    ),
    ("unknownissuer", "no trusted authority signed the server's certificate: put its authority into `ca`"),
    (
        "badsignature",
        "another authority of the same name signed the server's certificate: put the right one into `ca`",
    ),
    (
        "verify failed",
        "put the authority of the server's certificate into `ca`, and use a host name from the certificate",
    ),
    ("not valid for name", "use a host name from the server's certificate"),
    ("certificate expired", "renew the certificate, and compare the clocks of both hosts"),
    ("invalidcontenttype", "the server does not speak TLS at this port"),
    // A server without TLS waits for the end of a line, and a handshake may not contain any.
    ("timed out", "a server that does not speak TLS at this port may stay silent"),
];

/// Failure texts that a client sees when the server ends the connection.
const ENDED: [&str; 4] = ["broken pipe", "connection reset", "terminated", "end of file"];

/// A client's certificate and private key, for a Redis that requires client certificates. `Debug` prints neither.
#[derive(Clone)]
pub struct Identity {
    cert_pem: Vec<u8>,
    key_pem: Vec<u8>,
}

// === impl Identity ===

impl Identity {
    /// The certificate, optionally followed by the chain of authorities, and the key without a passphrase; both PEM.
    pub fn from_pem(cert_pem: impl Into<Vec<u8>>, key_pem: impl Into<Vec<u8>>) -> Self {
        Self { cert_pem: cert_pem.into(), key_pem: key_pem.into() }
    }

    pub(super) fn shown(&self) -> ClientTlsConfig {
        ClientTlsConfig { client_cert: self.cert_pem.clone(), client_key: self.key_pem.clone() }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Explains why a TLS connection failed, with the cure. The server may require a client certificate, or may not trust
/// the certificate that the client `shows`: in TLS 1.3 the reset of a server that refuses a certificate can overtake
/// the alert that says so.
#[must_use]
pub fn of_certificate(why: String, shows: bool) -> String {
    let lower = why.to_lowercase();
    if let Some((_, meaning)) = MEANINGS.iter().find(|(words, _)| lower.contains(words)) {
        return format!("{why} ({meaning})");
    }
    if OTHER_CAUSES.iter().any(|cause| lower.contains(cause)) {
        return why;
    }
    why + match shows {
        false => " (the server may ask for a client certificate: set `cert` and `key`)",
        true => " (the server may not trust the client certificate: check `cert`)",
    }
}

pub(super) fn is_ended(why: &str) -> bool {
    let lower = why.to_lowercase();
    ENDED.iter().any(|words| lower.contains(words))
}

/// Explains why a connection without TLS failed, with a hint at the server's likely requirement.
#[must_use]
pub(super) fn without_tls(why: String) -> String {
    if !is_ended(&why) {
        return why;
    }
    why + " (the server closed the connection: it may speak TLS, which needs rediss://)"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_named_unless_the_failure_has_another_cause() {
        for (why, expected) in [
            ("received fatal alert: CertificateRequired", true),
            ("received fatal alert: UnknownCA", true),
            ("Connection reset by peer (os error 104)", true),
            ("Connection refused (os error 111)", false),
            ("failed to lookup address information: Name or service not known", false),
            ("invalid peer certificate: UnknownIssuer", false),
            ("SSL handshake failed: certificate verify failed", false),
            ("received corrupt message of type InvalidContentType", false),
        ] {
            for (shows, hint) in [(false, "set `cert` and `key`"), (true, "check `cert`")] {
                let said = of_certificate(why.to_owned(), shows);
                assert_eq!(said.contains(hint), expected, "{said}");
                assert!(said.starts_with(why), "{said}");
            }
        }
    }
}
