//! The sink `webhook`: POST to HTTP endpoints.

#[cfg(feature = "webhook")]
mod check;
mod config;
#[cfg(feature = "webhook")]
mod deliver;
#[cfg(feature = "webhook")]
mod encode;
#[cfg(feature = "webhook")]
mod retry_after;
#[cfg(feature = "webhook")]
mod url;

pub use config::WebhookConfig;
#[cfg(feature = "webhook")]
pub(crate) use deliver::WebhookSink;
