//! Which requests a web page may have made a browser send. A page cannot read a token, but where none is needed, it could
//! use the gateway of its reader's machine.

use crate::problem::{Kind, Problem};
use axum::http::{HeaderMap, header};
use std::net::IpAddr;

/// Refuses a request that a browser sent for a page of another origin. On an address of this host alone, names are refused
/// as well: the server of a page could point a name here.
pub(crate) fn check(headers: &HeaderMap, is_local: bool) -> Result<(), Problem> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(header::HOST.as_str()).unwrap_or_default();
    if let Some(site) = text("sec-fetch-site").filter(|site| !["same-origin", "none"].contains(site)) {
        return Err(Problem::new(Kind::OtherOrigin, format!("Sec-Fetch-Site is {site}")));
    }
    if let Some(origin) = text(header::ORIGIN.as_str()) {
        let of_host = origin.split_once("://").is_some_and(|(_, of)| of == host);
        if !of_host {
            return Err(Problem::new(Kind::OtherOrigin, format!("Origin is {origin}, Host is {host}")));
        }
    }
    check_host(headers, is_local)
}

/// Refuses a name that somebody's name server could point at an address of this host alone.
pub(crate) fn check_host(headers: &HeaderMap, is_local: bool) -> Result<(), Problem> {
    let host = headers.get(header::HOST).map(|host| host.to_str().unwrap_or("?")).unwrap_or_default();
    if is_local && !is_address(host) {
        let why = "without tokens, the gateway answers only under IP addresses and localhost";
        return Err(Problem::new(Kind::ForeignHost, format!("Host is {host:?}: {why}")));
    }
    Ok(())
}

/// Whether a host is no name that somebody's name server could point here.
fn is_address(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(pairs: &[(&'static str, &'static str)]) -> Option<String> {
        let headers = pairs
            .iter()
            .map(|(name, value)| (name.parse::<axum::http::HeaderName>().unwrap(), value.parse().unwrap()));
        check(&headers.collect(), true)
            .err()
            .map(|problem| problem.item()["code"].as_str().unwrap().to_owned())
    }

    #[test]
    fn a_page_of_another_origin_cannot_use_the_gateway_of_its_readers_machine() {
        let host = ("host", "127.0.0.1:9480");
        assert_eq!(code(&[host]), None);
        assert_eq!(code(&[host, ("sec-fetch-site", "same-origin")]), None);
        assert_eq!(code(&[host, ("origin", "http://127.0.0.1:9480")]), None);
        for other in [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("origin", "http://127.0.0.1:80"),
            ("origin", "null"),
        ] {
            assert_eq!(code(&[host, other]).as_deref(), Some(Kind::OtherOrigin.code()), "{other:?}");
        }
    }

    #[test]
    fn a_name_that_resolves_to_this_machine_is_not_answered() {
        assert_eq!(code(&[("host", "evil.example")]).as_deref(), Some(Kind::ForeignHost.code()));
        for host in ["localhost:9480", "LOCALHOST", "10.0.0.7", "[::1]:9480", "[::1]"] {
            assert!(is_address(host), "{host}");
        }
        for host in ["evil.example:9480", "localhost.evil.example", "127.0.0.1.evil.example", ""] {
            assert!(!is_address(host), "{host}");
        }
    }
}
