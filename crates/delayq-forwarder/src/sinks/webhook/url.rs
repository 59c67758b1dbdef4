//! The URL of a destination: the base and a path that cannot leave the base.
//!
//! A path may hold a producer's text, and servers read paths differently: some decode twice, some end a segment at `;`.
//! So anything that a server could read as an escape is refused, not repaired.

use percent_encoding::percent_decode;
use reqwest::Url;

/// Maximum nested encodings; deeper nesting is refused.
const MAX_LAYERS: usize = 4;

/// The error tells why the path is not below the base.
pub(super) fn url(base: &Url, destination: &str) -> Result<Url, String> {
    if destination.is_empty() {
        return Ok(base.clone());
    }
    let refusal = |why: &str| format!("`{destination}` is not a path below {base}: {why}");
    if destination.contains(['?', '#', '\\']) || destination.contains(char::is_control) {
        return Err(refusal("the path contains ?, #, \\ or a control character"));
    }
    let path = destination.trim_start_matches('/');
    if !path.split('/').all(stays) {
        return Err(refusal("a segment leaves the base, or contains an encoded slash"));
    }
    let joined = format!("{}/{path}", base.as_str().trim_end_matches('/'));
    let url = Url::parse(&joined).map_err(|_| refusal("the result is not a URL"))?;
    let within = url.origin() == base.origin() && is_below(base, &url);
    if within { Ok(url) } else { Err(refusal("it leaves it")) }
}

fn is_below(base: &Url, url: &Url) -> bool {
    let mut segments = url.path().trim_start_matches('/').split('/');
    let own = base.path().trim_matches('/');
    own.is_empty() || own.split('/').all(|own| segments.next() == Some(own))
}

/// True if a segment remains a single segment, and no dot segment, however decoded.
fn stays(segment: &str) -> bool {
    let mut text = segment.as_bytes().to_vec();
    for _ in 0..MAX_LAYERS {
        let name = text.split(|&byte| byte == b';').next().unwrap_or_default();
        let hides = text.iter().any(|byte| b"/\\?#".contains(byte) || byte.is_ascii_control());
        if hides || name == b"." || name == b".." {
            return false;
        }
        let decoded: Vec<u8> = percent_decode(&text).collect();
        if decoded == text {
            return true;
        }
        text = decoded;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_stays_below_its_base() {
        for (base, destination, expected) in [
            ("https://h/hook", "", Some("https://h/hook")),
            ("https://h/hook", "orders/7", Some("https://h/hook/orders/7")),
            ("https://h/hook/", "orders//7", Some("https://h/hook/orders//7")),
            ("https://h", "/orders", Some("https://h/orders")),
            ("https://h/", "//evil.example/x", Some("https://h/evil.example/x")),
            ("https://h/hook", "x@evil", Some("https://h/hook/x@evil")),
            ("https://h/hook", "a;v=1/...", Some("https://h/hook/a;v=1/...")),
            ("https://h/hook", "100%25", Some("https://h/hook/100%25")),
            ("https://h/hook", "caf\u{e9} 1", Some("https://h/hook/caf%C3%A9%201")),
        ] {
            let url = url(&Url::parse(base).unwrap(), destination).map(String::from).ok();
            assert_eq!(url.as_deref(), expected, "{base} {destination}");
        }
    }

    #[test]
    fn a_destination_that_some_server_would_read_as_another_path_is_refused() {
        let base = Url::parse("https://h/hook").unwrap();
        for destination in [
            "../admin",
            "../hook-admin/x",
            "a/../../admin",
            ".",
            "a/./b",
            "a?admin=1",
            "a#b",
            "a\\..\\b",
            "..%2fadmin",
            "..%5Cadmin",
            "a%2Fb",
            "%2e%2e/admin",
            "%252e%252e/admin",
            "%25252fadmin",
            "..;/admin",
            "..;x=1/admin",
            "%2e.;/admin",
            "a%3Fadmin=1",
            ".\t./admin",
            "a%0d%0ab",
        ] {
            assert!(url(&base, destination).is_err(), "{destination}");
        }
    }

    #[test]
    fn a_base_is_compared_by_segments() {
        let parse = |text: &str| Url::parse(text).unwrap();
        for (base, url, expected) in [
            ("https://h/hook", "https://h/hook/x", true),
            ("https://h/hook", "https://h/hook-admin/x", false),
            ("https://h/", "https://h/x", true),
        ] {
            assert_eq!(is_below(&parse(base), &parse(url)), expected, "{url}");
        }
    }
}
