//! One parcel as the headers and the signature of one request.

use super::WebhookConfig;
use crate::Parcel;
use bytes::Bytes;
use delayq_service::events::CARRIED;
use delayq_service::headers::rest_of;
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use secrecy::ExposeSecret;
use sha2::Sha256;

/// Headers that a producer cannot set: connection headers, credentials and client identification, and headers by which
/// some servers reinterpret the request.
const RESERVED: [&str; 26] = [
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "cookie",
    "delayq-signature",
    "expect",
    "forwarded",
    "host",
    "idempotency-key",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
];

const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// By CloudEvents' binding to HTTP, section 3.1.3.2.
const IN_AN_ATTRIBUTE: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

pub(super) struct Login {
    mac: Option<Hmac<Sha256>>,
    bearer: Option<HeaderValue>,
}

// === impl Login ===

impl Login {
    /// The error names a secret that cannot be read, or that HTTP cannot carry.
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

/// With spare capacity for a login. The error names the header that HTTP cannot carry.
pub(super) fn headers(parcel: &Parcel) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::with_capacity(12 + parcel.headers.len());
    let wrong = |name: &str, error: String| format!("HTTP cannot carry the header {name}: {error}");
    let key = HeaderValue::try_from(utf8_percent_encode(&parcel.about.identity, ENCODED).to_string());
    headers.insert("idempotency-key", key.map_err(|error| error.to_string())?);
    for (name, value) in parcel.about.headers() {
        let value = HeaderValue::from_maybe_shared(Bytes::from(value.into_owned()));
        let value = value.map_err(|error| wrong(name, error.to_string()))?;
        headers.append(HeaderName::from_static(name), value);
    }
    for (name, value) in &parcel.headers {
        if is_reserved(name) {
            continue;
        }
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|error| wrong(name, error.to_string()))?;
        let value = match is_attribute(name) {
            true => utf8_percent_encode(value, IN_AN_ATTRIBUTE).to_string().try_into(),
            false => HeaderValue::from_bytes(value.as_bytes()),
        };
        headers.append(key, value.map_err(|error| wrong(name, error.to_string()))?);
    }
    Ok(headers)
}

fn is_attribute(name: &str) -> bool {
    rest_of(name, CARRIED).is_some()
}

fn is_reserved(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    RESERVED.contains(&name.as_str()) || name.starts_with("x-forwarded-") || name == "x-real-ip"
}

fn keyed(secret: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(secret).expect("HMAC takes a key of any length")
}

fn signature(mut mac: Hmac<Sha256>, unix_secs: u64, body: &[u8]) -> String {
    mac.update(unix_secs.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    format!("t={unix_secs},v1={}", hex::encode(mac.finalize().into_bytes()))
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
    fn a_producer_sets_no_header_of_the_connection_a_login_or_another_request() {
        for (name, expected) in [
            ("Expect", true),
            ("cookie", true),
            ("Proxy-Authorization", true),
            ("TE", true),
            ("content-encoding", true),
            ("X-Forwarded-Host", true),
            ("x-original-url", true),
            ("traceparent", false),
            ("content-type", false),
            ("x-request-id", false),
        ] {
            assert_eq!(is_reserved(name), expected, "{name}");
        }
    }

    #[test]
    fn an_attribute_of_an_event_is_encoded_as_its_binding_to_http_says() {
        // The example of the binding.
        assert_eq!(
            utf8_percent_encode("Euro € 😀", IN_AN_ATTRIBUTE).to_string(),
            "Euro%20%E2%82%AC%20%F0%9F%98%80"
        );
        assert_eq!(utf8_percent_encode("/a%20\"b\"?c=d", IN_AN_ATTRIBUTE).to_string(), "/a%2520%22b%22?c=d");
        assert!(is_attribute("Ce-id") && !is_attribute("cease"));
    }

    #[test]
    fn an_identity_is_a_header_whatever_is_in_it() {
        assert_eq!(utf8_percent_encode("t/é 1\"/00ff", ENCODED).to_string(), "t/%C3%A9%201%22/00ff");
    }
}
