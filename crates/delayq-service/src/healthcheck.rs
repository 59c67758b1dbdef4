//! `--healthcheck`: asks the process with the same configuration for its readiness. Serves supervisors that run a
//! command, such as a container's HEALTHCHECK, in images without an HTTP client.

use crate::codes::NOT_READY;
use crate::config::{HostPort, Listen};
use crate::fault::Fault;
use std::io::{Error, ErrorKind, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

/// Maximum wait for the connection, and for each part of the answer.
const DEADLINE: Duration = Duration::from_secs(2);
/// Limits of an answer; an endpoint closes a connection after the same time.
const BOUNDS: Bounds = Bounds { time: Duration::from_secs(10), bytes: 64 << 20 };

#[derive(Clone, Copy, Debug)]
struct Bounds {
    time: Duration,
    bytes: usize,
}

/// The error names a silent endpoint, or the conditions that are not met.
pub(crate) fn healthcheck(listen: &Listen) -> Result<(), Fault> {
    let Listen::At(address) = listen else {
        return Err(Fault::new(&NOT_READY, "[admin] listen is \"\": the process has no admin endpoint"));
    };
    let answer = unready(address)
        .map_err(|error| Fault::new(&NOT_READY, format!("{address} does not answer")).because(error))?;
    answer.map_or(Ok(()), |why| Err(Fault::new(&NOT_READY, format!("{address} answers {why}"))))
}

/// Asks the process at this admin address why it is not ready; `None` if ready. Blocks for several seconds at most.
///
/// # Errors
/// No process answers there.
pub fn unready(address: &HostPort) -> std::io::Result<Option<String>> {
    let (status, body) = ask(address, "/readyz")?;
    Ok((status != 200).then(|| body.trim_end().to_owned()))
}

/// The status and body of an admin endpoint's answer for a path. Blocks for 10 s at most after name resolution.
///
/// # Errors
/// No process answers, the answer is not HTTP, too slow, or larger than 64 MiB.
pub fn ask(address: &HostPort, path: &str) -> std::io::Result<(u16, String)> {
    let found = (address.host(), address.port()).to_socket_addrs()?.next();
    let found = found.ok_or_else(|| Error::other("the host has no address"))?;
    let mut stream = TcpStream::connect_timeout(&found, DEADLINE)?;
    stream.set_write_timeout(Some(DEADLINE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let answer = read_within(&mut stream, BOUNDS)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer.as_str(), ""));
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let status = status.ok_or_else(|| Error::other("the answer is not HTTP"))?;
    Ok((status, body.to_owned()))
}

fn read_within(stream: &mut TcpStream, bounds: Bounds) -> std::io::Result<String> {
    let end = Instant::now() + bounds.time;
    let late = |time: Duration| Err(Error::other(format!("the answer takes longer than {time:?}")));
    let (mut answer, mut part) = (Vec::new(), [0; 1 << 14]);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return late(bounds.time);
        }
        stream.set_read_timeout(Some(left.min(DEADLINE)))?;
        match stream.read(&mut part) {
            Ok(0) => return String::from_utf8(answer).map_err(|_| Error::other("the answer is not UTF-8")),
            Ok(read) => answer.extend_from_slice(&part[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The read timed out.
            Err(error) if error.kind() == ErrorKind::WouldBlock => return late(bounds.time.min(DEADLINE)),
            Err(error) => return Err(error),
        }
        if answer.len() > bounds.bytes {
            return Err(Error::other(format!("the answer is larger than {} bytes", bounds.bytes)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn read_endless(part: &'static [u8], bounds: Bounds) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            while peer.write_all(part).is_ok() {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        read_within(&mut stream, bounds).unwrap_err().to_string()
    }

    #[test]
    fn an_answer_without_an_end_is_given_up() {
        let time = Duration::from_millis(200);
        let slow = read_endless(b"x", Bounds { time, bytes: usize::MAX });
        assert_eq!(slow, "the answer takes longer than 200ms");
        let large = read_endless(&[b'x'; 1024], Bounds { time: Duration::from_secs(60), bytes: 4096 });
        assert_eq!(large, "the answer is larger than 4096 bytes");
    }
}
