//! The ID token: a signed statement of the provider about a person.

use super::refusal::{LoginRefusal, Reason};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use jsonwebtoken::{DecodingKey, Validation, decode, decode_header};
use serde_json::Value;

/// The difference between the clocks of the provider and of this host that is accepted.
const LEEWAY_SECS: u64 = 60;
/// Maximum characters of a name.
const MAX_NAME: usize = 128;

/// A person, as the provider names one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identified {
    pub(super) name: String,
    pub(super) subject: String,
    pub(super) groups: Vec<String>,
}

/// The claims that the token of a login needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    pub(super) groups_claim: &'a str,
}

/// The name of the key that signed the token. `None`: the token names none.
pub(super) fn key_of(token: &str) -> Result<Option<String>, LoginRefusal> {
    Ok(decode_header(token).map_err(|error| refusal(&error))?.kid)
}

/// The key of this name, or the only key.
pub(super) fn chosen<'a>(keys: &'a [Jwk], kid: Option<&str>) -> Option<&'a Jwk> {
    let mut signing =
        keys.iter().filter(|key| !matches!(key.common.public_key_use, Some(PublicKeyUse::Encryption)));
    match kid {
        Some(kid) => signing.find(|key| key.common.key_id.as_deref() == Some(kid)),
        None => signing.next().filter(|_| signing.next().is_none()),
    }
}

/// Verifies the signature, issuer, audience, times and nonce, and reads the person.
pub(super) fn verified(token: &str, key: &Jwk, expected: Expected<'_>) -> Result<Identified, LoginRefusal> {
    let header = decode_header(token).map_err(|error| refusal(&error))?;
    let key = DecodingKey::from_jwk(key).map_err(|error| refusal(&error))?;
    let mut rules = Validation::new(header.alg);
    rules.leeway = LEEWAY_SECS;
    rules.validate_nbf = true;
    rules.set_issuer(&[expected.issuer]);
    rules.set_audience(&[expected.client_id]);
    rules.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    let claims: Value = decode(token, &key, &rules).map_err(|error| refusal(&error))?.claims;
    let text = |name: &str| claims[name].as_str().filter(|text| !text.is_empty());
    if text("azp").is_some_and(|party| party != expected.client_id) {
        return Err(LoginRefusal::new(Reason::Audience, "the ID token was made for another client (azp)"));
    }
    if text("nonce") != Some(expected.nonce) {
        return Err(LoginRefusal::new(Reason::Nonce, "the ID token is of another login (nonce)"));
    }
    let subject =
        text("sub").ok_or_else(|| LoginRefusal::new(Reason::Malformed, "the ID token has an empty sub"))?;
    let is_verified = claims["email_verified"] != Value::Bool(false);
    if expected.groups_claim == "email" && claims["email_verified"] != Value::Bool(true) {
        return Err(LoginRefusal::new(
            Reason::Email,
            "the ID token does not say that the address is verified",
        ));
    }
    let name = text("email").filter(|_| is_verified).or(text("preferred_username")).or(text("name"));
    let groups = groups(&claims, expected.groups_claim);
    Ok(Identified { name: printable(name.unwrap_or(subject)), subject: printable(subject), groups })
}

fn groups(claims: &Value, claim: &str) -> Vec<String> {
    let found = if claim.starts_with('/') { claims.pointer(claim) } else { claims.get(claim) };
    match found {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// The name goes into logs and onto pages.
fn printable(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_control()).take(MAX_NAME).collect()
}

fn refusal(error: &jsonwebtoken::errors::Error) -> LoginRefusal {
    let reason = match error.kind() {
        ErrorKind::InvalidSignature | ErrorKind::InvalidAlgorithm | ErrorKind::UnsupportedAlgorithm => {
            Reason::Signature
        }
        ErrorKind::ExpiredSignature | ErrorKind::ImmatureSignature => Reason::Expired,
        ErrorKind::InvalidIssuer => Reason::Issuer,
        ErrorKind::InvalidAudience => Reason::Audience,
        _ => Reason::Malformed,
    };
    LoginRefusal::new(reason, format!("the ID token: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn groups_are_a_list_or_one_text_by_name_or_pointer() {
        let claims = json!({
            "groups": ["a", 7, "b"], "email": "jo@example.com", "https://x/groups": ["c"],
            "realm_access": { "roles": ["d"] },
        });
        for (claim, expected) in [
            ("groups", vec!["a", "b"]),
            ("email", vec!["jo@example.com"]),
            ("https://x/groups", vec!["c"]),
            ("/realm_access/roles", vec!["d"]),
            ("none", vec![]),
            ("realm_access", vec![]),
        ] {
            assert_eq!(groups(&claims, claim), expected, "{claim}");
        }
    }

    #[test]
    fn a_name_has_no_control_characters_and_a_bounded_length() {
        assert_eq!(printable("jo\u{1b}[31m\n"), "jo[31m");
        assert_eq!(printable(&"x".repeat(1000)).len(), MAX_NAME);
    }

    #[test]
    fn a_key_is_found_by_its_name_or_as_the_only_one() {
        let key = |kid: &str, of: &str| -> Jwk {
            serde_json::from_value(json!({ "kty": "RSA", "kid": kid, "use": of, "n": "AQAB", "e": "AQAB" }))
                .unwrap()
        };
        let (two, one) = ([key("a", "sig"), key("b", "sig")], [key("a", "sig"), key("b", "enc")]);
        let found = |keys: &[Jwk], kid| chosen(keys, kid).and_then(|key| key.common.key_id.clone());
        assert_eq!(found(&two, Some("b")).as_deref(), Some("b"));
        assert_eq!((found(&two, Some("c")), found(&two, None), found(&[], None)), (None, None, None));
        assert_eq!(found(&one, None).as_deref(), Some("a"));
        assert_eq!(found(&one, Some("b")), None, "a key for encryption signs nothing");
    }
}
