//! The certificate by which a client says who it is.

use redis::ClientTlsConfig;
use std::fmt;

/// A client's certificate and its private key, for a Redis that asks for one. It prints neither.
#[derive(Clone)]
pub struct Identity {
    cert_pem: Vec<u8>,
    key_pem: Vec<u8>,
}

// === impl Identity ===

impl Identity {
    /// The certificate, which may be followed by those that signed it, and its key without a passphrase; both PEM.
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
