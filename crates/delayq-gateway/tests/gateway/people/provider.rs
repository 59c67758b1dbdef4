//! An identity provider, as faulty as a test wants: discovery, authorization, token and keys.

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD as URL};
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::process::Command;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

pub(super) const CLIENT: &str = "delayq";
pub(super) const SECRET: &str = "the secret: 100 %";

/// The faults of the next logins.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    /// Members of the claims that differ; null removes.
    pub(super) claims: Value,
    /// The name of the key in the token; true: the key is published.
    pub(super) key: Option<(&'static str, bool)>,
    pub(super) is_rsa: bool,
    /// The last character of the signature is another one.
    pub(super) signature: bool,
    pub(super) algorithm: Option<&'static str>,
    pub(crate) issuer: Option<&'static str>,
    /// The answer of the token endpoint instead of a token.
    pub(super) token: Option<(u16, &'static str)>,
    pub(super) token_bytes: usize,
    /// The provider's page sends the person back with this error.
    pub(super) error: Option<&'static str>,
}

#[derive(Clone)]
pub(crate) struct Provider {
    pub(crate) issuer: String,
    pub(super) faults: Arc<Mutex<Faults>>,
    /// The number of reads of the keys.
    pub(super) reads: Arc<Mutex<u32>>,
    /// Nonce and challenge by code.
    codes: Arc<Mutex<HashMap<String, (String, String)>>>,
    ecdsa: Arc<EcdsaKeyPair>,
    rsa: Arc<RsaKeyPair>,
}

// === impl Provider ===

impl Provider {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let key = rcgen::KeyPair::generate().unwrap().serialize_der();
        let ecdsa =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &key, &SystemRandom::new()).unwrap();
        let pem = Command::new("openssl").args(["genrsa", "2048"]).output().unwrap().stdout;
        let pem = String::from_utf8(pem).unwrap();
        let der: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
        let rsa = RsaKeyPair::from_pkcs8(&STANDARD.decode(der).unwrap()).unwrap();
        let provider = Self {
            issuer: format!("http://{}/realms/shop", listener.local_addr().unwrap()),
            faults: Arc::default(),
            reads: Arc::default(),
            codes: Arc::default(),
            ecdsa: Arc::new(ecdsa),
            rsa: Arc::new(rsa),
        };
        let router = Router::new()
            .route("/realms/shop/.well-known/openid-configuration", get(discovery))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/keys", get(keys))
            .with_state(provider.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        provider
    }

    pub(super) fn with(&self, faults: Faults) {
        *self.faults.lock().unwrap() = faults;
    }

    fn faults(&self) -> Faults {
        self.faults.lock().unwrap().clone()
    }

    fn signed(&self, claims: &Value) -> String {
        let faults = self.faults();
        let algorithm = faults.algorithm.unwrap_or(if faults.is_rsa { "RS256" } else { "ES256" });
        let kid = faults.key.map_or(if faults.is_rsa { "rsa" } else { "ecdsa" }, |(kid, _)| kid);
        let header = json!({ "alg": algorithm, "kid": kid, "typ": "JWT" });
        let signed = format!("{}.{}", URL.encode(header.to_string()), URL.encode(claims.to_string()));
        let random = SystemRandom::new();
        let mut signature = if faults.is_rsa {
            let mut signature = vec![0; self.rsa.public().modulus_len()];
            self.rsa.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature).unwrap();
            signature
        } else {
            self.ecdsa.sign(&random, signed.as_bytes()).unwrap().as_ref().to_vec()
        };
        if faults.signature {
            signature[0] ^= 1;
        }
        format!("{signed}.{}", URL.encode(signature))
    }
}

fn pairs(form: &str) -> HashMap<String, String> {
    let url = reqwest::Url::parse(&format!("http://form/?{form}")).unwrap();
    url.query_pairs().into_owned().collect()
}

async fn discovery(State(provider): State<Provider>) -> Json<Value> {
    let root = provider.issuer.trim_end_matches("/realms/shop");
    Json(json!({
        "issuer": provider.faults().issuer.unwrap_or(&provider.issuer),
        "authorization_endpoint": format!("{root}/authorize"), "token_endpoint": format!("{root}/token"),
        "jwks_uri": format!("{root}/keys"), "scopes_supported": ["openid"],
    }))
}

/// The page of the provider: everybody is logged in at once.
async fn authorize(State(provider): State<Provider>, RawQuery(query): RawQuery) -> Redirect {
    let asked = pairs(&query.unwrap());
    assert_eq!((asked["response_type"].as_str(), asked["client_id"].as_str()), ("code", CLIENT));
    assert_eq!(
        (asked["code_challenge_method"].as_str(), asked["scope"].as_str()),
        ("S256", "openid profile email")
    );
    let (back, state) = (&asked["redirect_uri"], &asked["state"]);
    if let Some(error) = provider.faults().error {
        return Redirect::to(&format!("{back}?error={error}&state={state}"));
    }
    let code = format!("code-{}", fastrand::u64(..));
    let kept = (asked["nonce"].clone(), asked["code_challenge"].clone());
    provider.codes.lock().unwrap().insert(code.clone(), kept);
    Redirect::to(&format!("{back}?code={code}&state={state}&iss={}&session_state=x", provider.issuer))
}

async fn token(State(provider): State<Provider>, headers: HeaderMap, body: String) -> Response {
    let asked = pairs(&body);
    let faults = provider.faults();
    let basic = STANDARD.encode(format!("{CLIENT}:the%20secret%3A%20100%20%25"));
    if headers.get(header::AUTHORIZATION).unwrap().to_str().unwrap() != format!("Basic {basic}") {
        return (StatusCode::UNAUTHORIZED, Json(json!({ "error": "invalid_client" }))).into_response();
    }
    if let Some((status, text)) = faults.token {
        return (StatusCode::from_u16(status).unwrap(), text).into_response();
    }
    // A real provider would forget the code: a replayed state must be noticed without that.
    let (nonce, challenge) = provider.codes.lock().unwrap()[&asked["code"]].clone();
    assert_eq!(URL.encode(Sha256::digest(&asked["code_verifier"])), challenge, "PKCE");
    assert_eq!(asked["redirect_uri"].rsplit_once('/').unwrap().1, "oidc");
    let now = delayq_service::host_now().get() / 1000;
    let secs = |away: i64| now.checked_add_signed(away).unwrap();
    let mut claims = json!({
        "iss": provider.issuer, "aud": CLIENT, "sub": "4711", "nonce": nonce, "iat": secs(0), "exp": secs(60),
        "email": "jo@example.com", "email_verified": true, "name": "Jo", "groups": ["/desk", "/else"],
    });
    for (name, value) in faults.claims.as_object().into_iter().flatten() {
        // A time is given by its distance from now.
        claims[name] = match value.as_i64().filter(|_| name == "exp" || name == "nbf") {
            Some(away) => secs(away).into(),
            None => value.clone(),
        };
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    Json(json!({ "id_token": provider.signed(&claims), "padding": "x".repeat(faults.token_bytes) }))
        .into_response()
}

async fn keys(State(provider): State<Provider>) -> Json<Value> {
    *provider.reads.lock().unwrap() += 1;
    let (point, rsa) =
        (provider.ecdsa.public_key().as_ref(), PublicKeyComponents::<Vec<u8>>::from(provider.rsa.public()));
    let ecdsa = |kid: &str| {
        let (x, y) = (URL.encode(&point[1..33]), URL.encode(&point[33..]));
        json!({ "kty": "EC", "crv": "P-256", "use": "sig", "kid": kid, "x": x, "y": y })
    };
    let mut all = vec![
        json!({ "kty": "future", "kid": "from the future" }),
        ecdsa("ecdsa"),
        json!({ "kty": "RSA", "use": "sig", "kid": "rsa", "n": URL.encode(rsa.n), "e": URL.encode(rsa.e) }),
    ];
    all.extend(provider.faults().key.filter(|(_, is_published)| *is_published).map(|(kid, _)| ecdsa(kid)));
    Json(json!({ "keys": all }))
}

/// A provider that accepts connections and answers nothing.
pub(super) async fn silent() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.push(stream);
        }
    });
    format!("http://{address}")
}
