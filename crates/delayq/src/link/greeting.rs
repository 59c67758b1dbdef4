//! What a Redis says to a client before the client says anything: one with as many clients as it takes tells each new client
//! so, and hangs up. A client that writes at once may lose that answer to the reset of the connection.

use redis::ConnectionAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

/// How long it may take: Redis says it at once.
const PATIENCE: Duration = Duration::from_millis(500);
/// As every version of Redis and Valkey begins it.
const FULL: &[u8] = b"-ERR max number of clients";

/// Whether the Redis there has as many clients as its `maxclients` allows. One over TLS cannot say so.
pub(super) async fn is_full(address: &ConnectionAddr) -> bool {
    let heard = async {
        match address {
            ConnectionAddr::Tcp(host, port) => hear(TcpStream::connect((host.as_str(), *port)).await?).await,
            ConnectionAddr::Unix(path) => hear(UnixStream::connect(path).await?).await,
            _ => Ok(false),
        }
    };
    timeout(PATIENCE, heard).await.is_ok_and(|heard| heard.unwrap_or(false))
}

async fn hear(mut stream: impl AsyncRead + Unpin) -> std::io::Result<bool> {
    let mut beginning = [0; FULL.len()];
    stream.read_exact(&mut beginning).await?;
    Ok(beginning == FULL)
}
