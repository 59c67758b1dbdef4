//! TLS to the database: the server's certificate is always checked.

use delayq_service::config::PemFiles;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
#[cfg(feature = "postgres")]
use {rustls::ClientConfig, std::sync::Arc};

/// The authorities that a client trusts, and the client's own certificate.
///
/// # Errors
/// A sentence: a file cannot be read or used, or the system has no authorities.
#[cfg(feature = "postgres")]
pub(super) fn client(files: &PemFiles) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots(files)?);
    let Some((certificates, key)) = files.certified()? else { return Ok(builder.with_no_client_auth()) };
    builder.with_client_auth_cert(certificates, key).map_err(|error| format!("cert: {error}"))
}

#[cfg(feature = "postgres")]
fn roots(files: &PemFiles) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities(files)?);
    Ok(roots)
}

/// The authorities to trust: the authorities of the file, or of the system.
///
/// # Errors
/// A sentence: the file cannot be read, or there is none that can be used.
pub(super) fn authorities(files: &PemFiles) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut found = match files.authorities()? {
        Some(authorities) => authorities,
        None => rustls_native_certs::load_native_certs().certs,
    };
    // Systems hold some that rustls does not read.
    found.retain(|cert| RootCertStore::empty().add(cert.clone()).is_ok());
    if found.is_empty() {
        return Err("ca: no certificate in the file".to_owned());
    }
    Ok(found)
}
