//! The gateway: a delay queue over HTTP.
//!
//! ```text
//!  connection ─► server ─► guard ─► routes ─┬─► producer, admin ─► Redis
//!  (limits)     (accept)   (who,    (one a  │
//!                           what)   call)   └─► dispatch ─► one reserve for all that wait
//! ```
//! `page` serves the files of the page for people, which sends the requests of any other client; `sessions` lets it send a
//! cookie instead of a token. `lmstfy` stands in the place of guard and routes for the clients of lmstfy, on ports of its own.
//!
//! A token may be limited to a tenant. Then `state::scope` puts a prefix before the names of topics and groups that come in, and
//! takes the prefix off the names that go out; routes have no other way to the clients of the deployment.
//!
//! [`build`] does all that can fail, and starts nothing; [`Gateway::run`] serves until shutdown, and then answers the requests that
//! were taken. A gateway keeps no state: any gateway answers any request, and settles any receipt.
//!
//! `operations` acts on all messages that match a filter; their state is in Redis, so any gateway continues them.
//!
//! With a spool, `spool` keeps the writes that cannot reach Redis on this host's disk, for the compensator of the host.
//!
//! A gateway may die anywhere. A message that was leased and reached no client returns when the
//! lease ends.

mod actions;
mod admission;
pub mod codes;
mod config;
mod dispatch;
mod engine;
mod files;
mod gateway;
mod guard;
mod input;
mod lmstfy;
mod looks;
mod metrics;
mod oidc;
mod openapi;
mod operations;
mod origin;
mod page;
mod problem;
mod processes;
mod quotas;
mod receipts;
mod rights;
mod routes;
mod server;
mod service;
mod sessions;
mod shown;
mod spool;
mod state;
mod table;
mod tenant;
mod tenants;
mod tls;
mod token;
mod tokens;
mod turns;

pub use config::GatewayConfig;
pub use gateway::{Deps, Gateway, build};
pub use lmstfy::{LmstfyConfig, PoolConfig};
pub use oidc::{GroupConfig, OidcConfig};
pub use openapi::{DOCUMENT, generated};
pub use service::{Config, GatewayService};
pub use spool::{SharedSpool, open_spool};
pub use tokens::token_line;
