//! Keeps other users of this machine out of the private servers, in addition to the folder's mode.
//!
//! Redis listens on a socket in the folder, or asks for a password. etcd accepts only clients with a certificate of the
//! folder, and has no port for peers. The gateway asks for a token.

use super::folder::DataFolder;
use crate::failure::file;
use delayq_gateway::token_line;
use delayq_service::{Fault, codes};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;

const PASSWORD: &str = "redis.password";
/// The token of requests to the gateway.
pub const TOKEN: &str = "gateway.token";
/// The hash of the token, for the gateway.
pub const TOKENS: &str = "gateway.tokens";
const SECRET_BYTES: usize = 32;

/// The certificates of etcd and of etcd's clients: a single pair for both sides, and the signing authority.
#[derive(Debug)]
pub(super) struct Certificates {
    pub(super) authority: PathBuf,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

pub(super) fn password_file(folder: &DataFolder) -> PathBuf {
    folder.join(PASSWORD)
}

/// Created if missing.
pub(super) fn password(folder: &DataFolder) -> Result<String, Fault> {
    secret(folder, PASSWORD)
}

/// Creates the token if missing, and writes the file that the gateway reads.
pub(super) fn make_token(folder: &DataFolder) -> Result<(), Fault> {
    folder.replace(TOKENS, &token_line("up", &secret(folder, TOKEN)?))
}

fn secret(folder: &DataFolder, name: &str) -> Result<String, Fault> {
    if let Some(secret) = folder.read(name)?.filter(|secret| !secret.is_empty()) {
        return Ok(secret);
    }
    let source = std::path::Path::new("/dev/urandom");
    let mut random = [0_u8; SECRET_BYTES];
    let read = File::open(source).and_then(|mut source| source.read_exact(&mut random));
    read.map_err(|error| file(source, "read", error))?;
    let mut secret = String::new();
    for byte in random {
        write!(secret, "{byte:02x}").expect("writing to a string cannot fail");
    }
    folder.replace(name, &secret)?;
    Ok(secret)
}

// === impl Certificates ===

impl Certificates {
    pub(super) fn of(folder: &DataFolder) -> Self {
        Self {
            authority: folder.join("etcd-authority.pem"),
            certificate: folder.join("etcd.pem"),
            key: folder.join("etcd-key.pem"),
        }
    }

    /// The authority's key is not kept, so that key can sign nothing else.
    pub(super) fn make(folder: &DataFolder) -> Result<Self, Fault> {
        let [authority, certificate, key] =
            pems().map_err(|error| Fault::new(&codes::SYSTEM, "cannot make a certificate").because(error))?;
        folder.replace("etcd-authority.pem", &authority)?;
        folder.replace("etcd.pem", &certificate)?;
        folder.replace("etcd-key.pem", &key)?;
        Ok(Self::of(folder))
    }
}

fn pems() -> Result<[String; 3], rcgen::Error> {
    let mut about = CertificateParams::default();
    about.distinguished_name.push(DnType::CommonName, "delayq up");
    about.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    about.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate()?;
    let authority = about.self_signed(&key)?.pem();
    let issuer = Issuer::new(about, key);

    let mut about = CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()])?;
    about.distinguished_name.push(DnType::CommonName, "etcd of delayq up");
    about.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate()?;
    Ok([authority, about.signed_by(&key, &issuer)?.pem(), key.serialize_pem()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_password_is_made_once_and_differs_from_folder_to_folder() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (one, other) = (DataFolder::open(one.path()).unwrap(), DataFolder::open(other.path()).unwrap());
        let made = password(&one).unwrap();
        assert_eq!(made.len(), 2 * SECRET_BYTES);
        assert_eq!(password(&one).unwrap(), made);
        assert_ne!(password(&other).unwrap(), made);
    }

    #[test]
    fn no_other_user_may_read_a_password_a_token_or_a_key() {
        let dir = tempfile::tempdir().unwrap();
        let folder = DataFolder::open(dir.path()).unwrap();
        password(&folder).unwrap();
        make_token(&folder).unwrap();
        let made = Certificates::make(&folder).unwrap();
        for path in [password_file(&folder), folder.join(TOKEN), made.key] {
            assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}
