//! lmstfy's API, unchanged, for the clients of lmstfy: a job is a message, and the queue `QUEUE` of the namespace `NAMESPACE` the topic
//! `NAMESPACE/QUEUE`.
//!
//! ```text
//!  connection ─► server ─┬─► api    names, pool, token, limit ─► one action ─┬─► producer, admin of the pool ─► Redis
//!                        └─► admin  account ─► tokens, limits, looks         └─► dispatch
//! ```
//! All jobs of a queue are in the shard that its name gives, so a queue is first in, first out, and queues that are consumed together
//! are asked in their order. `docs/guides/lmstfy.md` lists each difference.

mod admin;
mod api;
mod ask;
mod call;
mod config;
mod consume;
mod counters;
mod dead;
mod end;
mod exposition;
mod ids;
mod job;
mod keys;
mod look;
mod names;
mod parameters;
mod publish;
mod reply;
mod state;

pub use config::{LmstfyConfig, PoolConfig};

use crate::codes::ACCOUNTS;
use crate::engine::{Common, Engine};
use crate::origin;
use crate::server::{Answers, Server};
use crate::spool::SharedSpool;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use config::DEFAULT_POOL;
use counters::Counters;
use delayq::protocol::MAX_PAYLOAD_BYTES;
use delayq::{Admin, Client};
use delayq_service::{Fault, Tasks, host_now};
use keys::PoolTokens;
use secrecy::ExposeSecret as _;
use sha2::{Digest as _, Sha256};
use state::{Accounts, LmstfyParts};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const REQUEST_ID: &str = "x-request-id";

/// Bound, and not running yet.
pub(crate) struct Lmstfy {
    pub(crate) addresses: [SocketAddr; 2],
    servers: [Server; 2],
    engines: Vec<Engine>,
}

pub(crate) async fn build(
    config: &LmstfyConfig,
    common: &Common,
    (client, spool): (Client, Option<Arc<SharedSpool>>),
    pools: Vec<(String, Client)>,
) -> Result<Lmstfy, Fault> {
    let keys = PoolTokens::new(Admin::new(client.clone()));
    // The compensator of the spool knows this deployment only.
    let pools = pools.into_iter().map(|(name, client)| (name, client, None));
    let all = std::iter::once((DEFAULT_POOL.to_owned(), client, spool)).chain(pools);
    let engine = |(name, client, spool): (String, Client, _)| {
        // lmstfy takes jobs of a megabyte everywhere.
        (name, common.engine(client.with_max_payload(MAX_PAYLOAD_BYTES), spool))
    };
    let engines: Vec<(String, Engine)> = all.map(engine).collect();
    let state = state::Lmstfy::new(LmstfyParts {
        pools: engines.iter().map(|(name, engine)| (name.clone(), engine.app.clone())).collect(),
        keys,
        checks_tokens: config.check_tokens,
        accounts: accounts(config)?,
        counters: Counters::default(),
        logs_access: AtomicBool::new(false),
        is_local: config.is_local(),
        admin_is_local: config.admin_is_local(),
    });
    let (address, server) = common.server(&config.listen, None, answers(&state, Port::Api)).await?;
    let (admin_address, admin) =
        common.server(&config.admin_listen, None, answers(&state, Port::Admin)).await?;
    let engines = engines.into_iter().map(|(_, engine)| engine).collect();
    Ok(Lmstfy { addresses: [address, admin_address], servers: [server, admin], engines })
}

fn accounts(config: &LmstfyConfig) -> Result<Accounts, Fault> {
    let read = |(user, password): (&String, &delayq_service::config::Secret)| {
        let password = password.reveal().map_err(|why| Fault::new(&ACCOUNTS, format!("{user}: {why}")))?;
        Ok((user.clone(), Sha256::digest(password.expose_secret()).into()))
    };
    config.accounts.iter().map(read).collect::<Result<_, _>>().map(Accounts)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    Api,
    Admin,
}

fn answers(state: &state::Lmstfy, port: Port) -> Answers {
    let state = state.clone();
    Arc::new(move |request| Box::pin(every(state.clone(), port, request)))
}

/// Framing, browsers, the request's id.
async fn every(state: state::Lmstfy, port: Port, request: Request) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let closes = request.headers().contains_key(header::TRANSFER_ENCODING);
    let mut response = match admitted(&state, port, request.headers()) {
        Ok(()) => match port {
            Port::Api => api::answer(&state, request).await,
            Port::Admin => admin::answer(&state, request).await,
        },
        Err(problem) => *reply::error(problem.kind().status().as_u16(), problem.detail()),
    };
    let status = response.status().as_u16();
    let headers = response.headers_mut();
    if status != 301 && status != 307 {
        let id = ids::fresh_text(host_now().get());
        headers.insert(REQUEST_ID, HeaderValue::from_str(&id).expect("the text is letters and digits"));
    }
    if closes {
        // A proxy that reads the length otherwise must not find a second request in the same bytes.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if state.logs_access.load(Ordering::Relaxed) {
        tracing::info!(%method, path, status, "lmstfy access");
    }
    response
}

/// Without tokens or accounts, a page could use the ports of its reader's machine.
fn admitted(state: &state::Lmstfy, port: Port, headers: &HeaderMap) -> Result<(), crate::problem::Problem> {
    crate::guard::framed(headers)?;
    match port {
        Port::Api if !state.checks_tokens => origin::check(headers, state.is_local),
        Port::Admin if state.accounts.0.is_empty() => origin::check(headers, state.admin_is_local),
        Port::Api | Port::Admin => Ok(()),
    }
}

// === impl Lmstfy ===

impl Lmstfy {
    pub(crate) fn run(self, tasks: &Tasks) {
        let Self { addresses: [address, admin], servers, engines } = self;
        tracing::info!(%address, %admin, "lmstfy listening");
        engines.into_iter().for_each(|engine| engine.run(tasks));
        let shutdown = tasks.shutdown().clone();
        tasks.spawn("lmstfy", async move {
            let [api, admin] = servers;
            tokio::join!(api.run(shutdown.clone()), admin.run(shutdown.clone()));
            Ok(())
        });
    }
}

impl state::Lmstfy {
    fn answered(&self, api: &str, response: Response) -> Response {
        self.counters.answered(api, response.status().as_u16());
        response
    }
}
