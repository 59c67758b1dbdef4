//! The page for people: static files of this binary, which ask the API for everything else.
//!
//! The files are ES modules as the browser runs them, without a build step: only the comments are left out. The files hold no
//! data of the deployment, so anybody who reaches the gateway may read the files.

use crate::problem::{Kind, Problem};
use crate::state::App;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use sha2::{Digest as _, Sha256};
use std::sync::LazyLock;

const ROUTE: &str = "page";
const FOLDER: &str = "/page/";

/// Nothing but the gateway's own files runs, and no text becomes markup: Trusted Types admit lit-html's templates alone.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types lit-html";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    // A browser asks each time, and gets 304: after an upgrade no file is from the gateway before.
    (header::CACHE_CONTROL, "no-cache"),
];

struct File {
    name: &'static str,
    text: String,
}

macro_rules! files {
    ($($name:literal)*) => {
        LazyLock::new(|| vec![$(File::new($name, include_str!(concat!("../page/", $name))),)*])
    };
}

static FILES: LazyLock<Vec<File>> = files! {
    "index.html" "page.css" "icon.svg"
    "main.js" "url.js" "api.js" "texts.js" "words.js" "frame.js" "login.js"
    "overview.js" "wrong.js" "topic.js" "horizon.js" "chart.js" "dead.js" "table.js" "rows.js" "message.js" "why.js" "find.js" "group.js"
    "selection.js" "actions.js" "bulk.js" "dialog.js" "operations.js" "log.js"
    "fleet.js" "destinations.js" "lateness.js" "walk.js"
    "vendor/lit-html.js"
};

// === impl File ===

impl File {
    /// A foreign file stays as it was published.
    fn new(name: &'static str, text: &str) -> Self {
        let is_ours = name.ends_with(".js") && !name.starts_with("vendor/");
        Self { name, text: if is_ours { without_comments(text) } else { text.to_owned() } }
    }

    fn kind(&self) -> &'static str {
        match self.name.rsplit_once('.').map(|(_, ending)| ending) {
            Some("html") => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "text/javascript; charset=utf-8",
        }
    }

    fn tag(&self) -> String {
        format!("\"{}\"", hex::encode(&Sha256::digest(&self.text)[..8]))
    }

    fn response(&'static self, headers: &HeaderMap) -> Response {
        let (tag, known) = (self.tag(), headers.get(header::IF_NONE_MATCH));
        let known = known.and_then(|known| known.to_str().ok()).unwrap_or_default();
        let is_known = known.split(',').any(|one| one.trim().trim_start_matches("W/") == tag);
        let mut response =
            Response::new(if is_known { Body::empty() } else { Body::from(self.text.as_str()) });
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let headers = response.headers_mut();
        headers.extend(HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value))));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.kind()));
        headers.insert(header::ETAG, HeaderValue::from_str(&tag).expect("it is hex"));
        response
    }
}

/// Without the lines that are nothing but comments, a seventh of all bytes.
fn without_comments(text: &str) -> String {
    let mut is_inside = false;
    let is_code = |line: &&str| {
        let line = line.trim();
        let is_comment = is_inside || line.starts_with("//") || line.starts_with("/**");
        is_inside = is_comment && (is_inside || line.starts_with("/**")) && !line.ends_with("*/");
        !is_comment
    };
    text.lines().filter(is_code).flat_map(|line| [line, "\n"]).collect()
}

pub(crate) fn router() -> Router<App> {
    let document = async |State(app): State<App>, headers: HeaderMap| served(&app, "index.html", &headers);
    let file = async |State(app): State<App>, Path(name): Path<String>, headers: HeaderMap| {
        served(&app, &name, &headers)
    };
    Router::new().route("/", get(document)).route(&format!("{FOLDER}{{*name}}"), get(file))
}

/// True for a request that any web page may lead a browser to: the answer has no data, and nothing changes.
pub(crate) fn is_asked(method: &Method, path: &str) -> bool {
    [Method::GET, Method::HEAD].contains(method) && (path == "/" || path.starts_with(FOLDER))
}

fn served(app: &App, name: &str, headers: &HeaderMap) -> Response {
    let file = FILES.iter().find(|file| file.name == name);
    let response = file.map_or_else(
        || Problem::new(Kind::NoRoute, format!("no file {name} in the page")).into_response(),
        |file| file.response(headers),
    );
    app.metrics.answered(ROUTE, response.status().as_u16());
    response
}

#[cfg(test)]
mod tests;
