//! Access to a RabbitMQ server, or another broker of AMQP 0-9-1.

#[cfg(feature = "rabbitmq")]
mod arguments;
#[cfg(feature = "rabbitmq")]
mod bound;
#[cfg(feature = "rabbitmq")]
mod confirms;
#[cfg(feature = "rabbitmq")]
mod declared;
#[cfg(feature = "rabbitmq")]
mod letter;
#[cfg(feature = "rabbitmq")]
mod publish;

use crate::config::{Faults, HostPort, Login, PemFiles, Section, TlsOff};

#[cfg(feature = "rabbitmq")]
pub use arguments::{RabbitmqArguments, rabbitmq_arguments, rabbitmq_words};
#[cfg(feature = "rabbitmq")]
pub use declared::{close_rabbitmq, rabbitmq_destination, rabbitmq_queue};
#[cfg(feature = "rabbitmq")]
pub use letter::RabbitmqLetter;
#[cfg(feature = "rabbitmq")]
pub use publish::publish_rabbitmq;

/// The user of a broker where none is set, also its password.
const GUEST: &str = "guest";

crate::section! {
    /// The address of a server, and the login.
    pub struct RabbitmqAccess {
        ..files: PemFiles,
        ..login: Login,
        /// Host and port; default `127.0.0.1:5672`.
        pub server: HostPort = HostPort::new("127.0.0.1", 5672),
        /// Uses TLS; default false.
        pub tls: bool = false,
        /// Virtual host; default `/`.
        pub vhost: String = "/".to_owned(),
    }
}

// === impl RabbitmqAccess ===

impl Section for RabbitmqAccess {
    fn validate(&self, at: &mut Faults) {
        self.files.validate(self.tls_off(), at);
        self.login.validate(at);
    }
}

impl RabbitmqAccess {
    fn tls_off(&self) -> TlsOff {
        (!self.tls).then_some(("tls", "`tls` is false"))
    }

    /// The user; `guest` if unset.
    #[must_use]
    pub fn user(&self) -> &str {
        self.login.username.as_deref().unwrap_or(GUEST)
    }

    /// Connects; reads the password and the certificates again.
    ///
    /// # Errors
    /// The cause, with the server.
    #[cfg(feature = "rabbitmq")]
    pub async fn connect(&self, client: &str) -> Result<lapin::Connection, String> {
        use lapin::ConnectionProperties;
        use lapin::tcp::{OwnedIdentity, OwnedTLSConfig};
        use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
        use secrecy::ExposeSecret;
        /// Silence in seconds after which the connection counts as broken.
        const HEARTBEAT_SECS: u16 = 10;
        let password = match &self.login.password {
            None => GUEST.to_owned(),
            Some(secret) => secret.reveal()?.expose_secret().to_owned(),
        };
        let uri = AMQPUri {
            scheme: if self.tls { AMQPScheme::AMQPS } else { AMQPScheme::AMQP },
            authority: AMQPAuthority {
                userinfo: AMQPUserInfo { username: self.user().to_owned(), password },
                host: self.server.host().to_owned(),
                port: self.server.port(),
            },
            vhost: self.vhost.clone(),
            query: AMQPQueryString { heartbeat: Some(HEARTBEAT_SECS), ..AMQPQueryString::default() },
        };
        let cert_chain =
            match &self.files.ca {
                None => None,
                Some(path) => Some(std::fs::read_to_string(path).map_err(|error| {
                    format!("the certificates {} cannot be read: {error}", path.display())
                })?),
            };
        let identity = self.files.identity()?.map(|[pem, key]| OwnedIdentity::PKCS8 { pem, key });
        let tls = OwnedTLSConfig { identity, cert_chain };
        let properties = ConnectionProperties::default().with_connection_name(client.into());
        let runtime = lapin::runtime::default_runtime().map_err(|error| error.to_string())?;
        lapin::Connection::connect_uri_with_config(uri, properties, tls, runtime)
            .await
            .map_err(|error| self.files.explain(self.tls_off(), format!("{}: {error}", self.server)))
    }
}

/// Checks that messages may be published with a routing key. Over the default exchange the key is a queue; refuses the
/// broker's own queues, such as the reply queue of a request (`amq.rabbitmq.reply-to.…`) or a queue with a generated
/// name (`amq.gen-…`).
///
/// # Errors
/// Why the key is refused.
pub fn rabbitmq_key(exchange: &str, text: &str) -> Result<(), String> {
    if text.len() > 255 {
        return Err("a routing key can have at most 255 bytes".to_owned());
    }
    if exchange.is_empty() && text.is_empty() {
        return Err("a queue needs a name".to_owned());
    }
    if exchange.is_empty() && text.starts_with("amq.") {
        return Err(format!(
            "the queue `{text}` is reserved for the broker: queues that begin with amq. accept no deliveries"
        ));
    }
    Ok(())
}

/// True if this header makes the broker route a message to more queues. A text value closes the channel.
#[must_use]
pub fn routes_rabbitmq(header: &str) -> bool {
    ["CC", "BCC"].contains(&header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_routing_key_is_short_and_over_the_default_exchange_no_queue_of_the_brokers_own() {
        for (exchange, key, expected) in [
            ("", "orders", true),
            ("", "", false),
            ("", "amq.rabbitmq.reply-to.g1h2", false),
            ("", "amq.gen-x", false),
            ("events", "", true),
            ("events", "amq.x", true),
        ] {
            assert_eq!(rabbitmq_key(exchange, key).is_ok(), expected, "{exchange} {key}");
        }
        assert!(rabbitmq_key("", &"x".repeat(256)).is_err());
    }
}
