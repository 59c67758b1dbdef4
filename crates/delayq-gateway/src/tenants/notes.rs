//! The texts of tenants and their tokens in Redis.

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
#[derive(Debug, Default)]
pub(crate) struct TenantNotes {
    pub(crate) quotas: Quotas,
    pub(crate) tokens: BTreeMap<String, TokenNote>,
}

pub(super) fn name(tenant: &Tenant, id: &str) -> String {
    format!("{tenant}/{id}")
}

pub(super) fn text(note: &impl Serialize) -> String {
    serde_json::to_string(note).expect("a note is made of texts and numbers")
}

/// A text that this version does not understand is left out.
pub(super) fn tenants(texts: &BTreeMap<String, String>) -> BTreeMap<Tenant, TenantNotes> {
    let mut all: BTreeMap<Tenant, TenantNotes> = BTreeMap::new();
    for (name, text) in texts {
        let (tenant, id) = name.split_once('/').map_or((name.as_str(), None), |(name, id)| (name, Some(id)));
        let Ok(tenant) = tenant.parse() else { continue };
        let kept = all.entry(tenant).or_default();
        match id {
            None => kept.quotas = serde_json::from_str(text).unwrap_or_default(),
            Some(id) => kept.tokens.extend(serde_json::from_str(text).ok().map(|note| (id.to_owned(), note))),
        }
    }
    all
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
            (all[&acme].quotas, &all[&acme].tokens),
            (quotas, &BTreeMap::from([("abab".to_owned(), note)]))
        );
        let (hash, token) = all[&acme].tokens["abab"].token(&acme).unwrap();
        assert_eq!((hash, token.rights.words(), token.tenant), ([0xab; 32], vec!["put"], Some(acme)));
    }
}
