//! The signatures of ID tokens, verified by ring: the provider of cryptography that `jsonwebtoken` uses in this process.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::signature as ring;

static RING: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory: |algorithm, key| Ok(Box::new(RingVerifier::of(*algorithm, key)?)),
    key_utils: KeyUtils::new_unimplemented(),
};

struct RingVerifier {
    algorithm: Algorithm,
    key: RingKey,
}

enum RingKey {
    Rsa(&'static ring::RsaParameters, ring::RsaPublicKeyComponents<Vec<u8>>),
    Curve(ring::UnparsedPublicKey<Vec<u8>>),
}

/// Safe to call again.
pub(super) fn install() {
    // An error says that a provider is installed: the workspace has no other provider.
    let _ = RING.install_default();
}

// === impl RingVerifier ===

impl RingVerifier {
    /// Refuses an algorithm that is not of the key: a public key must never serve as a password.
    fn of(algorithm: Algorithm, key: &DecodingKey) -> Result<Self> {
        let rsa = match algorithm {
            Algorithm::RS256 => Some(&ring::RSA_PKCS1_2048_8192_SHA256),
            Algorithm::RS384 => Some(&ring::RSA_PKCS1_2048_8192_SHA384),
            Algorithm::RS512 => Some(&ring::RSA_PKCS1_2048_8192_SHA512),
            Algorithm::PS256 => Some(&ring::RSA_PSS_2048_8192_SHA256),
            Algorithm::PS384 => Some(&ring::RSA_PSS_2048_8192_SHA384),
            Algorithm::PS512 => Some(&ring::RSA_PSS_2048_8192_SHA512),
            _ => None,
        };
        let curve: Option<&'static dyn ring::VerificationAlgorithm> = match algorithm {
            Algorithm::ES256 => Some(&ring::ECDSA_P256_SHA256_FIXED),
            Algorithm::ES384 => Some(&ring::ECDSA_P384_SHA384_FIXED),
            Algorithm::EdDSA => Some(&ring::ED25519),
            _ => None,
        };
        let key = match (key.kind(), rsa, curve) {
            (DecodingKeyKind::RsaModulusExponent { n, e }, Some(rsa), _) => {
                RingKey::Rsa(rsa, ring::RsaPublicKeyComponents { n: n.clone(), e: e.clone() })
            }
            (DecodingKeyKind::SecretOrDer(bytes), _, Some(curve)) => {
                RingKey::Curve(ring::UnparsedPublicKey::new(curve, bytes.clone()))
            }
            _ => return Err(ErrorKind::InvalidAlgorithm.into()),
        };
        Ok(Self { algorithm, key })
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let verified = match &self.key {
            RingKey::Rsa(parameters, key) => key.verify(parameters, message, signature),
            RingKey::Curve(key) => key.verify(message, signature),
        };
        verified.map_err(|_| Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
