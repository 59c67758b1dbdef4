//! One parcel as the headers and the signature of one request.

use crate::Parcel;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use sha2::Sha256;

/// The headers that the connection itself decides about.
const RESERVED: [&str; 7] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "authorization",
    "idempotency-key",
    "delayq-signature",
];

/// The headers of a request.
///
/// # Errors
/// Which header HTTP cannot carry.
pub(super) fn headers(parcel: &Parcel) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let key = percent_encoded(&parcel.about.identity);
    headers.insert("idempotency-key", HeaderValue::from_str(&key).map_err(|error| error.to_string())?);
    for (name, value) in parcel.all_headers() {
        if RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
            continue;
        }
        let wrong = |error: String| format!("HTTP cannot carry the header {name}: {error}");
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|error| wrong(error.to_string()))?;
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|error| wrong(error.to_string()))?;
        headers.append(key, value);
    }
    Ok(headers)
}

/// The value of `delayq-signature`.
pub(super) fn signature(secret: &[u8], unix_secs: u64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes a key of any length");
    mac.update(unix_secs.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    format!("t={unix_secs},v1={}", hex::encode(mac.finalize().into_bytes()))
}

/// The URL of a destination: the path of it is added to the base, and cannot leave its host.
///
/// # Errors
/// Why it is no path.
pub(super) fn url(base: &str, destination: &str) -> Result<reqwest::Url, String> {
    let joined = match destination {
        "" => base.to_owned(),
        path => format!("{}/{}", base.trim_end_matches('/'), path.trim_start_matches('/')),
    };
    let refusal = || format!("`{destination}` is no path below {base}");
    let url = reqwest::Url::parse(&joined).map_err(|_| refusal())?;
    let base = reqwest::Url::parse(base).map_err(|_| refusal())?;
    let within = url.origin() == base.origin() && url.path().starts_with(base.path().trim_end_matches('/'));
    if within { Ok(url) } else { Err(refusal()) }
}

/// Text as a header can carry it: everything but plain characters as `%XX`.
fn percent_encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_what_openssl_says() {
        // printf '1700000000.body' | openssl dgst -sha256 -hmac secret
        assert_eq!(
            signature(b"secret", 1_700_000_000, b"body"),
            "t=1700000000,v1=42ac6f0448c1d9c3e1e82b9726248f58fef84afffcbad5188246e96070e0ea46"
        );
    }

    #[test]
    fn a_destination_stays_below_its_base() {
        for (base, destination, expected) in [
            ("https://h/hook", "", Some("https://h/hook")),
            ("https://h/hook", "orders/7", Some("https://h/hook/orders/7")),
            ("https://h", "/orders", Some("https://h/orders")),
            ("https://h/hook", "../admin", None),
            ("https://h/hook", "a/../../admin", None),
            ("https://h/", "//evil.example/x", Some("https://h/evil.example/x")),
            ("https://h/hook", "x@evil", Some("https://h/hook/x@evil")),
        ] {
            let url = url(base, destination).map(String::from).ok();
            assert_eq!(url.as_deref(), expected, "{base} {destination}");
        }
    }

    #[test]
    fn an_identity_is_a_header_whatever_is_in_it() {
        assert_eq!(percent_encoded("t/é 1\"/00ff"), "t/%C3%A9%201%22/00ff");
    }
}
