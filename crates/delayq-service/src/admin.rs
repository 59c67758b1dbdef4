//! The admin endpoint: `/metrics`, `/livez`, `/readyz`, `/version`, over connections that cannot be held open.

mod connection;
mod places;
mod routes;
mod server;

pub use routes::{AdminState, router};
pub use server::{Admin, AdminServer};
