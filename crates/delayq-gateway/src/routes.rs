//! The router.

mod actions;
mod answer;
mod bulk;
mod change;
mod groups;
mod horizon;
mod lines;
mod listing;
mod login;
mod message;
mod operations;
mod policy;
mod promote;
mod put;
mod reserve;
mod session;
mod settle;
mod status;
mod stream;
mod tenants;
mod topics;

use crate::looks::Looks;
use crate::openapi::DOCUMENT;
use crate::processes::Processes;
use crate::server::{Answering, Answers};
use crate::state::App;
use crate::table::{Method, ROUTES, Route};
use crate::{guard, page};
use answer::typed;
use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Extension, Router};
use std::sync::Arc;

/// A route without its endpoint.
struct Guarded(&'static Route);

pub(crate) fn answers(app: &App, looks: &Looks, processes: &Processes) -> Answers {
    let mut router = Router::new();
    for route in ROUTES.iter() {
        router = router.route(route.path, endpoint(route, looks, processes));
    }
    let router = router
        .merge(page::router())
        .merge(login::router())
        .method_not_allowed_fallback(guard::other_method)
        .fallback(guard::nowhere)
        .with_state(app.clone());
    let app = app.clone();
    // Around the router and not in layers: a layer is cloned and boxed for each request.
    Arc::new(move |request| Box::pin(guard::every(app.clone(), router.clone(), request)))
}

fn endpoint(route: &'static Route, looks: &Looks, processes: &Processes) -> MethodRouter<App> {
    let guarded = Guarded(route);
    match route.original().name {
        "putMessage" => guarded.by(put::under_id),
        "postMessage" => guarded.by(put::posted),
        "putMany" => guarded.by(lines::put_many),
        "getMessage" => guarded.by(message::get),
        "getPayload" => guarded.by(message::payload),
        "getHistory" => guarded.by(message::history),
        "cancelMessage" => guarded.by(change::cancel),
        "rescheduleMessage" => guarded.by(change::reschedule),
        "replayMessage" => guarded.by(change::replay),
        "buryMessage" => guarded.by(change::bury),
        "cancelMany" => guarded.by(bulk::cancel),
        "rescheduleMany" => guarded.by(bulk::reschedule),
        "replayMany" => guarded.by(bulk::replay),
        "buryMany" => guarded.by(bulk::bury),
        "getMany" => guarded.by(bulk::get),
        "listMessages" => guarded.by(listing::of_topic),
        "listGroup" => guarded.by(listing::of_group),
        "cancelGroup" => guarded.by(groups::cancel),
        "shiftGroup" => guarded.by(groups::shift),
        "listTopics" => guarded.by(topics::list),
        "getTopic" => guarded.by(topics::get),
        "deleteTopic" => guarded.by(topics::delete),
        "getHistogram" => guarded.by(topics::histogram),
        "getHorizon" => guarded.by(horizon::get),
        "pauseTopic" => guarded.by(topics::pause),
        "resumeTopic" => guarded.by(topics::resume),
        "setRate" => guarded.by(topics::set_rate),
        "getPolicy" => guarded.by(policy::get),
        "setPolicy" => guarded.by(policy::set),
        "changePolicy" => guarded.by(policy::change),
        "promoteTopic" => guarded.by(promote::of_topic),
        "promoteGroup" => guarded.by(promote::of_group),
        "beginOperation" => guarded.by(operations::begin),
        "listOperations" => guarded.by(operations::list),
        "getOperation" => guarded.by(operations::get),
        "abortOperation" => guarded.by(operations::abort),
        "reserve" => guarded.by(reserve::reserve),
        "openStream" => guarded.by(stream::open),
        "settle" => guarded.by(settle::settle),
        "settleLease" => guarded.by(settle::one),
        "getMe" => guarded.by(session::me),
        "logIn" => guarded.by(session::log_in),
        "logOut" => guarded.by(session::log_out),
        "endSessions" => guarded.by(session::end_all),
        "listLogins" => guarded.by(login::ways),
        "beginLogin" => guarded.by(login::begin),
        "getStatus" => guarded.by(status::status).layer(Extension(looks.clone())),
        "listShards" => guarded.by(status::shards).layer(Extension(looks.clone())),
        "listTimers" => guarded.by(status::list_timers).layer(Extension(looks.clone())),
        "listProcesses" => guarded.by(status::list_processes).layer(Extension(processes.clone())),
        "listActions" => guarded.by(actions::list),
        "listTenants" => guarded.by(tenants::list),
        "setTenant" => guarded.by(tenants::set),
        "deleteTenant" => guarded.by(tenants::delete),
        "listTokens" => guarded.by(tenants::tokens),
        "addToken" => guarded.by(tenants::add_token),
        "rotateToken" => guarded.by(tenants::rotate_token),
        "revokeToken" => guarded.by(tenants::revoke_token),
        "getDocument" => guarded.by(document),
        name => unreachable!("the table has a route without an endpoint: {name}"),
    }
}

async fn document() -> Response {
    typed(StatusCode::OK, "application/json", DOCUMENT)
}

// === impl Guarded ===

impl Guarded {
    fn by<H, T: 'static>(self, endpoint: H) -> MethodRouter<App>
    where
        H: Handler<T, App, Future = Answering> + Sync,
    {
        let route = self.0;
        on(self.method(), move |State(app): State<App>, request: Request| {
            let state = app.clone();
            let answered = Box::new(move |request| endpoint.call(request, state));
            guard::route(app, route, request, answered)
        })
    }

    const fn method(&self) -> MethodFilter {
        match self.0.method {
            Method::Get => MethodFilter::GET,
            Method::Put => MethodFilter::PUT,
            Method::Post => MethodFilter::POST,
            Method::Patch => MethodFilter::PATCH,
            Method::Delete => MethodFilter::DELETE,
        }
    }
}
