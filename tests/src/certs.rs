//! A private certificate authority with its server certificates, as PEM files in a temporary folder.

use crate::folder::Folder;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The only name in [`Authority::wrong_name`]'s certificate, in a domain that cannot be owned.
pub const WRONG_NAME: &str = "elsewhere.invalid";

static NUMBER: AtomicU32 = AtomicU32::new(1);

/// An authority that no machine trusts by default. Dropping the authority removes all its files.
#[derive(Debug)]
pub struct Authority {
    folder: Folder,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, as files for a server.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The certificate, in PEM.
    pub certificate: PathBuf,
    /// The key, in PEM (PKCS #8).
    pub key: PathBuf,
}

// === impl Authority ===

impl Authority {
    /// Creates an authority.
    #[must_use]
    pub fn new() -> Self {
        let folder = Folder::new("certs");
        let key = KeyPair::generate().expect("ring makes P-256 keys");
        let mut about = CertificateParams::default();
        // A client distinguishes authorities by name before checking signatures.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        about.distinguished_name.push(DnType::CommonName, format!("delayq tests {number}"));
        about.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        about.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pem = about.self_signed(&key).expect("an authority can sign itself").pem();
        write(&folder.join("authority.pem"), &pem);
        write(&folder.join("authority-key.pem"), &key.serialize_pem());
        Self { folder, issuer: Issuer::new(about, key) }
    }

    /// The authority's own certificate, in PEM, for clients to trust.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.folder.join("authority.pem")
    }

    /// The authority's own certificate, shown by a server, as one that was made by `openssl req -x509`.
    #[must_use]
    pub fn as_server(&self) -> Certificate {
        Certificate { certificate: self.authority(), key: self.folder.join("authority-key.pem") }
    }

    /// A certificate for a server on this host: `127.0.0.1` and `localhost`.
    #[must_use]
    pub fn server(&self) -> Certificate {
        self.sign("server", &["127.0.0.1", "localhost"])
    }

    /// A certificate signed by this authority for [`WRONG_NAME`] only: a client that checks names refuses it.
    #[must_use]
    pub fn wrong_name(&self) -> Certificate {
        self.sign("wrong-name", &[WRONG_NAME])
    }

    /// Settings of a Redis or sentinel with a certificate of this authority, which also trusts clients of this
    /// authority; `asks` makes client certificates mandatory.
    pub(crate) fn redis_settings(
        &self,
        certificate: &Certificate,
        asks: bool,
    ) -> [(&'static str, String); 4] {
        let path = |path: &Path| path.display().to_string();
        [
            ("tls-cert-file", path(&certificate.certificate)),
            ("tls-key-file", path(&certificate.key)),
            ("tls-ca-cert-file", path(&self.authority())),
            ("tls-auth-clients", if asks { "yes" } else { "no" }.to_owned()),
        ]
    }

    /// Signs a new certificate for these names and addresses. `label` names its files; reusing a label replaces them.
    #[must_use]
    pub fn sign(&self, label: &str, names: &[&str]) -> Certificate {
        self.sign_until(label, names, 4096)
    }

    /// An expired certificate for a server on this host.
    #[must_use]
    pub fn expired(&self) -> Certificate {
        self.sign_until("expired", &["127.0.0.1", "localhost"], 2020)
    }

    fn sign_until(&self, label: &str, names: &[&str], year: i32) -> Certificate {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut about = CertificateParams::new(names).expect("the names are ASCII");
        about.distinguished_name.push(DnType::CommonName, label);
        about.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().expect("ring makes P-256 keys");
        let signed = about.signed_by(&key, &self.issuer).expect("the authority can sign");
        let made = Certificate {
            certificate: self.folder.join(&format!("{label}.pem")),
            key: self.folder.join(&format!("{label}-key.pem")),
        };
        write(&made.certificate, &signed.pem());
        write(&made.key, &key.serialize_pem());
        made
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|e| panic!("cannot write {}: {e}", path.display()));
}
