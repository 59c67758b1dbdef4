//! Further listeners of a test's Kafka broker: behind a proxy, with TLS, with a login.

use crate::certs::Certificate;
use crate::ports::free_port;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A further listening port of a broker, in addition to the plain one.
///
/// Clients ask a broker for its address and connect there. So a listener behind a proxy must advertise the proxy:
/// create the listener, start the proxy in front of [`Listener::address`], and pass its address to
/// [`Listener::advertised_as`].
#[derive(Debug, Clone)]
pub struct Listener {
    port: u16,
    advertised: String,
    certificate: Option<Certificate>,
    asks: Option<PathBuf>,
    login: Option<(String, String)>,
}

// === impl Listener ===

impl Listener {
    /// A plain listener.
    #[must_use]
    pub fn plain() -> Self {
        let port = free_port();
        Self { port, advertised: format!("127.0.0.1:{port}"), certificate: None, asks: None, login: None }
    }

    /// The listener's address, `127.0.0.1:PORT`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Sets the advertised address.
    #[must_use]
    pub fn advertised_as(mut self, address: &str) -> Self {
        address.clone_into(&mut self.advertised);
        self
    }

    /// Uses TLS with this certificate.
    #[must_use]
    pub fn certificate(mut self, certificate: &Certificate) -> Self {
        self.certificate = Some(certificate.clone());
        self
    }

    /// Requires client certificates of this authority.
    #[must_use]
    pub fn asking(mut self, authority: &Path) -> Self {
        self.asks = Some(authority.to_owned());
        self
    }

    /// Requires SASL PLAIN for a user; neither name nor password may contain a quote.
    #[must_use]
    pub fn login(mut self, user: &str, password: &str) -> Self {
        self.login = Some((user.to_owned(), password.to_owned()));
        self
    }

    const fn protocol(&self) -> &'static str {
        match (self.certificate.is_some(), self.login.is_some()) {
            (false, false) => "PLAINTEXT",
            (true, false) => "SSL",
            (false, true) => "SASL_PLAINTEXT",
            (true, true) => "SASL_SSL",
        }
    }
}

/// The broker's settings for its listeners, including `first` (plain, named `PLAINTEXT`) and the controller.
pub(crate) fn settings(first: u16, controller: u16, more: &[Listener], folder: &Path) -> String {
    let own = format!("PLAINTEXT://127.0.0.1:{first}");
    let mut listeners = format!("{own},CONTROLLER://127.0.0.1:{controller}");
    let mut advertised = own;
    let mut protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT".to_owned();
    let mut rest = String::new();
    for (n, listener) in more.iter().enumerate() {
        let _ = write!(listeners, ",L{n}://{}", listener.address());
        let _ = write!(advertised, ",L{n}://{}", listener.advertised);
        let _ = write!(protocols, ",L{n}:{}", listener.protocol());
        let name = format!("listener.name.l{n}");
        if let Some(certificate) = &listener.certificate {
            let store = key_store(certificate, folder, n);
            let _ = writeln!(rest, "{name}.ssl.keystore.type=PEM\n{name}.ssl.keystore.location={store}");
        }
        if let Some(authority) = &listener.asks {
            let store = authority.display();
            let _ = writeln!(
                rest,
                "{name}.ssl.client.auth=required\n{name}.ssl.truststore.type=PEM\n\
                 {name}.ssl.truststore.location={store}"
            );
        }
        if let Some((user, password)) = &listener.login {
            let module = "org.apache.kafka.common.security.plain.PlainLoginModule";
            let _ = writeln!(
                rest,
                "{name}.sasl.enabled.mechanisms=PLAIN\n\
                 {name}.plain.sasl.jaas.config={module} required user_{user}=\"{password}\";"
            );
        }
    }
    format!(
        "listeners={listeners}\nadvertised.listeners={advertised}\ncontroller.listener.names=CONTROLLER\n\
         listener.security.protocol.map={protocols}\ninter.broker.listener.name=PLAINTEXT\n{rest}"
    )
}

/// Kafka reads key and certificate from one file.
fn key_store(certificate: &Certificate, folder: &Path, number: usize) -> String {
    let read = |path: &Path| {
        std::fs::read_to_string(path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()))
    };
    let path = folder.join(format!("store-{number}.pem"));
    let text = read(&certificate.key) + &read(&certificate.certificate);
    std::fs::write(&path, text).expect("a folder just made can be written to");
    path.display().to_string()
}
