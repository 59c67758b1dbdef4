//! TLS with a certificate of our own authority, users with passwords, and tokens that die with etcd.

use crate::etcd::{Etcd, Options};
use crate::fleet::{Floor, Member, config};
use delayq_cluster::{Advice, Cluster, ClusterError, Credentials, Identity, Observer, TlsConfig};
use etcd_client::{Certificate, Client, ConnectOptions, Permission, PermissionType, TlsOptions};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An authority and what it signed: etcd's certificate as files, and what a member needs.
struct Certificates {
    server: (PathBuf, PathBuf, PathBuf),
    authority_pem: Vec<u8>,
    client_pem: Vec<u8>,
    client_key_pem: String,
}

fn certificates(folder: &Path) -> Certificates {
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::new(authority, authority_key);
    let sign = |names: &[&str]| {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    };
    let (server_pem, server_key_pem) = sign(&["127.0.0.1", "etcd.test"]);
    let (client_pem, client_key_pem) = sign(&["member.test"]);
    let files = (folder.join("server.pem"), folder.join("server-key.pem"), folder.join("authority.pem"));
    std::fs::write(&files.0, server_pem).unwrap();
    std::fs::write(&files.1, server_key_pem).unwrap();
    std::fs::write(&files.2, &authority_pem).unwrap();
    Certificates {
        server: files,
        authority_pem: authority_pem.into_bytes(),
        client_pem: client_pem.into_bytes(),
        client_key_pem,
    }
}

/// Switches authentication on: root, and a user `timer` that may use its prefix only.
async fn secure(client: &mut Client) {
    client.user_add("root", "root-password", None).await.unwrap();
    client.user_grant_role("root", "root").await.unwrap();
    client.user_add("timer", "timer-password", None).await.unwrap();
    client.role_add("delayq").await.unwrap();
    let prefix = etcd_client::Permission::new(PermissionType::Readwrite, "/delayq/").with_prefix();
    let prefix: Permission = prefix;
    client.role_grant_permission("delayq", prefix).await.unwrap();
    client.user_grant_role("timer", "delayq").await.unwrap();
    client.auth_enable().await.unwrap();
}

fn timer(password: &str) -> Credentials {
    Credentials { user: "timer".into(), password: password.into() }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_meet_over_tls_with_a_password() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let made = certificates(folder.path());
    let etcd = Etcd::start(1, &Options { tls: Some(made.server.clone()) });
    let endpoint = format!("https://127.0.0.1:{}", etcd.port(0));
    let identity = etcd_client::Identity::from_pem(&made.client_pem, &made.client_key_pem);
    let tls = TlsOptions::new().ca_certificate(Certificate::from_pem(&made.authority_pem)).identity(identity);
    let options = ConnectOptions::new().with_tls(tls);
    secure(&mut Client::connect([&endpoint], Some(options)).await.unwrap()).await;

    let secured = |name: &str| {
        let mut config = config(std::slice::from_ref(&endpoint), name, 32);
        config.etcd.tls = Some(TlsConfig {
            authority_pem: Some(made.authority_pem.clone()),
            server_name: None,
            identity: Some(Identity {
                certificate_pem: made.client_pem.clone(),
                key_pem: made.client_key_pem.clone().into(),
            }),
        });
        config.etcd.credentials = Some(timer("timer-password"));
        config
    };
    let floor = Floor::new();
    let first = Member::join(secured("a"), &floor).await;
    let mut named = secured("b");
    named.etcd.tls.as_mut().unwrap().server_name = Some("etcd.test".into());
    let second = Member::join(named, &floor).await;
    floor.until("a and b share", |work| work.balanced(32, &["a", "b"])).await;
    let health = Observer::new(&secured("doctor")).unwrap().health().await;
    assert!(health[0].has_leader, "{health:?}");
    first.leave().await;
    second.leave().await;

    let mut wrong = secured("c");
    wrong.etcd.credentials = Some(timer("wrong"));
    let error = Cluster::join(wrong).await.err().unwrap();
    assert!(matches!(error, ClusterError::Refused(_)), "{error}");
    assert_eq!(error.advice(), Advice::GiveUp);

    let mut elsewhere = secured("c");
    elsewhere.namespace = "forbidden".into();
    elsewhere.prefix = "other".into();
    let error = Cluster::join(elsewhere).await.err().unwrap();
    assert!(matches!(error, ClusterError::Refused(_)), "{error}");

    let mut wrong_name = secured("c");
    wrong_name.etcd.tls.as_mut().unwrap().server_name = Some("another.test".into());
    wrong_name.join_deadline = Duration::from_millis(200);
    let error = Cluster::join(wrong_name).await.err().unwrap();
    assert!(matches!(error, ClusterError::Unreachable { .. }), "{error}");

    let mut unknown = secured("c");
    unknown.etcd.tls.as_mut().unwrap().identity = None;
    unknown.join_deadline = Duration::from_millis(200);
    let error = Cluster::join(unknown).await.err().unwrap();
    assert!(matches!(error, ClusterError::Unreachable { .. }), "{error}");

    let mut untrusted = secured("c");
    untrusted.etcd.tls.as_mut().unwrap().authority_pem = Some(b"not a certificate".to_vec());
    assert!(matches!(Cluster::join(untrusted).await.err(), Some(ClusterError::Tls(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_died_with_etcd_is_asked_for_anew() {
    let mut etcd = Etcd::single();
    secure(&mut Client::connect(etcd.endpoints(), None).await.unwrap()).await;
    let secured = |name: &str| {
        let mut config = config(&etcd.endpoints(), name, 16);
        config.etcd.credentials = Some(timer("timer-password"));
        config
    };
    let (third, outside) = (secured("c"), Observer::new(&secured("outside")).unwrap());
    let floor = Floor::new();
    let _first = Member::join(secured("a"), &floor).await;
    let _second = Member::join(secured("b"), &floor).await;
    floor.until("a and b share", |work| work.balanced(16, &["a", "b"])).await;
    assert_eq!(outside.overview().await.unwrap().members.len(), 2);

    etcd.kill(0);
    etcd.restart(0);
    // Joining tries until etcd is back; it authenticates anew. The others need their old claims and a new token.
    let _third = Member::join(third, &floor).await;
    floor.until("a, b and c share", |work| work.balanced(16, &["a", "b", "c"])).await;
    assert_eq!(outside.overview().await.unwrap().members.len(), 3);
    assert_eq!(floor.work().overlaps, []);
}
