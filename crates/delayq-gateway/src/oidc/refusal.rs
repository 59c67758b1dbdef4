//! Why a login through the identity provider failed.

use crate::problem::{Kind, Problem};
use delayq::Fate;
use serde_json::json;

/// A login that failed. The detail is for the log: the page has a sentence for each reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoginRefusal {
    pub(crate) reason: Reason,
    pub(crate) detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The provider does not answer, or not in time.
    Unreachable,
    /// The answer is no answer of a provider.
    Faulty,
    /// The provider names itself differently.
    Names,
    /// The provider does not accept the gateway's own name or password.
    Client,
    /// Too many logins at a time.
    Busy,
    Malformed,
    /// The key of the signature is unknown.
    Key,
    Signature,
    Issuer,
    Audience,
    Expired,
    /// The ID token is of another login.
    Nonce,
    /// No group of the person has rights.
    Group,
    /// The groups are of several tenants.
    Tenants,
    /// The address is not verified.
    Email,
    /// The browser has no login under way: another browser began it, or too long ago.
    Lost,
    /// The answer is of another login.
    State,
    Replayed,
    /// The person or the provider said no.
    Denied,
    /// The provider does not accept the code.
    Code,
    /// The page has another address than the provider sends browsers to.
    Address,
}

// === impl LoginRefusal ===

impl LoginRefusal {
    pub(crate) fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

impl From<LoginRefusal> for Problem {
    fn from(LoginRefusal { reason, detail }: LoginRefusal) -> Self {
        let outcome = json!({ "outcome": "refused", "reason": reason.word() });
        Self::outcome(reason.kind(), outcome).fate(Fate::NotApplied).because(detail)
    }
}

// === impl Reason ===

impl Reason {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Faulty => "faulty",
            Self::Names => "names",
            Self::Client => "client",
            Self::Busy => "busy",
            Self::Malformed => "malformed",
            Self::Key => "key",
            Self::Signature => "signature",
            Self::Issuer => "issuer",
            Self::Audience => "audience",
            Self::Expired => "expired",
            Self::Nonce => "nonce",
            Self::Group => "group",
            Self::Tenants => "tenants",
            Self::Email => "email",
            Self::Lost => "lost",
            Self::State => "state",
            Self::Replayed => "replayed",
            Self::Denied => "denied",
            Self::Code => "code",
            Self::Address => "address",
        }
    }

    pub(crate) const fn kind(self) -> Kind {
        match self {
            Self::Unreachable | Self::Faulty | Self::Names | Self::Client | Self::Busy => Kind::NoProvider,
            Self::Malformed
            | Self::Key
            | Self::Signature
            | Self::Issuer
            | Self::Audience
            | Self::Expired
            | Self::Nonce => Kind::BadLogin,
            Self::Group | Self::Tenants | Self::Email => Kind::NoGroup,
            Self::Lost | Self::State | Self::Replayed | Self::Denied | Self::Code | Self::Address => {
                Kind::LostLogin
            }
        }
    }
}
