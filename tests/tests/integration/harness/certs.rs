//! The private authority, through a real server's TLS, as seen by a client that verifies.

use delayq_tests::certs::{Authority, Certificate};
use delayq_tests::etcd_server::{EtcdCluster, EtcdOptions};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, ClientConnection, Error, RootCertStore};
use std::net::TcpStream;
use std::sync::Arc;

async fn serving(certificate: &Certificate) -> EtcdCluster {
    EtcdCluster::start_with(EtcdOptions::default().tls(&certificate.certificate, &certificate.key)).await
}

/// Shakes hands with the server under this name, as a client that trusts only `authority`.
fn shake_hands(etcd: &EtcdCluster, name: &'static str, authority: &Authority) -> Result<(), Error> {
    let mut trusted = RootCertStore::empty();
    trusted.add(CertificateDer::from_pem_file(authority.authority()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(trusted)
        .with_no_client_auth();
    let mut client = ClientConnection::new(Arc::new(config), ServerName::try_from(name).unwrap())?;
    let endpoint = &etcd.endpoints()[0];
    let mut stream = TcpStream::connect(endpoint.trim_start_matches("https://")).unwrap();
    while client.is_handshaking() {
        if let Err(e) = client.complete_io(&mut stream) {
            return Err(e.downcast().expect("the handshake, not the connection, fails"));
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_servers_certificate_is_good_for_this_host_and_its_authority_only() {
    let authority = Authority::new();
    let etcd = serving(&authority.server()).await;
    for name in ["127.0.0.1", "localhost"] {
        assert_eq!(shake_hands(&etcd, name, &authority), Ok(()), "{name}");
    }
    let refused = shake_hands(&etcd, "localhost", &Authority::new()).unwrap_err();
    // Both authorities have the same name: only the signature differs.
    let reasons =
        [CertificateError::UnknownIssuer, CertificateError::BadSignature].map(Error::InvalidCertificate);
    assert!(reasons.contains(&refused), "{refused}");
}

#[tokio::test]
async fn a_certificate_of_the_wrong_name_is_refused_for_its_name() {
    let authority = Authority::new();
    let etcd = serving(&authority.wrong_name()).await;
    let refused = shake_hands(&etcd, "localhost", &authority).unwrap_err();
    let for_its_name = matches!(
        refused,
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
        )
    );
    assert!(for_its_name, "{refused}");
    assert_eq!(shake_hands(&etcd, delayq_tests::certs::WRONG_NAME, &authority), Ok(()));
}
