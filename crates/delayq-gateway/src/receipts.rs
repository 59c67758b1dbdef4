//! Receipts in the form that clients see: unforgeable, and the same for every gateway of a deployment.
//!
//! ```text
//! base64url( shard, 2 bytes BE ‖ receipt ‖ first 16 bytes of HMAC-SHA-256 of both )
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use delayq::protocol::{Receipt, ShardId};
use delayq::{Admin, Error};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use std::fs::File;
use std::io::Read as _;
use std::sync::{Arc, Mutex, PoisonError};

const TAG: usize = 16;
const SHARD: usize = 2;

/// Clones share the key.
#[derive(Clone)]
pub(crate) struct Receipts {
    admin: Admin,
    configured: Option<Arc<[u8]>>,
    /// Once asked.
    kept: Arc<Mutex<Option<Signer>>>,
}

#[derive(Clone)]
pub(crate) struct Signer(Arc<[u8]>);

// === impl Receipts ===

impl Receipts {
    pub(crate) fn new(admin: Admin, configured: Option<Arc<[u8]>>) -> Self {
        Self { admin, configured, kept: Arc::default() }
    }

    pub(crate) async fn signer(&self) -> Result<Signer, Error> {
        if let Some(key) = &self.configured {
            return Ok(Signer(Arc::clone(key)));
        }
        if let Some(signer) = self.kept() {
            return Ok(signer);
        }
        // Boxed: each request would have room for a call that is made once.
        let key = Box::pin(self.admin.gateways().signing_key(&random()?)).await?;
        let signer = Signer::new(key.as_bytes());
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(signer.clone());
        Ok(signer)
    }

    /// Asks Redis again before the next signature: Redis may have come back without data.
    pub(crate) fn forget(&self) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn kept(&self) -> Option<Signer> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

// === impl Signer ===

impl Signer {
    pub(crate) fn text(&self, receipt: &Receipt) -> String {
        let mut bytes = receipt.shard.get().to_be_bytes().to_vec();
        bytes.extend(receipt.as_bytes());
        let tag = self.mac(&bytes).finalize().into_bytes();
        bytes.extend(&tag[..TAG]);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// `None`: no gateway of this deployment has signed the text.
    pub(crate) fn read(&self, text: &str) -> Option<Receipt> {
        let mut bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let at = bytes.len().checked_sub(TAG)?;
        let tag = bytes.split_off(at);
        self.mac(&bytes).verify_truncated_left(&tag).ok()?;
        let (shard, receipt) = bytes.split_at_checked(SHARD)?;
        let shard = u16::from_be_bytes(shard.try_into().ok()?);
        Some(Receipt::new(ShardId::new(shard), receipt.to_vec()))
    }

    pub(crate) fn new(key: &[u8]) -> Self {
        Self(key.into())
    }

    /// A signer whose signatures are never those of receipts.
    pub(crate) fn of(&self, purpose: &str) -> Self {
        Self(self.mac(purpose.as_bytes()).finalize().into_bytes().to_vec().into())
    }

    pub(crate) fn tag(&self, bytes: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(self.mac(bytes).finalize().into_bytes())
    }

    pub(crate) fn is_tag(&self, tag: &str, bytes: &[u8]) -> bool {
        let tag = URL_SAFE_NO_PAD.decode(tag);
        tag.is_ok_and(|tag| self.mac(bytes).verify_slice(&tag).is_ok())
    }

    fn mac(&self, bytes: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length is a key");
        mac.update(bytes);
        mac
    }
}

pub(crate) fn random() -> Result<String, Error> {
    let mut bytes = [0; 32];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| Error::Unfit(format!("cannot read /dev/urandom for a key: {error}")))?;
    Ok(hex::encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_is_read_back_and_no_other_is_taken() {
        let signer = |key: &str| Signer::new(key.as_bytes());
        let receipt = Receipt::new(ShardId::new(300), b"7:id\x00\x01\x02\x03".to_vec());
        let text = signer("key").text(&receipt);
        assert_eq!(signer("key").read(&text), Some(receipt));
        assert_eq!(signer("kez").read(&text), None);
        let bytes = URL_SAFE_NO_PAD.decode(&text).unwrap();
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_eq!(signer("key").read(&URL_SAFE_NO_PAD.encode(&other)), None, "byte {at}");
            assert_eq!(signer("key").read(&URL_SAFE_NO_PAD.encode(&bytes[..at])), None, "{at} bytes");
        }
        for text in ["", "x", "!!", &format!("{text}=")] {
            assert_eq!(signer("key").read(text), None);
        }
    }
}
