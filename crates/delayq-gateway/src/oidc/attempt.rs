//! A login under way, in a signed cookie of the browser.
//!
//! ```text
//! cookie = END (s since the epoch) . STATE . NONCE . VERIFIER . base64url(HMAC-SHA-256 of all)
//! ```
//! A login needs no place in Redis before its end, and ends in the same browser.

use super::refusal::{LoginRefusal, Reason};
use crate::receipts::{Signer, random};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use delayq::Error;
use sha2::{Digest as _, Sha256};
use std::time::Duration;

pub(crate) const LOGIN_LIFE: Duration = Duration::from_mins(10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    ends: u64,
    pub(super) state: String,
    pub(super) nonce: String,
    /// The secret of PKCE. The provider knows the hash from the beginning.
    pub(super) verifier: String,
}

// === impl Attempt ===

impl Attempt {
    /// # Errors
    /// The system gives no random numbers.
    pub(super) fn new(now: u64) -> Result<Self, Error> {
        Ok(Self { ends: now + LOGIN_LIFE.as_secs(), state: random()?, nonce: random()?, verifier: random()? })
    }

    pub(super) fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(&self.verifier))
    }

    pub(super) fn written(&self, signer: &Signer) -> String {
        let Self { ends, state, nonce, verifier } = self;
        let signed = format!("{ends}.{state}.{nonce}.{verifier}");
        let tag = signer.tag(signed.as_bytes());
        format!("{signed}.{tag}")
    }

    pub(super) fn read(signer: &Signer, cookie: &str, now: u64) -> Result<Self, LoginRefusal> {
        let lost = |why: &str| LoginRefusal::new(Reason::Lost, why);
        let parse = || {
            let (signed, tag) = cookie.rsplit_once('.')?;
            let mut parts = signed.split('.').map(str::to_owned);
            let (ends, state, nonce, verifier) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
            let attempt = Self { ends: ends.parse().ok()?, state, nonce, verifier };
            signer.is_tag(tag, signed.as_bytes()).then_some(attempt)
        };
        let attempt =
            parse().ok_or_else(|| lost("no gateway of this deployment signed the cookie of the login"))?;
        if attempt.ends <= now { Err(lost("the login took longer than ten minutes")) } else { Ok(attempt) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_read_back_for_ten_minutes_and_no_other_is_taken() {
        let (signer, attempt) = (Signer::new(b"key"), Attempt::new(100).unwrap());
        let written = attempt.written(&signer);
        let reason = |signer: &Signer, cookie: &str, now| {
            Attempt::read(signer, cookie, now).map_err(|refusal| refusal.reason)
        };
        assert_eq!(reason(&signer, &written, 699), Ok(attempt));
        assert_eq!(reason(&signer, &written, 700), Err(Reason::Lost));
        assert_eq!(reason(&Signer::new(b"kez"), &written, 100), Err(Reason::Lost));
        for forged in ["", ".", "....", &written.replacen("700", "900", 1), &written[..written.len() - 1]] {
            assert_eq!(reason(&signer, forged, 100), Err(Reason::Lost), "{forged}");
        }
    }

    #[test]
    fn the_challenge_is_the_hash_of_the_verifier() {
        // The example of RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned();
        let attempt = Attempt { verifier, ..Attempt::new(0).unwrap() };
        assert_eq!(attempt.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
