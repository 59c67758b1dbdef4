//! The URL of a single Redis.
//!
//! Nothing in the URL is ignored: every part without a meaning here is refused by name. A refusal repeats no part of
//! the URL, because a password may stand in the wrong place.

use super::hosts::Hosts;
use delayq_core::url::{SINGLE, SOCKET};
use redis::{ConnectionInfo, IntoConnectionInfo};
use std::str::FromStr;

/// `redis://[user[:password]@]host[:port][/db]`, `rediss://…` for TLS; or `unix:///path`, `redis+unix:///path`. Either
/// may be followed by `?db=N`, the path of a socket by `&user=` and `&pass=` as well.
#[derive(Clone)]
pub struct SingleUrl(ConnectionInfo);

// === impl SingleUrl ===

impl FromStr for SingleUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err("the URL has white space: write %20 for a blank in a password".to_owned());
        }
        let path = SOCKET.schemes.iter().find_map(|(scheme, _)| text.strip_prefix(scheme));
        path.map_or_else(|| over_tcp(text), over_socket).map(Self)
    }
}

impl From<SingleUrl> for ConnectionInfo {
    fn from(url: SingleUrl) -> Self {
        url.0
    }
}

fn over_tcp(text: &str) -> Result<ConnectionInfo, String> {
    let hosts = Hosts::read(text, &SINGLE)?;
    let node = hosts.only(SINGLE.port)?;
    let database = database(&hosts)?;
    Ok(hosts.redis(database)?.set_addr(node.at(hosts.tls)))
}

/// /N or ?db=N.
fn database(hosts: &Hosts<'_>) -> Result<u16, String> {
    let read = |number: &str| {
        number.parse().map_err(|_| "the path or db is not the number of a database: /N".to_owned())
    };
    let mut query = hosts.query();
    match (hosts.path, query.next(), query.next()) {
        ("", None, _) => Ok(0),
        (number, None, _) | ("", Some(("db", number)), None) => read(number),
        (_, Some(("db", _)), None) => Err("the URL names a database twice: /N and ?db=N".to_owned()),
        _ => Err("the query of the URL has an unknown parameter, or one twice; the URL of one Redis has: db"
            .to_owned()),
    }
}

fn over_socket(rest: &str) -> Result<ConnectionInfo, String> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !path.starts_with('/') || path.len() == 1 {
        return Err("the URL names no socket: write unix:///path, from the root on".to_owned());
    }
    if rest.contains('#') {
        return Err("the URL has a #: write %23 in a path or a password".to_owned());
    }
    let mut known = SOCKET.query.to_vec();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some(at) = known.iter().position(|one| *one == key) else {
            return Err(
                "the query of the URL has an unknown parameter, or one twice; the URL of a socket has: db, \
                 user, pass"
                    .to_owned(),
            );
        };
        known.swap_remove(at);
        if key == "db" && value.parse::<u16>().is_err() {
            return Err("db is not the number of a database".to_owned());
        }
        if value.contains('+') {
            return Err("the query of the URL has a +: write %2B, or %20 for a blank".to_owned());
        }
    }
    let info = format!("redis+unix://{rest}").into_connection_info();
    info.map_err(|_| "the path, user or password cannot be read: write % as %25".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::ConnectionAddr;

    fn read(text: &str) -> String {
        let SingleUrl(info) = text.parse().unwrap_or_else(|why| panic!("{text}: {why}"));
        let redis = info.redis_settings();
        let place = match info.addr() {
            ConnectionAddr::Tcp(host, port) => format!("{host} {port}"),
            ConnectionAddr::TcpTls { host, port, insecure, .. } => format!("tls {host} {port} {insecure}"),
            ConnectionAddr::Unix(path) => path.display().to_string(),
            other => panic!("{other:?}"),
        };
        let login = [redis.username(), redis.password()].map(|part| part.unwrap_or("-").to_owned()).join(" ");
        format!("{place}, {login}, {}", redis.db())
    }

    #[test]
    fn it_says_the_place_the_login_and_the_database() {
        for (text, said) in [
            ("redis://h", "h 6379, - -, 0"),
            ("redis://h:1/", "h 1, - -, 0"),
            ("redis://:pw@h:1/2", "h 1, - pw, 2"),
            ("redis://h?db=3", "h 6379, - -, 3"),
            ("rediss://user:p%40ss@[::1]:2/3", "tls ::1 2 false, user p@ss, 3"),
            ("redis://u:p@ss:w@h", "h 6379, u p@ss:w, 0"),
            ("unix:///run/redis.sock", "/run/redis.sock, - -, 0"),
            ("redis+unix:///r@1.sock?db=3&user=u&pass=a%2Bb@c", "/r@1.sock, u a+b@c, 3"),
        ] {
            assert_eq!(read(text), said, "{text}");
        }
    }

    #[test]
    fn each_fault_is_named_and_no_secret_is_repeated() {
        for (text, named) in [
            ("", "expected redis://"),
            ("http://:hunter2@h", "expected redis://"),
            ("valkey://h:1", "expected redis://"),
            ("redis://", "host:port"),
            ("redis://u:hunter2", "host:port"),
            ("redis://:hunter2@h:99999", "host:port"),
            ("redis://::1:5", "in brackets"),
            ("redis://a:1,b:2", "several hosts"),
            ("redis://h:1 hunter2", "white space"),
            ("redis://user:hunter2@host/1?db=1", "a database twice"),
            ("redis://h:1?db=1&db=1", "one twice"),
            ("redis://h:1?db=one", "the number of a database"),
            ("redis://h:1?protocol=resp2", "unknown parameter"),
            ("redis://h:1/x", "the number of a database"),
            ("redis://h:1/1/2", "the number of a database"),
            ("redis://h:1/-1", "the number of a database"),
            ("rediss://h:1#insecure", "host:port"),
            ("redis://:hun?ter2@h:1", "@ behind a ?"),
            ("redis://:hun#ter2@h:1", "user or password cannot be read"),
            ("redis://:hun/ter2@h:1", "user or password cannot be read"),
            ("redis://:12/hunter2@h:1", "user or password cannot be read"),
            ("redis://u:hunter2%ff@h:1", "user or password cannot be read"),
            ("unix://run/redis.sock", "names no socket"),
            ("unix:///", "names no socket"),
            ("unix:///x?password=hunter2", "unknown parameter"),
            ("unix:///x?%70ass=hunter2", "unknown parameter"),
            ("unix:///x?db=1&db=2", "one twice"),
            ("unix:///x?db=hunter2", "db is not the number"),
            ("unix:///x?pass=hun+ter2", "write %2B"),
            ("unix:///x?pass=hun#ter2", "write %23"),
        ] {
            let refusal = text.parse::<SingleUrl>().err().unwrap_or_else(|| panic!("{text}"));
            assert!(refusal.contains(named), "{text}: {refusal}");
            assert!(!refusal.contains("ter2"), "{refusal}");
        }
    }
}
