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
use crate::state::App;
use crate::table::{Method, ROUTES, Route};
use crate::{guard, page};
use answer::typed;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Extension, Router};

pub(crate) fn router(app: &App, looks: Looks, processes: Processes) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        let guarding = app.clone();
        let guard = move |request: Request, next: Next| guard::route(guarding.clone(), route, request, next);
        router = router.route(route.path, endpoint(route).route_layer(from_fn(guard)));
    }
    router
        .merge(page::router())
        .merge(login::router())
        .method_not_allowed_fallback(guard::other_method)
        .fallback(guard::nowhere)
        .layer(Extension(looks))
        .layer(Extension(processes))
        .layer(from_fn_with_state(app.clone(), guard::every))
        .with_state(app.clone())
}

fn endpoint(route: &Route) -> MethodRouter<App> {
    let method = match route.method {
        Method::Get => MethodFilter::GET,
        Method::Put => MethodFilter::PUT,
        Method::Post => MethodFilter::POST,
        Method::Patch => MethodFilter::PATCH,
        Method::Delete => MethodFilter::DELETE,
    };
    match route.name {
        "putMessage" => on(method, put::under_id),
        "postMessage" => on(method, put::posted),
        "putMany" => on(method, lines::put_many),
        "getMessage" => on(method, message::get),
        "getPayload" => on(method, message::payload),
        "getHistory" => on(method, message::history),
        "cancelMessage" => on(method, change::cancel),
        "rescheduleMessage" => on(method, change::reschedule),
        "replayMessage" => on(method, change::replay),
        "buryMessage" => on(method, change::bury),
        "cancelMany" => on(method, bulk::cancel),
        "rescheduleMany" => on(method, bulk::reschedule),
        "replayMany" => on(method, bulk::replay),
        "buryMany" => on(method, bulk::bury),
        "getMany" => on(method, bulk::get),
        "listMessages" => on(method, listing::of_topic),
        "listGroup" => on(method, listing::of_group),
        "cancelGroup" => on(method, groups::cancel),
        "shiftGroup" => on(method, groups::shift),
        "listTopics" => on(method, topics::list),
        "getTopic" => on(method, topics::get),
        "deleteTopic" => on(method, topics::delete),
        "getHistogram" => on(method, topics::histogram),
        "getHorizon" => on(method, horizon::get),
        "pauseTopic" => on(method, topics::pause),
        "resumeTopic" => on(method, topics::resume),
        "setRate" => on(method, topics::set_rate),
        "getPolicy" => on(method, policy::get),
        "setPolicy" => on(method, policy::set),
        "changePolicy" => on(method, policy::change),
        "promoteTopic" => on(method, promote::of_topic),
        "promoteGroup" => on(method, promote::of_group),
        "beginOperation" => on(method, operations::begin),
        "listOperations" => on(method, operations::list),
        "getOperation" => on(method, operations::get),
        "abortOperation" => on(method, operations::abort),
        "reserve" => on(method, reserve::reserve),
        "openStream" => on(method, stream::open),
        "settle" => on(method, settle::settle),
        "settleLease" => on(method, settle::one),
        "getMe" => on(method, session::me),
        "logIn" => on(method, session::log_in),
        "logOut" => on(method, session::log_out),
        "endSessions" => on(method, session::end_all),
        "listLogins" => on(method, login::ways),
        "beginLogin" => on(method, login::begin),
        "getStatus" => on(method, status::status),
        "listShards" => on(method, status::shards),
        "listTimers" => on(method, status::list_timers),
        "listProcesses" => on(method, status::list_processes),
        "listActions" => on(method, actions::list),
        "listTenants" => on(method, tenants::list),
        "setTenant" => on(method, tenants::set),
        "deleteTenant" => on(method, tenants::delete),
        "listTokens" => on(method, tenants::tokens),
        "addToken" => on(method, tenants::add_token),
        "rotateToken" => on(method, tenants::rotate_token),
        "revokeToken" => on(method, tenants::revoke_token),
        "getDocument" => on(method, document),
        name => unreachable!("the table has a route without an endpoint: {name}"),
    }
}

async fn document() -> Response {
    typed(StatusCode::OK, "application/json", DOCUMENT)
}
