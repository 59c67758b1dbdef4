//! PEM files of certificates and private keys.

use super::Faults;
use delayq::protocol::of_certificate;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::path::{Path, PathBuf};

crate::section! {
    /// The authority to trust, and the own certificate with its key, in every section that speaks TLS.
    pub struct PemFiles {
        /// PEM file of the authority that signed the other side's certificate; unset: the system's authorities.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ca: Option<PathBuf> = None,
        /// PEM file of the own certificate, if the other side requires one; needs `key`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cert: Option<PathBuf> = None,
        /// PEM file of the private key of `cert`, without a passphrase.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub key: Option<PathBuf> = None,
    }
}

/// The key that turns TLS off, and an explanation; `None`: TLS is on.
pub type TlsOff = Option<(&'static str, &'static str)>;

/// Reads a file of certificates or keys.
///
/// # Errors
/// A sentence: the file cannot be read or is not PEM.
pub fn read_pem(file: &Path) -> Result<Vec<u8>, String> {
    let bytes = std::fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    if bytes.windows(11).any(|text| text == b"-----BEGIN ") {
        return Ok(bytes);
    }
    Err(format!("{} is not PEM: no -----BEGIN line", file.display()))
}

// === impl PemFiles ===

impl PemFiles {
    /// Refuses `cert` without `key`, `key` without `cert`, and unusable files; without TLS, refuses all three.
    pub fn validate(&self, off: TlsOff, at: &mut Faults) {
        at.together(("cert", self.cert.is_some()), ("key", self.key.is_some()));
        let Some((switch, says)) = off else {
            return self.faults().into_iter().for_each(|(key, why)| at.refuse(key, why));
        };
        for (key, file) in [("ca", &self.ca), ("cert", &self.cert), ("key", &self.key)] {
            if file.is_some() {
                at.contradiction(&[key, switch], format!("`{key}` needs TLS, but {says}"));
            }
        }
    }

    /// The faults of the files, each under its key.
    fn faults(&self) -> Vec<(&'static str, String)> {
        let ca = self.ca.as_deref().and_then(|file| read_pem(file).err());
        let cert = self.cert.as_deref().map(read_certificates).transpose();
        let key = self.key.as_deref().map(read_key).transpose();
        let mut faults: Vec<_> = ca.map(|why| ("ca", why)).into_iter().collect();
        match (cert, key) {
            (Ok(Some(cert)), Ok(Some(key))) => {
                let fitting = CertifiedKey::from_der(cert, key, &ring::default_provider());
                // Each client supports its own kinds of keys.
                if let Err(rustls::Error::InconsistentKeys(_)) = fitting {
                    faults.push(("key", "not the private key of `cert`".to_owned()));
                }
            }
            (cert, key) => {
                faults.extend(cert.err().map(|why| ("cert", why)));
                faults.extend(key.err().map(|why| ("key", why)));
            }
        }
        faults
    }

    /// Explains a failed connection, including that the server may ask for a missing certificate.
    #[must_use]
    pub fn explain(&self, off: TlsOff, why: String) -> String {
        match (&self.cert, off) {
            (None, None) => of_certificate(why, false),
            _ => why,
        }
    }

    /// The own certificate and key, as they are in the files.
    ///
    /// # Errors
    /// A sentence that begins with the key: a file cannot be read, or is not PEM.
    pub fn identity(&self) -> Result<Option<[Vec<u8>; 2]>, String> {
        let (Some(cert), Some(key)) = (&self.cert, &self.key) else { return Ok(None) };
        let cert = read_pem(cert).map_err(|why| format!("cert: {why}"))?;
        Ok(Some([cert, read_pem(key).map_err(|why| format!("key: {why}"))?]))
    }

    /// The own certificates and the private key, parsed.
    ///
    /// # Errors
    /// A sentence that begins with the key: a file cannot be read or used.
    pub fn certified(
        &self,
    ) -> Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>, String> {
        let (Some(cert), Some(key)) = (&self.cert, &self.key) else { return Ok(None) };
        let certificates = read_certificates(cert).map_err(|why| format!("cert: {why}"))?;
        Ok(Some((certificates, read_key(key).map_err(|why| format!("key: {why}"))?)))
    }

    /// The certificates of the authority, parsed; `None`: `ca` is not set.
    ///
    /// # Errors
    /// A sentence that begins with the key: the file cannot be read or used.
    pub fn authorities(&self) -> Result<Option<Vec<CertificateDer<'static>>>, String> {
        self.ca.as_deref().map(read_certificates).transpose().map_err(|why| format!("ca: {why}"))
    }
}

fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read_pem(file)?).collect();
    let found = found.map_err(|error| format!("{}: {error}", file.display()))?;
    if found.is_empty() { Err(format!("{} holds no certificate", file.display())) } else { Ok(found) }
}

fn read_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    // Omits the cause, which may quote the file.
    PrivateKeyDer::from_pem_slice(&read_pem(file)?)
        .map_err(|_| format!("{} has no private key without a passphrase", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq_tests::certs::Authority;

    #[test]
    fn a_file_that_cannot_be_used_is_refused_under_its_key() {
        let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
        let (one, other) = (authority.sign("one", &["one.test"]), authority.sign("other", &["other.test"]));
        let (missing, text, locked) =
            (folder.path().join("missing"), folder.path().join("text"), folder.path().join("locked"));
        std::fs::write(&text, "hunter2").unwrap();
        let secret =
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\naHVudGVyMg==\n-----END ENCRYPTED PRIVATE KEY-----\n";
        std::fs::write(&locked, secret).unwrap();
        let ca = authority.authority();
        for (cert, key, expected) in [
            (&one.certificate, &one.key, None),
            (&one.certificate, &other.key, Some(("key", "not the private key of `cert`"))),
            (&one.certificate, &one.certificate, Some(("key", "no private key"))),
            (&one.certificate, &locked, Some(("key", "without a passphrase"))),
            (&one.certificate, &text, Some(("key", "is not PEM"))),
            (&one.certificate, &missing, Some(("key", "cannot read"))),
            (&one.key, &one.key, Some(("cert", "no certificate"))),
            (&missing, &one.key, Some(("cert", "cannot read"))),
        ] {
            let faults = PemFiles { ca: Some(ca.clone()), cert: Some(cert.clone()), key: Some(key.clone()) };
            let faults = faults.faults();
            assert_eq!(faults.len(), usize::from(expected.is_some()), "{faults:?}");
            for ((at, why), (key, words)) in faults.iter().zip(expected) {
                assert!(*at == key && why.contains(words), "{at}: {why}");
                assert!(!why.contains("hunter2") && !why.contains("aHVudGVy"), "{why}");
            }
        }
    }

    #[test]
    fn a_certificate_is_asked_for_only_over_tls_and_where_none_is_set() {
        let none = PemFiles::default();
        let some = PemFiles { cert: Some("client.pem".into()), ..PemFiles::default() };
        let reset = || "reset".to_owned();
        assert!(none.explain(None, reset()).starts_with("reset (the server may ask"));
        assert_eq!(some.explain(None, reset()), "reset");
        assert_eq!(none.explain(Some(("tls", "`tls` is false")), reset()), "reset");
    }
}
