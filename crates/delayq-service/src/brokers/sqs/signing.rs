//! Signatures, with the keys of the configuration or the credentials of the environment.

use super::SqsAccess;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, Uri};
use reqsign_aws_v4::{Credential, DefaultCredentialProvider, RequestSigner, StaticCredentialProvider};
use reqsign_core::{Context, Error, FileRead, HttpSend, OsEnv, Signer};
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};

/// Signs requests; reads the secrets once.
pub(super) struct Signing(Signer<Credential>);

/// The HTTP client, for the services that hand out credentials.
#[derive(Debug)]
struct Fetching(reqwest::Client);

/// The files of a system, for shared credentials and tokens.
#[derive(Debug)]
struct Reading;

// === impl Signing ===

impl Signing {
    pub(super) fn new(access: &SqsAccess, http: &reqwest::Client) -> Result<Self, String> {
        let context =
            Context::new().with_file_read(Reading).with_http_send(Fetching(http.clone())).with_env(OsEnv);
        let requests = RequestSigner::new("sqs", &access.region);
        let (Some(id), Some(secret)) = (&access.access_key, &access.secret_key) else {
            return Ok(Self(Signer::new(context, DefaultCredentialProvider::new(), requests)));
        };
        let mut keys = StaticCredentialProvider::new(id, secret.reveal()?.expose_secret());
        if let Some(token) = &access.session_token {
            keys = keys.with_session_token(token.reveal()?.expose_secret());
        }
        Ok(Self(Signer::new(context, keys, requests)))
    }

    /// The head of a signed call.
    pub(super) async fn head(&self, server: &Uri, action: &str, body: &[u8]) -> Result<Parts, String> {
        let digest = hex::encode(Sha256::digest(body));
        let request = Request::builder()
            .method(Method::POST)
            .uri(server.clone())
            .header("content-type", "application/x-amz-json-1.0")
            .header("x-amz-target", format!("AmazonSQS.{action}"))
            .header("x-amz-content-sha256", digest)
            .body(())
            .map_err(|error| error.to_string())?;
        let mut parts = request.into_parts().0;
        let signed = self.0.sign(&mut parts, None).await;
        signed.map_err(|error| format!("there are no credentials for the signature: {error}"))?;
        if let Some(authorization) = parts.headers.get_mut("authorization") {
            HeaderValue::set_sensitive(authorization, true);
        }
        Ok(parts)
    }
}

impl HttpSend for Fetching {
    async fn http_send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Error> {
        let wrong = |error: reqwest::Error| Error::unexpected(super::super::http_words(&error));
        let request = reqwest::Request::try_from(request).map_err(wrong)?;
        let answer = self.0.execute(request).await.map_err(wrong)?;
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = answer.status();
        *response.headers_mut() = answer.headers().clone();
        *response.body_mut() = answer.bytes().await.map_err(wrong)?;
        Ok(response)
    }
}

impl FileRead for Reading {
    async fn file_read(&self, path: &str) -> Result<Vec<u8>, Error> {
        std::fs::read(path).map_err(|error| Error::unexpected(format!("cannot read {path}: {error}")))
    }
}
