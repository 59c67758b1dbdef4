//! The texts of tenants and their tokens in Redis.
//!
//! The end of a rotated token has a text of its own. So a rotation never writes a token, and cannot bring back one that is
//! revoked meanwhile.

use crate::rights::{Right, Rights};
use crate::tenant::Tenant;
use crate::token::{Hash, Token};
use delayq::UnixMillis;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The quotas of a tenant; `None`: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Quotas {
    /// Maximum puts a second, over all gateways.
    #[serde(default)]
    pub(crate) puts_per_second: Option<u32>,
    /// Maximum messages that are not finished.
    #[serde(default)]
    pub(crate) pending: Option<u64>,
    /// Maximum bytes of request bodies in the memory of one gateway.
    #[serde(default)]
    pub(crate) bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TokenNote {
    pub(crate) name: String,
    pub(crate) hash: String,
    pub(crate) rights: Vec<String>,
    /// `None`: the token has no end.
    pub(crate) until_ms: Option<u64>,
    pub(crate) made_ms: u64,
}

/// A tenant with its tokens, by id.
#[derive(Debug)]
pub(crate) struct TenantNotes {
    /// `Err`: why the text cannot be read, which may be of a later version.
    pub(crate) quotas: Result<Quotas, String>,
    pub(crate) tokens: BTreeMap<String, TokenNote>,
}

/// What follows the name of a token in the name of its end.
const END: &str = "/end";

pub(super) fn name(tenant: &Tenant, id: &str) -> String {
    format!("{tenant}/{id}")
}

pub(super) fn name_of_end(tenant: &Tenant, id: &str) -> String {
    format!("{tenant}/{id}{END}")
}

/// True for each text of the tenant, also one that this version does not understand.
pub(super) fn is_of(tenant: &Tenant, name: &str) -> bool {
    name.split('/').next() == Some(tenant.name())
}

pub(super) fn text(note: &impl Serialize) -> String {
    serde_json::to_string(note).expect("a note is made of texts and numbers")
}

/// A token that this version does not understand is left out.
pub(super) fn tenants(texts: &BTreeMap<String, String>) -> BTreeMap<Tenant, TenantNotes> {
    let mut all: BTreeMap<Tenant, TenantNotes> = BTreeMap::new();
    for (name, text) in texts {
        let (tenant, id) = name.split_once('/').map_or((name.as_str(), None), |(name, id)| (name, Some(id)));
        if name.ends_with(END) {
            continue;
        }
        let Ok(tenant) = tenant.parse() else { continue };
        let kept = all.entry(tenant).or_default();
        match id {
            None => kept.quotas = serde_json::from_str(text).map_err(|error| error.to_string()),
            Some(id) => kept.tokens.extend(serde_json::from_str(text).ok().map(|note| (id.to_owned(), note))),
        }
    }
    for (name, text) in texts {
        let Some((tenant, id)) = name.strip_suffix(END).and_then(|name| name.split_once('/')) else {
            continue;
        };
        let kept = tenant.parse().ok().and_then(|tenant: Tenant| all.get_mut(&tenant));
        if let Some(note) = kept.and_then(|kept| kept.tokens.get_mut(id)) {
            // An end that cannot be read has passed.
            let end = text.parse().unwrap_or(0);
            note.until_ms = Some(note.until_ms.map_or(end, |until| until.min(end)));
        }
    }
    all
}

// === impl TenantNotes ===

impl Default for TenantNotes {
    fn default() -> Self {
        Self { quotas: Ok(Quotas::default()), tokens: BTreeMap::new() }
    }
}

// === impl TokenNote ===

impl TokenNote {
    pub(crate) fn rights(&self) -> Rights {
        self.rights.iter().filter_map(|word| word.parse::<Right>().ok()).collect()
    }

    pub(super) fn token(&self, tenant: &Tenant) -> Option<(Hash, Token)> {
        let hash = Hash::try_from(hex::decode(&self.hash).ok()?).ok()?;
        let until = self.until_ms.map(UnixMillis::new);
        let token =
            Token { name: self.name.clone(), rights: self.rights(), tenant: Some(tenant.clone()), until };
        Some((hash, token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_back_with_its_tenant_and_odd_texts_are_left_out() {
        let note = TokenNote {
            name: "shop".to_owned(),
            hash: "ab".repeat(32),
            rights: vec!["put".to_owned(), "fly".to_owned()],
            until_ms: None,
            made_ms: 7,
        };
        let acme: Tenant = "acme".parse().unwrap();
        let quotas = Quotas { puts_per_second: Some(5), ..Quotas::default() };
        let texts = BTreeMap::from([
            ("acme".to_owned(), text(&quotas)),
            (name(&acme, "abab"), text(&note)),
            ("acme/odd".to_owned(), "{".to_owned()),
            ("a b".to_owned(), "{}".to_owned()),
        ]);
        let all = tenants(&texts);
        assert_eq!(all.len(), 1);
        assert_eq!(
            (&all[&acme].quotas, &all[&acme].tokens),
            (&Ok(quotas), &BTreeMap::from([("abab".to_owned(), note)]))
        );
        let (hash, token) = all[&acme].tokens["abab"].token(&acme).unwrap();
        assert_eq!((hash, token.rights.words(), token.tenant), ([0xab; 32], vec!["put"], Some(acme)));
    }

    #[test]
    fn an_end_ends_its_token_and_brings_no_revoked_one_back() {
        let acme: Tenant = "acme".parse().unwrap();
        let note = TokenNote {
            name: "shop".to_owned(),
            hash: "ab".repeat(32),
            rights: Vec::new(),
            until_ms: Some(90),
            made_ms: 7,
        };
        let end = |ms: &str| BTreeMap::from([(name_of_end(&acme, "abab"), ms.to_owned())]);
        assert!(tenants(&end("50")).is_empty(), "the token was revoked");
        for (ms, until_ms) in [("50", 50), ("200", 90), ("soon", 0)] {
            let mut texts = end(ms);
            texts.insert(name(&acme, "abab"), text(&note));
            assert_eq!(tenants(&texts)[&acme].tokens["abab"].until_ms, Some(until_ms), "{ms}");
        }
    }

    #[test]
    fn quotas_that_cannot_be_read_are_not_taken_for_none() {
        let later = r#"{"puts_per_second":5,"puts_per_day":100}"#;
        for text in ["", "{", "[]x", later] {
            let all = tenants(&BTreeMap::from([("acme".to_owned(), text.to_owned())]));
            assert!(all[&"acme".parse::<Tenant>().unwrap()].quotas.is_err(), "{text}");
        }
    }
}
