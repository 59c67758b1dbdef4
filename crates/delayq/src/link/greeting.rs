//! The greeting of a full Redis: a Redis with `maxclients` clients sends each new client an error before the client
//! writes, and hangs up. A client that writes at once may lose that error to the reset of the connection.

use redis::ConnectionAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

/// Maximum time to wait for the greeting; Redis sends the error at once.
const PATIENCE: Duration = Duration::from_millis(500);
/// The beginning of the error in every version of Redis and Valkey.
const FULL: &[u8] = b"-ERR max number of clients";

/// True at the Redis's `maxclients`. Over TLS this cannot be detected.
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
