//! TLS with a certificate of the test's own authority, users with passwords, and tokens that die with etcd.

use crate::fleet::{Floor, Member, config};
use delayq_cluster::{Cluster, ClusterConfig, ClusterError, Observer};
use delayq_service::config::{Login, PemFiles, Secret};
use delayq_tests::certs::{self, Authority};
use delayq_tests::etcd_server::{EtcdCluster, EtcdOptions};
use etcd_client::{Certificate, Client, ConnectOptions, Permission, PermissionType, TlsOptions};

/// An etcd with a certificate of this authority under two names, which demands client certificates of the
/// same authority.
fn asking_for_certificates(authority: &Authority) -> EtcdOptions {
    let server = authority.sign("server", &["127.0.0.1", "etcd.test"]);
    let trusted = authority.authority().display().to_string();
    EtcdOptions::default().tls(&server.certificate, &server.key).arguments([
        "--client-cert-auth",
        "--trusted-ca-file",
        &trusted,
    ])
}

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

fn log_in(config: &mut ClusterConfig, password: Secret) {
    config.etcd.login = Login { username: Some("timer".into()), password: Some(password) };
}

#[tokio::test(flavor = "multi_thread")]
async fn members_meet_over_tls_with_a_password() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let authority = Authority::new();
    let etcd = EtcdCluster::start_with(asking_for_certificates(&authority)).await;
    let endpoint = etcd.members()[0].endpoint();
    let authority_pem = std::fs::read(authority.authority()).unwrap();
    let certs::Certificate { certificate, key } = authority.sign("member", &["member.test"]);
    let [client_pem, client_key_pem] = [&certificate, &key].map(|file| std::fs::read(file).unwrap());
    let identity = etcd_client::Identity::from_pem(client_pem, client_key_pem);
    let tls = TlsOptions::new().ca_certificate(Certificate::from_pem(&authority_pem)).identity(identity);
    let options = ConnectOptions::new().with_tls(tls);
    secure(&mut Client::connect([&endpoint], Some(options)).await.unwrap()).await;

    let secured = |name: &str| {
        let mut config = config(std::slice::from_ref(&endpoint), name, 32);
        config.etcd.files = PemFiles {
            ca: Some(authority.authority()),
            cert: Some(certificate.clone()),
            key: Some(key.clone()),
        };
        log_in(&mut config, Secret::plain("timer-password"));
        config
    };
    let floor = Floor::new();
    let first = Member::join(secured("a"), &floor).await;
    let mut named = secured("b");
    named.etcd.server_name = Some("etcd.test".into());
    let second = Member::join(named, &floor).await;
    floor.until("a and b share", |work| work.balanced(32, &["a", "b"])).await;
    let health = Observer::new(&secured("doctor")).unwrap().health().await;
    assert!(health[0].has_leader, "{health:?}");
    first.leave().await;
    second.leave().await;

    let mut wrong = secured("c");
    log_in(&mut wrong, Secret::plain("wrong"));
    let error = Cluster::start(wrong).await.err().unwrap();
    assert!(matches!(error, ClusterError::Refused(_)), "{error}");

    let mut elsewhere = secured("c");
    elsewhere.namespace = "forbidden".parse().unwrap();
    elsewhere.etcd.prefix = "/other".parse().unwrap();
    let error = Cluster::start(elsewhere).await.err().unwrap();
    assert!(matches!(error, ClusterError::Refused(_)), "{error}");

    let mut wrong_name = secured("c");
    wrong_name.etcd.server_name = Some("another.test".into());
    let error = Observer::new(&wrong_name).unwrap().overview().await.unwrap_err();
    assert!(matches!(error, ClusterError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("not valid for name"), "{error}");

    let mut untrusted = secured("c");
    untrusted.etcd.files.ca = Some("/dev/null".into());
    assert!(matches!(Cluster::start(untrusted).await.err(), Some(ClusterError::Config(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_asks_for_a_certificate_is_named_to_who_has_none() {
    let authority = Authority::new();
    let mut etcd = EtcdCluster::start_with(asking_for_certificates(&authority)).await;
    let mut config = config(&[etcd.members()[0].endpoint()], "a", 16);
    config.etcd.files.ca = Some(authority.authority());
    let hint = "the server may ask for a client certificate: set `cert` and `key`";
    let observer = Observer::new(&config).unwrap();
    let error = observer.overview().await.unwrap_err();
    assert!(matches!(error, ClusterError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains(hint), "{error}");

    etcd.member(0).kill().await;
    let error = observer.overview().await.unwrap_err().to_string();
    assert!(error.contains("refused") && !error.contains(hint), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_died_with_etcd_is_asked_for_again() {
    let mut etcd = EtcdCluster::start_one().await;
    secure(&mut Client::connect(etcd.endpoints(), None).await.unwrap()).await;
    let secured = |name: &str| {
        let mut config = config(&etcd.endpoints(), name, 16);
        log_in(&mut config, Secret::plain("timer-password"));
        config
    };
    let (third, outside) = (secured("c"), Observer::new(&secured("outside")).unwrap());
    let floor = Floor::new();
    let _first = Member::join(secured("a"), &floor).await;
    let _second = Member::join(secured("b"), &floor).await;
    floor.until("a and b share", |work| work.balanced(16, &["a", "b"])).await;
    assert_eq!(outside.overview().await.unwrap().members.len(), 2);

    etcd.member(0).kill().await;
    etcd.member(0).launch();
    // Joining tries until etcd is back, and authenticates again. The other members need their old claims and
    // a new token.
    let _third = Member::join(third, &floor).await;
    floor.until("a, b and c share", |work| work.balanced(16, &["a", "b", "c"])).await;
    assert_eq!(outside.overview().await.unwrap().members.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_password_file_does_not_cost_a_member_its_lease() {
    let etcd = EtcdCluster::start_one().await;
    let mut client = Client::connect(etcd.endpoints(), None).await.unwrap();
    secure(&mut client).await;
    let folder = delayq_tests::folder::Folder::new("secret");
    let file = folder.join("password");
    std::fs::write(&file, "timer-password\n").unwrap();
    let secured = |name: &str| {
        let mut config = config(&etcd.endpoints(), name, 16);
        log_in(&mut config, Secret::file(&file));
        config
    };
    let floor = Floor::new();
    let first = Member::join(secured("a"), &floor).await;
    floor.until("a owns all", |work| work.balanced(16, &["a"])).await;
    let root = ConnectOptions::new().with_user("root", "root-password");
    let mut root = Client::connect(etcd.endpoints(), Some(root)).await.unwrap();
    root.user_change_password("timer", "rotated").await.unwrap();
    std::fs::write(&file, "rotated\n").unwrap();
    let _second = Member::join(secured("b"), &floor).await;
    floor.until("a and b share", |work| work.balanced(16, &["a", "b"])).await;
    assert_eq!(first.handle.stats().leases_granted, 1);
}
