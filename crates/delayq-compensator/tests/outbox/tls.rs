//! TLS to the database, which must show a trusted certificate.

use crate::readers::Readers;
use crate::stand::put;
use delayq_compensator::{OutboxConfig, outbox_keeper};
use delayq_service::config::{PemFiles, Secret};
use delayq_tests::certs::Authority;
use delayq_tests::mariadb_server::MariadbServer;
use delayq_tests::postgres_server::PostgresServer;
use tokio_postgres::NoTls;

async fn others_are_refused(own: String, elsewhere: String, trusted: &Authority) {
    for (url, authority) in [(own, &Authority::new()), (elsewhere, trusted)] {
        let url = Some(Secret::plain(url));
        let files = PemFiles { ca: Some(authority.authority()), ..PemFiles::default() };
        let config = OutboxConfig { url, tls: true, files, ..OutboxConfig::default() };
        let why = outbox_keeper(&config).unwrap().init().await.unwrap_err().to_string();
        assert!(why.contains("invalid peer certificate"), "{why}");
    }
}

async fn readers(url: String, trusted: &Authority) -> Readers {
    Readers::new(url, |config| (config.tls, config.files.ca) = (true, Some(trusted.authority()))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_is_used_if_its_certificate_is_of_the_authority_and_has_its_name() {
    let trusted = Authority::new();
    let server = PostgresServer::start_tls(&trusted.server()).await;
    let elsewhere = PostgresServer::start_tls(&trusted.wrong_name()).await;
    others_are_refused(server.url(), elsewhere.url(), &trusted).await;

    let stand = readers(server.url(), &trusted).await;
    let (database, driver) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(driver);
    database.batch_execute(&put(0..5)).await.unwrap();
    let reader = stand.read();
    stand.is_settled(5).await;
    let encrypted = "SELECT bool_and(s.ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) \
                     WHERE a.application_name = 'delayq'";
    assert!(database.query_one(encrypted, &[]).await.unwrap().get::<_, bool>(0));
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mariadb_is_used_if_its_certificate_is_of_the_authority_and_has_its_name() {
    let trusted = Authority::new();
    let server = MariadbServer::start_tls(&trusted.server()).await;
    let elsewhere = MariadbServer::start_tls(&trusted.wrong_name()).await;
    others_are_refused(server.url(), elsewhere.url(), &trusted).await;

    let stand = readers(server.url(), &trusted).await;
    let plain = OutboxConfig { url: Some(Secret::plain(server.url())), ..OutboxConfig::default() };
    let why = outbox_keeper(&plain).unwrap().books().await.unwrap_err().to_string();
    assert!(why.contains("Access denied"), "the server takes no other connection: {why}");
    let reader = stand.read();
    stand.is_all_settled().await;
    reader.end().await;
}
