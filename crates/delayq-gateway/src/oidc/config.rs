//! `[gateway.oidc]`: the identity provider of people.

use crate::rights::{Right, Rights};
use crate::tenant::Tenant;
use delayq_service::config::{Faults, PemFiles, Secret, Section};
use reqwest::Url;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

delayq_service::section! {
    /// `[gateway.oidc]`: people log in to the page through an OpenID Connect provider. `ca` is the authority of the provider,
    /// `cert` and `key` the gateway's own certificate, if the provider requires one.
    pub struct OidcConfig {
        ..files: PemFiles,
        /// The provider, exactly as the provider names itself: an `https` URL, or an `http` URL of this host.
        pub issuer: String = String::new(),
        /// The name of the gateway at the provider.
        pub client_id: String = String::new(),
        /// The password of the gateway at the provider. `None`: a public client, with PKCE alone.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub client_secret: Option<Secret> = None,
        /// The address of the page in browsers, without a path. The provider has to know the redirect URI `URL/oidc`.
        pub url: String = String::new(),
        /// Scopes of the login; default `openid`, `profile` and `email`. `openid` is required.
        pub scopes: Vec<String> = ["openid", "profile", "email"].map(str::to_owned).to_vec(),
        /// The claim of the ID token with the groups of a person, a list or one text: a name, or a JSON pointer such as
        /// `/realm_access/roles`. Default `groups`. With `email`, the address has to be verified.
        pub groups_claim: String = "groups".to_owned(),
        /// The rights by group. A person without such a group gets no session.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub groups: BTreeMap<String, GroupConfig> = BTreeMap::new(),
    }
}

/// `[gateway.oidc.groups.NAME]`: the rights of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupConfig {
    /// The rights, in the words of the file of tokens.
    pub rights: Vec<String>,
    /// Limits the people to the topics and groups of this tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// An `https` URL, or an `http` URL of this host.
pub(super) fn sound_url(text: &str) -> Result<Url, &'static str> {
    let url = Url::parse(text).map_err(|_| "expected a URL such as https://login.example.com")?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match url.scheme() {
        _ if !url.username().is_empty() || url.password().is_some() => Err("a URL with a login is refused"),
        "https" => Ok(url),
        "http" if is_local => Ok(url),
        _ => Err("expected https: others could read and change what comes by http, except on this host"),
    }
}

// === impl OidcConfig ===

impl Section for OidcConfig {
    fn validate(&self, at: &mut Faults) {
        match sound_url(&self.issuer) {
            Err(why) => at.refuse("issuer", why),
            Ok(url) if url.query().is_some() || url.fragment().is_some() => {
                at.refuse("issuer", "an issuer has neither a query nor a fragment");
            }
            Ok(_) => {}
        }
        match sound_url(&self.url) {
            Err(why) => at.refuse("url", why),
            Ok(url) if url.path() != "/" || url.query().is_some() || url.fragment().is_some() => {
                at.refuse("url", "expected scheme, host and port alone: the page is at the root");
            }
            Ok(_) => {}
        }
        if self.client_id.is_empty() {
            at.refuse("client_id", "the name of the gateway at the provider is missing");
        }
        at.secret("client_secret", self.client_secret.as_ref());
        if !self.scopes.iter().any(|scope| scope == "openid") {
            at.refuse("scopes", "`openid` is missing: without it, the provider sends no ID token");
        }
        if let Some(scope) =
            self.scopes.iter().find(|scope| scope.is_empty() || scope.contains(char::is_whitespace))
        {
            at.refuse("scopes", format!("`{scope}` is no scope: one word an entry"));
        }
        if self.groups_claim.is_empty() {
            at.refuse("groups_claim", "the name of the claim is missing");
        }
        if self.groups.is_empty() {
            at.refuse(
                "groups",
                "no group has rights, so nobody could log in: add [gateway.oidc.groups.NAME]",
            );
        }
        for (name, group) in &self.groups {
            if let Err(why) = group.read() {
                at.refuse(&format!("groups.{name}"), why);
            }
        }
        self.files.validate(None, at);
    }
}

// === impl GroupConfig ===

impl GroupConfig {
    pub(super) fn read(&self) -> Result<(Rights, Option<Tenant>), String> {
        if self.rights.is_empty() {
            return Err("`rights` is empty: remove the group, or give it a right".to_owned());
        }
        let right = |word: &String| {
            let known = || Right::ALL.map(Right::word).join(", ");
            word.parse().map_err(|()| format!("`{word}` is no right; known: {}", known()))
        };
        let rights = self.rights.iter().map(right).collect::<Result<Rights, _>>()?;
        Ok((rights, self.tenant.as_deref().map(str::parse).transpose()?))
    }
}

#[cfg(test)]
mod tests {
    use crate::config::GatewayConfig;
    use delayq_service::config::{Environment, Source, load};

    delayq_service::configuration! {
        struct Alone { gateway: GatewayConfig }
    }

    const SOUND: &str = "issuer = 'https://login.example/realms/shop'\nclient_id = 'delayq'\n\
                         url = 'https://delayq.example'\ngroups.support.rights = ['read', 'act']\n";

    fn faults(head: &str, text: &str) -> String {
        let source = Source::text("delayq.toml", format!("[gateway]\n{head}[gateway.oidc]\n{text}"));
        let loaded = load::<Alone>(&source, &Environment::empty());
        loaded.err().map(|faults| faults.to_string()).unwrap_or_default()
    }

    fn of(text: &str) -> String {
        faults("tokens = '/etc/delayq/tokens'\n", text)
    }

    #[test]
    fn a_sound_provider_is_accepted_and_every_faulty_setting_is_refused_by_its_name() {
        assert_eq!(of(SOUND), "");
        assert_eq!(of(&SOUND.replace("https://login.example", "http://127.0.0.1:9")), "", "on this host");
        for (from, to, names) in [
            ("https://login", "http://login", "gateway.oidc.issuer"),
            ("https://login.example/realms/shop", "login.example", "gateway.oidc.issuer"),
            ("realms/shop", "?realm=shop", "gateway.oidc.issuer"),
            ("https://login", "https://user:word@login", "gateway.oidc.issuer"),
            ("'delayq'", "''", "gateway.oidc.client_id"),
            ("https://delayq.example", "https://delayq.example/page", "gateway.oidc.url"),
            ("https://delayq.example", "http://delayq.example", "gateway.oidc.url"),
            ("'act'", "'acts'", "gateway.oidc.groups.support"),
            ("['read', 'act']", "[]", "gateway.oidc.groups.support"),
            ("groups.support.rights = ['read', 'act']\n", "", "gateway.oidc.groups"),
            ("groups.", "groups_claim = ''\ngroups.", "gateway.oidc.groups_claim"),
            ("groups.", "scopes = ['email']\ngroups.", "gateway.oidc.scopes"),
            ("groups.", "scopes = ['openid email']\ngroups.", "gateway.oidc.scopes"),
            ("groups.", "client_secret = { file = '/none/secret' }\ngroups.", "gateway.oidc.client_secret"),
            ("groups.", "ca = '/none/ca.pem'\ngroups.", "gateway.oidc.ca"),
            ("groups.", "groups.support.tenant = 'a/b'\ngroups.", "gateway.oidc.groups.support"),
        ] {
            let found = of(&SOUND.replacen(from, to, 1));
            assert!(found.contains(names), "{from} -> {to}: {found}");
        }
    }

    #[test]
    fn people_need_tokens_beside_them() {
        assert!(faults("", SOUND).contains("set `tokens`"), "{}", faults("", SOUND));
    }
}
