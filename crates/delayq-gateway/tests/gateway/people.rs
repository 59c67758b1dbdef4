//! People log in through an identity provider.

pub(crate) mod provider;

use crate::stage::{Answer, Stage};
use delayq_gateway::token_line;
use delayq_tests::deadline::{SHORT, wait_until};
use delayq_tests::folder::Folder;
use provider::{CLIENT, Faults, Provider, SECRET, silent};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, Url};
use serde_json::{Value, json};

/// The page's address for browsers: the gateway's port is free, and so is not known before.
const HOST: &str = "localhost:9480";

struct People {
    stage: Stage,
    folder: Folder,
    provider: Provider,
    browser: Client,
}

/// A login that has begun.
struct Begun {
    cookie: String,
    url: Url,
}

// === impl People ===

impl People {
    async fn start(more: &str) -> Self {
        let (folder, provider) = (Folder::new("people"), Provider::start().await);
        let stage = Stage::start(&settings(&folder, &provider.issuer, more)).await;
        let browser = Client::builder().redirect(Policy::none()).build().unwrap();
        Self { stage, folder, provider, browser }
    }

    /// As the page sends it.
    fn request(&self, method: Method, path: &str, cookie: &str) -> RequestBuilder {
        let request = self.browser.request(method, format!("http://{}{path}", self.stage.gateway.address));
        let request = request.header("host", HOST).header("origin", format!("http://{HOST}"));
        request.header("sec-fetch-site", "same-origin").header("cookie", cookie)
    }

    async fn get(&self, path: &str, cookie: &str) -> Answer {
        Answer::of(self.request(Method::GET, path, cookie)).await
    }

    async fn begin(&self) -> Begun {
        let answer = Answer::of(self.request(Method::POST, "/v1/session/oidc", "")).await;
        let url = answer.with(200)["url"].as_str().unwrap().parse().unwrap();
        Begun { cookie: cookie_of(&answer, "delayq_login"), url }
    }

    /// The query with which the provider sends the browser back.
    async fn at_provider(&self, begun: &Begun) -> String {
        let answer = Answer::of(self.browser.get(begun.url.clone())).await;
        let place = answer.header("location").to_owned();
        place.strip_prefix(&format!("http://{HOST}/oidc?")).unwrap_or_else(|| panic!("{place}")).to_owned()
    }

    /// The browser follows the provider's link: no header says that the page sent the request.
    async fn back(&self, query: &str, cookie: &str) -> Answer {
        let request = self.browser.get(format!("http://{}/oidc?{query}", self.stage.gateway.address));
        let request = request.header("host", HOST).header("sec-fetch-site", "cross-site");
        Answer::of(request.header("sec-fetch-mode", "navigate").header("cookie", cookie)).await
    }

    async fn log_in(&self) -> Answer {
        let begun = self.begin().await;
        let query = self.at_provider(&begun).await;
        self.back(&query, &begun.cookie).await
    }

    /// The cookie of a session.
    async fn session(&self) -> String {
        let answer = self.log_in().await;
        assert_eq!((answer.status, answer.header("location")), (303, "/?login=done"), "{answer:?}");
        cookie_of(&answer, "delayq_session")
    }
}

fn settings(folder: &Folder, issuer: &str, more: &str) -> String {
    settings_at(HOST, folder, issuer, more)
}

/// For a page at this address.
pub(crate) fn settings_at(host: &str, folder: &Folder, issuer: &str, more: &str) -> String {
    let (tokens, secret) = (folder.join("tokens"), folder.join("secret"));
    std::fs::write(&tokens, token_line("shop", "secret")).unwrap();
    std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
    format!(
        "tokens = \"{}\"\n[gateway.oidc]\nissuer = \"{issuer}\"\nclient_id = \"{CLIENT}\"\n\
         client_secret = {{ file = \"{}\" }}\nurl = \"http://{host}\"\n{more}\
         [gateway.oidc.groups.\"/desk\"]\nrights = [\"read\", \"act\", \"audit\"]\n\
         [gateway.oidc.groups.acme]\nrights = [\"read\", \"manage\"]\ntenant = \"acme\"\n\
         [gateway.oidc.groups.globex]\nrights = [\"read\"]\ntenant = \"globex\"\n",
        tokens.display(),
        secret.display()
    )
}

fn cookie_of(answer: &Answer, start: &str) -> String {
    let all = answer.headers.get_all("set-cookie").into_iter().map(|set| set.to_str().unwrap());
    let set = all.into_iter().find(|set| set.starts_with(start)).unwrap_or_else(|| panic!("{answer:?}"));
    set.split(';').next().unwrap().to_owned()
}

/// The code and the reason with which the page is opened.
fn refused(answer: &Answer) -> (String, String) {
    assert_eq!(answer.status, 303, "{answer:?}");
    let place: Url = format!("http://{HOST}{}", answer.header("location")).parse().unwrap();
    let value = |name: &str| place.query_pairs().find(|(known, _)| known == name).unwrap().1.into_owned();
    assert_eq!((place.path(), value("login").len()), ("/", 8), "{place}");
    let sets = answer.headers.get_all("set-cookie").into_iter().map(|set| set.to_str().unwrap().to_owned());
    assert!(sets.into_iter().all(|set| set.starts_with("delayq_login_9480=; ")), "no session: {answer:?}");
    (value("refused"), value("reason"))
}

#[tokio::test]
async fn a_person_logs_in_acts_under_their_name_and_logs_out_everywhere() {
    let people = People::start("").await;
    let ways = people.get("/v1/session", "").await.with(200);
    assert_eq!((&ways["token"], &ways["provider"]), (&json!(true), &json!(people.provider.issuer)));
    let begun = people.begin().await;
    let answer = people.back(&people.at_provider(&begun).await, &begun.cookie).await;
    let sets: Vec<&str> =
        answer.headers.get_all("set-cookie").into_iter().map(|set| set.to_str().unwrap()).collect();
    let session = sets.iter().find(|set| set.starts_with("delayq_session_9480=")).unwrap();
    assert!(session.ends_with("; Path=/; HttpOnly; SameSite=Strict; Max-Age=28800"), "{session}");
    assert!(
        sets.iter().any(|set| set.starts_with("delayq_login_9480=; ") && set.contains("Max-Age=0")),
        "{sets:?}"
    );
    let cookie = cookie_of(&answer, "delayq_session");
    let me = people.get("/v1/me", &cookie).await.with(200);
    assert_eq!(
        (&me["name"], &me["person"], &me["rights"], &me["tenant"]),
        (&json!("jo@example.com"), &json!(true), &json!(["read", "act", "audit"]), &json!(null))
    );
    let gateway = &people.stage.gateway;
    let message = json!({ "due": "2099-01-01T00:00:00Z", "payload": "x" });
    let put =
        gateway.request(Method::PUT, "/v1/topics/orders/messages/a").bearer_auth("secret").json(&message);
    Answer::of(put).await.with(201);
    let cancel = people.request(Method::DELETE, "/v1/topics/orders/messages/a", &cookie);
    Answer::of(cancel).await.with(200);
    let pause = people.request(Method::POST, "/v1/topics/orders/pause", &cookie);
    let refused = Answer::of(pause).await.with(403);
    assert_eq!(
        (&refused["code"], &refused["detail"].as_str().unwrap().contains("the person has")),
        (&json!("DQ-G122"), &true)
    );
    let logged = async || {
        let actions = people.get("/v1/actions", &cookie).await.with(200)["actions"].clone();
        actions
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["who"] == "jo@example.com" && one["action"] == "cancelMessage")
    };
    wait_until("the entry in the log of actions", SHORT, logged).await;
    let out = Answer::of(people.request(Method::DELETE, "/v1/session", &cookie)).await;
    assert_eq!(out.status, 204);
    let ended = people.get("/v1/me", &cookie).await.with(401);
    assert_eq!(
        (&ended["code"], &ended["reason"]),
        (&json!("DQ-G121"), &json!("unknown")),
        "a copied cookie, too"
    );
}

#[tokio::test]
async fn keys_of_both_kinds_sign_and_a_new_key_is_read_once_a_minute() {
    let people = People::start("").await;
    people.session().await;
    people.provider.with(Faults { is_rsa: true, ..Faults::default() });
    people.session().await;
    assert_eq!(*people.provider.reads.lock().unwrap(), 1, "one read knows both");
    people.provider.with(Faults { key: Some(("new", true)), ..Faults::default() });
    let key = ("DQ-G131".to_owned(), "key".to_owned());
    for _ in 0..3 {
        assert_eq!(refused(&people.log_in().await), key);
    }
    assert_eq!(*people.provider.reads.lock().unwrap(), 1, "an unknown key makes no call within the minute");
}

#[tokio::test]
async fn what_the_provider_says_is_believed_only_if_all_of_it_is_right() {
    let people = People::start("").await;
    let claims = |claims: Value| Faults { claims, ..Faults::default() };
    let fault = |change: fn(&mut Faults)| {
        let mut faults = Faults::default();
        change(&mut faults);
        faults
    };
    for (name, faults, code, reason) in [
        ("another issuer", claims(json!({ "iss": "https://evil.example" })), "G131", "issuer"),
        ("no issuer", claims(json!({ "iss": null })), "G131", "malformed"),
        ("another audience", claims(json!({ "aud": "else" })), "G131", "audience"),
        ("another party", claims(json!({ "aud": [CLIENT, "else"], "azp": "else" })), "G131", "audience"),
        ("an old token", claims(json!({ "exp": -90 })), "G131", "expired"),
        ("a token of tomorrow", claims(json!({ "nbf": 90 })), "G131", "expired"),
        ("no end", claims(json!({ "exp": null })), "G131", "malformed"),
        ("no subject", claims(json!({ "sub": null })), "G131", "malformed"),
        ("another nonce", claims(json!({ "nonce": "else" })), "G131", "nonce"),
        ("no nonce", claims(json!({ "nonce": null })), "G131", "nonce"),
        ("a wrong signature", fault(|faults| faults.signature = true), "G131", "signature"),
        ("no signature", fault(|faults| faults.algorithm = Some("none")), "G131", "malformed"),
        ("a public key as a password", fault(|faults| faults.algorithm = Some("HS256")), "G131", "signature"),
        ("the kind of another key", fault(|faults| faults.algorithm = Some("RS256")), "G131", "signature"),
        ("an unknown group", claims(json!({ "groups": ["/else"] })), "G132", "group"),
        ("no groups", claims(json!({ "groups": null })), "G132", "group"),
        ("groups of two tenants", claims(json!({ "groups": ["acme", "globex"] })), "G132", "tenants"),
        (
            "a refusal of the code",
            fault(|faults| faults.token = Some((400, r#"{"error":"invalid_grant"}"#))),
            "G133",
            "code",
        ),
        (
            "a refusal of the gateway",
            fault(|faults| faults.token = Some((401, r#"{"error":"invalid_client"}"#))),
            "G130",
            "client",
        ),
        ("a fault", fault(|faults| faults.token = Some((500, "<html>"))), "G130", "faulty"),
        ("an answer without a token", fault(|faults| faults.token = Some((200, "{}"))), "G130", "faulty"),
        ("too long an answer", fault(|faults| faults.token_bytes = 1_000_000), "G130", "faulty"),
        ("a refusal of the person", fault(|faults| faults.error = Some("access_denied")), "G133", "denied"),
    ] {
        people.provider.with(faults);
        assert_eq!(refused(&people.log_in().await), (format!("DQ-{code}"), reason.to_owned()), "{name}");
    }
    for (name, faults) in [
        ("a clock that is late", claims(json!({ "exp": -50 }))),
        ("a clock that is early", claims(json!({ "nbf": 50 }))),
        ("two audiences", claims(json!({ "aud": [CLIENT, "else"], "azp": CLIENT }))),
    ] {
        people.provider.with(faults);
        assert_eq!(people.log_in().await.header("location"), "/?login=done", "{name}");
    }
    people.provider.with(claims(json!({ "groups": ["acme", "/else"], "email": null })));
    let me = people.get("/v1/me", &people.session().await).await.with(200);
    assert_eq!(
        (&me["name"], &me["tenant"], &me["rights"]),
        (&json!("Jo"), &json!("acme"), &json!(["read", "manage"]))
    );
    people.provider.with(claims(json!({ "email_verified": false, "name": null })));
    let me = people.get("/v1/me", &people.session().await).await.with(200);
    assert_eq!(me["name"], "4711", "an address that is not verified names nobody");
}

#[tokio::test]
async fn a_login_ends_once_and_in_the_browser_that_began_it() {
    let people = People::start("").await;
    let lost = |reason: &str| ("DQ-G133".to_owned(), reason.to_owned());
    let (one, other) = (people.begin().await, people.begin().await);
    let query = people.at_provider(&one).await;
    assert_eq!(refused(&people.back(&query, "").await), lost("lost"), "another browser");
    assert_eq!(refused(&people.back(&query, &other.cookie).await), lost("state"));
    assert_eq!(
        refused(&people.back(&query, &format!("{}x", one.cookie)).await),
        lost("lost"),
        "a forged cookie"
    );
    for query in ["", "state=", "code=x&state=y", "state=%ff&code=%00", "&&=&"] {
        assert_eq!(refused(&people.back(query, &one.cookie).await), lost("state"), "{query}");
    }
    let evil = query.replace("iss=http", "iss=https");
    assert_eq!(refused(&people.back(&evil, &one.cookie).await).1, "issuer", "another provider answers");
    let evil = format!("{query}&redirect=https://evil.example&to=//evil.example");
    assert_eq!(
        people.back(&evil, &one.cookie).await.header("location"),
        "/?login=done",
        "no parameter leads away"
    );
    assert_eq!(refused(&people.back(&query, &one.cookie).await), lost("replayed"));
    let elsewhere = people.stage.gateway.request(Method::POST, "/v1/session/oidc").header("host", HOST);
    Answer::of(elsewhere.header("sec-fetch-site", "cross-site")).await.with(403);
    let gateway = &people.stage.gateway;
    let named = Answer::of(gateway.request(Method::POST, "/v1/session/oidc")).await.with(401);
    assert_eq!((&named["code"], &named["reason"]), (&json!("DQ-G133"), &json!("address")), "{named}");
}

#[tokio::test]
async fn without_the_provider_a_token_still_logs_in_and_the_page_says_why_people_cannot() {
    let people = People::start("").await;
    people.provider.with(Faults { issuer: Some("https://evil.example"), ..Faults::default() });
    for (issuer, reason) in [
        (people.provider.issuer.clone(), "names"),
        (format!("{}/else", people.provider.issuer), "faulty"),
        ("http://127.0.0.1:9".to_owned(), "unreachable"),
        (silent().await, "unreachable"),
    ] {
        let gateway = people.stage.another_with(&settings(&people.folder, &issuer, "")).await;
        let of_page = |path: &str| gateway.request(Method::POST, path).header("host", HOST);
        let refused = Answer::of(of_page("/v1/session/oidc")).await.with(503);
        assert_eq!((&refused["code"], &refused["reason"]), (&json!("DQ-G130"), &json!(reason)), "{issuer}");
        assert!(!refused["detail"].as_str().unwrap().is_empty());
        let me = Answer::of(of_page("/v1/session").json(&json!({ "token": "secret" }))).await.with(200);
        assert_eq!(me["name"], "shop", "{issuer}");
    }
}

#[tokio::test]
async fn a_group_that_loses_its_rights_ends_the_sessions_of_its_people() {
    let people = People::start("").await;
    let cookie = people.session().await;
    let without = settings(&people.folder, &people.provider.issuer, "").replace("/desk", "/ops");
    let other = people.stage.another_with(&without).await;
    let asked = other.request(Method::GET, "/v1/me").header("host", HOST).header("cookie", &cookie);
    let ended = Answer::of(asked).await.with(401);
    assert_eq!((&ended["code"], &ended["reason"]), (&json!("DQ-G121"), &json!("removed")));
    people.get("/v1/me", &cookie).await.with(200);
}

#[tokio::test]
async fn an_address_serves_as_a_group_only_if_the_provider_has_verified_it() {
    let more = "groups_claim = \"email\"\n[gateway.oidc.groups.\"jo@example.com\"]\nrights = [\"read\"]\n";
    let people = People::start(more).await;
    let me = people.get("/v1/me", &people.session().await).await.with(200);
    assert_eq!(me["rights"], json!(["read"]));
    for value in [json!(false), json!(null), json!("true")] {
        people.provider.with(Faults { claims: json!({ "email_verified": value }), ..Faults::default() });
        assert_eq!(refused(&people.log_in().await), ("DQ-G132".to_owned(), "email".to_owned()), "{value}");
    }
}

#[tokio::test]
async fn the_log_has_no_secret_of_a_login() {
    let people = People::start("").await;
    let (begun, cookie) = (people.begin().await, people.session().await);
    people.provider.with(Faults { signature: true, ..Faults::default() });
    people.log_in().await;
    let said = || -> String {
        people.stage.gateway.process.lines().into_iter().map(|line| line.text + "\n").collect()
    };
    let is_told = |said: &str| said.contains("a person logged in") && said.contains("a login was refused");
    wait_until("both logins in the log", SHORT, async || is_told(&said())).await;
    let said = said();
    let state = begun.url.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
    for secret in [SECRET, "code-", state.as_str(), cookie.split_once('=').unwrap().1, begun.cookie.as_str()]
    {
        assert!(!said.contains(secret), "{secret}");
    }
}
