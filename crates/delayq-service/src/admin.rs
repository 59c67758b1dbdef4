//! The admin endpoint: `/metrics`, `/livez`, `/readyz`, `/version`, over connections that no client can hold open.

mod routes;
mod server;
mod slots;

pub use routes::{AdminState, router};
pub use server::{Admin, Limits};
