//! One parcel as the headers and the signature of one request.

use super::WebhookConfig;
use crate::Parcel;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::{
    Url,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue},
};
use secrecy::ExposeSecret;
use sha2::Sha256;
use std::fmt::Write;

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

/// What a call signs and logs in with: secrets are read once for each.
pub(super) struct Login {
    mac: Option<Hmac<Sha256>>,
    bearer: Option<HeaderValue>,
}

// === impl Login ===

impl Login {
    /// The login of a sink.
    ///
    /// # Errors
    /// A secret that cannot be read, or that HTTP cannot carry.
    pub(super) fn read(config: &WebhookConfig) -> Result<Self, String> {
        let mut login = Self { mac: None, bearer: None };
        if let Some(secret) = &config.secret {
            login.mac = Some(keyed(secret.reveal()?.expose_secret().as_bytes()));
        }
        if let Some(bearer) = &config.bearer {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", bearer.reveal()?.expose_secret()))
                .map_err(|_| "HTTP cannot carry the bearer token".to_owned())?;
            value.set_sensitive(true);
            login.bearer = Some(value);
        }
        Ok(login)
    }

    /// Adds signature and token to a request.
    pub(super) fn sign(&self, headers: &mut HeaderMap, unix_secs: u64, body: &[u8]) {
        if let Some(mac) = &self.mac {
            let value = HeaderValue::try_from(signature(mac.clone(), unix_secs, body));
            headers.insert("delayq-signature", value.expect("digits and letters are a header's value"));
        }
        if let Some(bearer) = &self.bearer {
            headers.insert(AUTHORIZATION, bearer.clone());
        }
    }
}

/// The headers of a request, with room for those of a login.
///
/// # Errors
/// Which header HTTP cannot carry.
pub(super) fn headers(parcel: &Parcel) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::with_capacity(12 + parcel.headers.len());
    let wrong = |name: &str, error: String| format!("HTTP cannot carry the header {name}: {error}");
    let key = HeaderValue::try_from(percent_encoded(&parcel.about.identity));
    headers.insert("idempotency-key", key.map_err(|error| error.to_string())?);
    for (name, value) in parcel.about.headers() {
        let value = HeaderValue::from_maybe_shared(Bytes::from(value.into_owned()));
        let value = value.map_err(|error| wrong(name, error.to_string()))?;
        headers.append(HeaderName::from_static(name), value);
    }
    for (name, value) in &parcel.headers {
        if RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
            continue;
        }
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|error| wrong(name, error.to_string()))?;
        let value =
            HeaderValue::from_bytes(value.as_bytes()).map_err(|error| wrong(name, error.to_string()))?;
        headers.append(key, value);
    }
    Ok(headers)
}

fn keyed(secret: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(secret).expect("HMAC takes a key of any length")
}

/// The value of `delayq-signature`.
fn signature(mut mac: Hmac<Sha256>, unix_secs: u64, body: &[u8]) -> String {
    mac.update(unix_secs.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    format!("t={unix_secs},v1={}", hex::encode(mac.finalize().into_bytes()))
}

/// The URL of a destination: the path of it is added to the base, and cannot leave its host.
///
/// # Errors
/// Why it is no path.
pub(super) fn url(base: &Url, destination: &str) -> Result<Url, String> {
    if destination.is_empty() {
        return Ok(base.clone());
    }
    let joined = format!("{}/{}", base.as_str().trim_end_matches('/'), destination.trim_start_matches('/'));
    let refusal = || format!("`{destination}` is no path below {base}");
    let url = Url::parse(&joined).map_err(|_| refusal())?;
    let within = url.origin() == base.origin() && url.path().starts_with(base.path().trim_end_matches('/'));
    if within { Ok(url) } else { Err(refusal()) }
}

/// Text as a header can carry it: everything but plain characters as `%XX`.
fn percent_encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let mut encoded = String::with_capacity(text.len() + 8);
    for byte in text.bytes() {
        if plain(byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_what_openssl_says() {
        // printf '1700000000.body' | openssl dgst -sha256 -hmac secret
        assert_eq!(
            signature(keyed(b"secret"), 1_700_000_000, b"body"),
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
            let url = url(&Url::parse(base).unwrap(), destination).map(String::from).ok();
            assert_eq!(url.as_deref(), expected, "{base} {destination}");
        }
    }

    #[test]
    fn an_identity_is_a_header_whatever_is_in_it() {
        assert_eq!(percent_encoded("t/é 1\"/00ff"), "t/%C3%A9%201%22/00ff");
    }
}
