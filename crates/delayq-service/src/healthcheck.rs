//! `--healthcheck`: asks the process with the same configuration whether it is ready. For supervisors that run a command,
//! such as a container's HEALTHCHECK, in images without an HTTP client.

use crate::codes::NOT_READY;
use crate::config::{HostPort, Listen};
use crate::fault::Fault;
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

/// The longest wait for the connection, and for each part of the answer.
const DEADLINE: Duration = Duration::from_secs(2);

/// Asks `/readyz` of the admin endpoint that listens there.
///
/// # Errors
/// An endpoint that does not answer, or the conditions that are not met.
pub(crate) fn healthcheck(listen: &Listen) -> Result<(), Fault> {
    let Listen::At(address) = listen else {
        return Err(Fault::new(&NOT_READY, "[admin] listen is \"\": there is no endpoint to ask"));
    };
    let answer = unready(address)
        .map_err(|error| Fault::new(&NOT_READY, format!("{address} does not answer")).because(error))?;
    answer.map_or(Ok(()), |why| Err(Fault::new(&NOT_READY, format!("{address} answers {why}"))))
}

/// Why the process whose admin endpoint this is is not ready; `None`: it is. Blocks for some seconds at most.
///
/// # Errors
/// No process answers there.
pub fn unready(address: &HostPort) -> std::io::Result<Option<String>> {
    let (status, body) = ask(address, "/readyz")?;
    Ok((status != 200).then(|| body.trim_end().to_owned()))
}

/// What an admin endpoint answers for a path: the status and the body. Blocks for some seconds at most.
///
/// # Errors
/// No process answers there, or not in HTTP.
pub fn ask(address: &HostPort, path: &str) -> std::io::Result<(u16, String)> {
    let found = (address.host(), address.port()).to_socket_addrs()?.next();
    let found = found.ok_or_else(|| std::io::Error::other("the host has no address"))?;
    let mut stream = TcpStream::connect_timeout(&found, DEADLINE)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.set_write_timeout(Some(DEADLINE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer.as_str(), ""));
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let status = status.ok_or_else(|| std::io::Error::other("its answer is not HTTP"))?;
    Ok((status, body.to_owned()))
}
