//! The files of the page, and their headers.

use crate::stage::{Answer, Stage};
use reqwest::Method;

#[tokio::test]
async fn the_page_is_served_with_a_strict_policy_and_known_files_are_not_sent_again() {
    let stage = Stage::start("").await;
    let page = stage.gateway.get("/").await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    let policy = page.header("content-security-policy");
    for rule in [
        "default-src 'none'",
        "script-src 'self';",
        "require-trusted-types-for 'script'",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.contains(rule), "{rule}: {policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(
        (page.header("x-content-type-options"), page.header("cache-control")),
        ("nosniff", "no-cache")
    );
    let names = page.text.split('"').filter(|name| name.starts_with("/page/"));
    for name in names.chain(["/page/vendor/lit-html.js", "/page/texts.js"]) {
        let file = stage.gateway.get(name).await;
        assert_eq!(file.status, 200, "{name}");
        assert_eq!(file.header("content-security-policy"), policy, "{name}");
        let again = stage.gateway.request(Method::GET, name).header("if-none-match", file.header("etag"));
        let again = Answer::of(again).await;
        assert_eq!((again.status, again.text.as_str()), (304, ""), "{name}");
    }
    assert_eq!(
        stage.gateway.get("/page/vendor/lit-html.js").await.header("content-type"),
        "text/javascript; charset=utf-8"
    );
    for nowhere in ["/page/", "/page/none.js", "/page/../Cargo.toml", "/page/vendor", "/index.html"] {
        assert_eq!(stage.gateway.get(nowhere).await.with(404)["code"], "DQ-G105", "{nowhere}");
    }
}

#[tokio::test]
async fn a_link_of_another_site_opens_the_page_and_nothing_else() {
    let stage = Stage::start("").await;
    let from = async |site: &str, path: &str, mode: &str| {
        let request = stage.gateway.request(Method::GET, path);
        let request = request.header("sec-fetch-site", site).header("sec-fetch-mode", mode);
        Answer::of(request).await.status
    };
    for site in ["cross-site", "same-site", "none", "same-origin"] {
        assert_eq!(from(site, "/?topic=orders&id=a", "navigate").await, 200, "{site}");
    }
    assert_eq!(from("cross-site", "/v1/topics", "navigate").await, 403);
    assert_eq!(from("cross-site", "/v1/me", "cors").await, 403);
    let foreign = stage.gateway.request(Method::GET, "/").header("host", "delayq.evil.example");
    assert_eq!(Answer::of(foreign).await.with(421)["code"], "DQ-G104");
    let posted = stage.gateway.request(Method::POST, "/").header("sec-fetch-site", "cross-site");
    assert_eq!(Answer::of(posted).await.status, 403);
}
