//! The checks before every route: request id, host, token and framing; and the text of refusals.

use crate::actions::Acting;
use crate::admission::{Admission, Proof};
use crate::input::{GivenNames, Query, Whole};
use crate::problem::{Kind, Problem};
use crate::rights::Right;
use crate::server::{Answering, Seat};
use crate::sessions::Caller;
use crate::state::{App, Scope};
use crate::table::{self, DEADLINE, Route, RouteAnswers, Takes};
use crate::tenant::Tenant;
use crate::turns::TenantTurn;
use crate::{origin, page};
use axum::body::{Body, HttpBody as _};
use axum::extract::{RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use axum::{RequestExt as _, Router};
use delayq::Fate;
use delayq_service::config::HumanDuration;
use sha2::{Digest as _, Sha256};
use std::time::Duration;
use tower::ServiceExt as _;

/// The header with the id of a request, and of its answer.
const REQUEST_ID: &str = "x-request-id";
const MAX_REQUEST_ID: usize = 128;

/// Of a request that names no deadline, and of any.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(10);
const MAX_DEADLINE: Duration = Duration::from_secs(60);

/// Maximum bytes of a body that a route does not read.
const MAX_UNREAD: usize = 1024;

/// Headers that ask for something: one that a route does not know is refused, because ignoring it would change the meaning.
const ASKING: [&str; 6] =
    ["idempotency-key", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "range"];

/// Answers one request of a route.
pub(crate) type Answerer = Box<dyn FnOnce(Request) -> Answering + Send>;

/// A request that has passed the checks of its route.
struct Admitted {
    request: Request,
    /// `None`: no tenant limits the caller.
    turn: Option<TenantTurn>,
    /// `None`: the route has none.
    deadline: Option<Duration>,
}

/// Gives the request an id, refuses what no route may see, and writes refusals.
pub(crate) async fn every(app: App, router: Router, request: Request) -> Response {
    let id = request_id(request.headers());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let closes = request.headers().contains_key(header::TRANSFER_ENCODING);
    let mut response = match admitted(&app, &request) {
        Ok(()) => router.oneshot(request).await.unwrap_or_else(|never| match never {}),
        Err(problem) => problem.into_response(),
    };
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        // The router's: the methods of the path, in the refusal of another one.
        let allowed = response.headers_mut().remove(header::ALLOW);
        response = problem.render(&id);
        response.headers_mut().extend(allowed.map(|allowed| (header::ALLOW, allowed)));
    }
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, HeaderValue::from_str(&id).expect("it is printable"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if closes {
        // A proxy that reads the length otherwise must not find a second request in the same bytes.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    tracing::debug!(%method, path, status = response.status().as_u16(), id, "answered");
    response
}

/// The checks of a route, and then its endpoint.
pub(crate) async fn route(app: App, route: &'static Route, request: Request, answerer: Answerer) -> Response {
    let mut acting = None;
    // Boxed: a request that waits for messages needs no room for the checks.
    let response = match Box::pin(admit(&app, route, request, &mut acting)).await {
        Ok(Admitted { request, turn, deadline }) => {
            let response = within(deadline, route, answerer(request)).await;
            if let Some(turn) = turn.filter(|_| response.status().is_client_error()) {
                turn.refused();
            }
            response
        }
        Err(problem) => problem.into_response(),
    };
    if let Some(acting) = acting {
        let code = response.extensions().get::<Problem>().map(|problem| problem.kind().code());
        app.actions.record(acting, &response, code);
    }
    app.metrics.answered(route.name, response.status().as_u16());
    response
}

/// `acting` is noted as soon as the caller is known, to record refusals, too.
async fn admit(
    app: &App,
    route: &Route,
    mut request: Request,
    acting: &mut Option<Acting>,
) -> Result<Admitted, Problem> {
    let caller = authorised(app, route, request.headers()).await?;
    if route.acts() || route.needs == Some(Right::Consume) {
        let query = request.uri().query().map(str::to_owned);
        let names = request.extract_parts::<RawPathParams>().await;
        let names =
            names.map(|names| names.iter().map(|(name, of)| (name.to_owned(), of.to_owned())).collect());
        let operation = (route.original().name, route.acts());
        *acting = Some(Acting::new(&caller, operation, names.unwrap_or_default(), query.as_deref()));
    }
    if let (RouteAnswers::Frames(..), Some(right)) = (route.answers, route.needs) {
        let proof = proof(app, request.headers());
        let of = (&app.tokens, &app.sessions);
        request.extensions_mut().insert(Admission::new(of, &caller, proof, (route.name, right)));
    }
    let turn = match &caller.tenant {
        Some(tenant) => Some(turn(app, tenant, &mut request).await?),
        None => None,
    };
    request.extensions_mut().insert(caller);
    match asked(app, route, request).await {
        Ok((request, deadline)) => {
            if let (Some(acting), Some(given)) = (acting, request.extensions().get::<GivenNames>()) {
                acting.named(given.names.clone(), given.query.to_string());
            }
            Ok(Admitted { request, turn, deadline })
        }
        Err(problem) => {
            turn.iter().for_each(TenantTurn::refused);
            Err(problem)
        }
    }
}

/// Waits for the tenant's turn, which the request has from then on.
async fn turn(app: &App, tenant: &Tenant, request: &mut Request) -> Result<TenantTurn, Problem> {
    if let Some(seat) = request.extensions().get::<Seat>() {
        seat.take(app.quotas(), tenant)?;
    }
    app.tokens.tenants().must_be_read().await?;
    let turn = TenantTurn::of_request(app.quotas(), tenant).await?;
    request.extensions_mut().insert(turn.clone());
    Ok(turn)
}

/// Reads what the route knows of the request. Returns its deadline, too; `None`: the route has none.
async fn asked(
    app: &App,
    route: &Route,
    mut request: Request,
) -> Result<(Request, Option<Duration>), Problem> {
    known(route, request.headers())?;
    let query = Query::of(request.uri().query(), route.query)?;
    request.extensions_mut().insert(query);
    match route.takes {
        Takes::Nothing => request = without_body(app, request).await?,
        Takes::Names(original) => request = with_names(app, original, request).await?,
        _ => {}
    }
    let deadline = deadline(route, request.headers())?;
    Ok((request, deadline))
}

async fn within(deadline: Option<Duration>, route: &Route, answering: Answering) -> Response {
    let Some(deadline) = deadline else { return answering.await };
    let fate = if route.original().method == table::Method::Get { Fate::NotApplied } else { Fate::Unknown };
    tokio::time::timeout(deadline, answering).await.unwrap_or_else(|_| {
        Problem::new(Kind::Deadline, format!("no reply within {deadline:?}")).fate(fate).into_response()
    })
}

pub(crate) async fn nowhere(State(app): State<App>, request: Request) -> Problem {
    app.metrics.answered("none", Kind::NoRoute.status().as_u16());
    Problem::new(Kind::NoRoute, format!("{}; see /v1/openapi.json", request.uri().path()))
}

pub(crate) async fn other_method(State(app): State<App>, request: Request) -> Problem {
    app.metrics.answered("none", Kind::NoMethod.status().as_u16());
    Problem::new(Kind::NoMethod, format!("{} {}", request.method(), request.uri().path()))
}

/// Refuses a request without a host, or with two lengths.
pub(crate) fn framed(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.get_all(header::HOST).iter().count() != 1 {
        return Err(Problem::new(Kind::Malformed, "exactly one Host header is required").at("host"));
    }
    if headers.contains_key(header::TRANSFER_ENCODING) && headers.contains_key(header::CONTENT_LENGTH) {
        let why = "Content-Length and Transfer-Encoding contradict each other";
        return Err(Problem::new(Kind::Malformed, why).at("content-length"));
    }
    Ok(())
}

fn admitted(app: &App, request: &Request) -> Result<(), Problem> {
    let headers = request.headers();
    framed(headers)?;
    if app.is_stopping() {
        return Err(Problem::new(Kind::Draining, "send it to another gateway").fate(Fate::NotApplied));
    }
    match app.tokens.are_needed() {
        true => Ok(()),
        false if page::is_asked(request.method(), request.uri().path()) => {
            origin::check_host(headers, app.is_local)
        }
        false => origin::check(headers, app.is_local),
    }
}

/// The sender of the request: the holder of a token, a browser with a session, or anybody where no token is needed.
async fn authorised(app: &App, route: &Route, headers: &HeaderMap) -> Result<Caller, Problem> {
    if !app.tokens.are_needed() || route.is_public {
        return Ok(Caller::anybody());
    }
    let caller = match bearer(headers) {
        Some(token) => app.tokens.known(token).await?.map(|(_, token)| Caller::of(token)),
        None => app.sessions.caller(headers).await?,
    };
    let Some(caller) = caller else {
        return Err(Problem::new(Kind::NoToken, "send Authorization: Bearer TOKEN"));
    };
    tracing::debug!(token = caller.name, route = route.name, "authorised");
    if let Some(right) = route.needs {
        caller.must(right, route.name)?;
    }
    if route.is_whole && caller.tenant.is_some() {
        let why = format!("{} is about the whole deployment; the caller is limited to a tenant", route.name);
        return Err(Problem::new(Kind::OfTenant, why).fate(Fate::NotApplied));
    }
    Ok(caller)
}

/// The proof that [`authorised`] has checked.
fn proof(app: &App, headers: &HeaderMap) -> Proof {
    match bearer(headers) {
        _ if !app.tokens.are_needed() => Proof::None,
        Some(token) => Proof::Token(Sha256::digest(token).into()),
        None => Proof::Session(headers.clone()),
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn known(route: &Route, headers: &HeaderMap) -> Result<(), Problem> {
    for name in headers.keys().map(axum::http::HeaderName::as_str) {
        let asks = ASKING.contains(&name) || delayq_service::headers::own(name).is_some();
        if asks && !route.takes_header(name) {
            return Err(Problem::unknown("header", name, &route.headers()));
        }
    }
    Ok(())
}

/// Refuses a body that the route does not read: the sender expects an effect of the body. An empty object says nothing.
async fn without_body(app: &App, request: Request) -> Result<Request, Problem> {
    if request.body().is_end_stream() {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    let scope = Scope::of(app, &parts.extensions);
    let whole = Whole::read(body, &parts.headers, &scope, MAX_UNREAD).await?;
    if !matches!(whole.bytes.trim_ascii(), b"" | b"{}") {
        let why = "this route accepts no body; its parameters belong in the path and the query";
        return Err(Problem::new(Kind::Unknown, why).fate(Fate::NotApplied));
    }
    Ok(Request::from_parts(parts, Body::empty()))
}

/// Moves the names and the parameters of the route out of the body.
async fn with_names(app: &App, original: &Route, request: Request) -> Result<Request, Problem> {
    let (mut parts, body) = request.into_parts();
    let scope = Scope::of(app, &parts.extensions);
    let (given, rest) = GivenNames::read(original, body, &parts.headers, &scope).await?;
    parts.extensions.insert(given);
    Ok(Request::from_parts(parts, rest))
}

/// `None`: the route has no deadline.
fn deadline(route: &Route, headers: &HeaderMap) -> Result<Option<Duration>, Problem> {
    if !route.has_deadline {
        return Ok(None);
    }
    let Some(value) = headers.get(DEADLINE) else { return Ok(Some(DEFAULT_DEADLINE)) };
    let asked = value.to_str().map_err(|error| error.to_string());
    let asked = asked.and_then(str::parse::<HumanDuration>);
    let asked = asked.map_err(|why| Problem::invalid(DEADLINE, why))?;
    match *asked {
        deadline if deadline.is_zero() || deadline > MAX_DEADLINE => {
            Err(Problem::invalid(DEADLINE, "must be a duration up to 60s"))
        }
        deadline => Ok(Some(deadline)),
    }
}

/// The client's id of the request, if it can be repeated in a log, or a new one.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok());
    let given = given.filter(|id| !id.is_empty() && id.len() <= MAX_REQUEST_ID);
    let given = given.filter(|id| id.bytes().all(|byte| byte.is_ascii_graphic()));
    given.map_or_else(|| format!("{:016x}", fastrand::u64(..)), str::to_owned)
}
