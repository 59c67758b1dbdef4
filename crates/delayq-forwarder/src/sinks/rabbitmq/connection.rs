//! A connection to the broker.

use super::RabbitmqConfig;
use lapin::tcp::{OwnedIdentity, OwnedTLSConfig};
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
use lapin::{Connection, ConnectionProperties};
use secrecy::ExposeSecret;

/// How long the broker may be silent before the connection counts as broken, in seconds.
const HEARTBEAT_SECS: u16 = 10;

/// Connects. The password and the certificates are read again.
pub(super) async fn connect(config: &RabbitmqConfig) -> Result<Connection, String> {
    let password = match &config.password {
        None => "guest".to_owned(),
        Some(secret) => secret.reveal()?.expose_secret().to_owned(),
    };
    let uri = AMQPUri {
        scheme: if config.tls { AMQPScheme::AMQPS } else { AMQPScheme::AMQP },
        authority: AMQPAuthority {
            userinfo: AMQPUserInfo { username: config.username.clone(), password },
            host: config.server.host().to_owned(),
            port: config.server.port(),
        },
        vhost: config.vhost.clone(),
        query: AMQPQueryString { heartbeat: Some(HEARTBEAT_SECS), ..AMQPQueryString::default() },
    };
    let cert_chain = match &config.ca {
        None => None,
        Some(path) => Some(
            std::fs::read_to_string(path)
                .map_err(|error| format!("the certificates {} cannot be read: {error}", path.display()))?,
        ),
    };
    let identity = config.pem_files().identity()?.map(|[pem, key]| OwnedIdentity::PKCS8 { pem, key });
    let tls = OwnedTLSConfig { identity, cert_chain };
    let properties = ConnectionProperties::default().with_connection_name("delayq-forwarder".into());
    let runtime = lapin::runtime::default_runtime().map_err(|error| error.to_string())?;
    Connection::connect_uri_with_config(uri, properties, tls, runtime)
        .await
        .map_err(|error| config.pem_files().explain(format!("{}: {error}", config.server)))
}
