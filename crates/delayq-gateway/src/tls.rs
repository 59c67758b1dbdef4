//! TLS of the gateway's own address. The certificate and the authority of the clients are read again after a change.

use crate::codes::CERTIFICATE;
use crate::config::GatewayConfig;
use crate::files::Changes;
use delayq_service::config::PemFiles;
use delayq_service::{Fault, Shutdown};
use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::sync::{Arc, PoisonError, RwLock};
use tokio_rustls::TlsAcceptor;

/// The certificate of new connections; clones share the state.
#[derive(Clone)]
pub(crate) struct Tls {
    config: Arc<GatewayConfig>,
    changes: Changes,
    current: Arc<RwLock<Arc<ServerConfig>>>,
}

// === impl Tls ===

impl Tls {
    /// Reads the certificate, if configured.
    ///
    /// # Errors
    /// [`CERTIFICATE`]: a file cannot be read or used.
    pub(crate) fn read(config: &GatewayConfig) -> Result<Option<Self>, Fault> {
        let files = &config.files;
        if files.cert.is_none() {
            return Ok(None);
        }
        let changes = Changes::of([&files.ca, &files.cert, &files.key].into_iter().flatten().cloned());
        let current = server(files).map_err(|why| Fault::new(&CERTIFICATE, why))?;
        let current = Arc::new(RwLock::new(Arc::new(current)));
        Ok(Some(Self { config: Arc::new(config.clone()), changes, current }))
    }

    /// Accepts a connection under the current certificate.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner)).into()
    }

    /// Follows changes of the files until shutdown. Unusable files change nothing: the certificate and the key may be
    /// replaced one after the other.
    pub(crate) async fn follow(mut self, shutdown: Shutdown) {
        while self.changes.next(&shutdown).await.is_some() {
            match server(&self.config.files) {
                Ok(config) => {
                    tracing::info!("certificate reloaded");
                    *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
                }
                Err(why) => tracing::error!(why, "the certificate is unchanged: the files cannot be used"),
            }
        }
    }
}

/// # Errors
/// A sentence that begins with the key of the file.
fn server(files: &PemFiles) -> Result<ServerConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match files.authorities()? {
        Some(authorities) => {
            let mut roots = RootCertStore::empty();
            for authority in authorities {
                roots.add(authority).map_err(|error| format!("ca: {error}"))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| format!("ca: {error}"))?)
        }
        None => builder.with_no_client_auth(),
    };
    let (certificates, key) = files.certified()?.ok_or("cert: not set")?;
    let mut config = builder.with_single_cert(certificates, key).map_err(|error| format!("cert: {error}"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
