//! The configuration: one TOML file for every binary, overridden by the environment, with all faults reported at once.
//!
//! A configuration is a struct of sections, a section a struct of values, or a list or table of sections. The crates of the
//! roles follow the same pattern:
//!
//! ```
//! use delayq_service::config::{Environment, Faults, HumanDuration, RedisConfig, Section, Source, load};
//! use serde::{Deserialize, Serialize};
//!
//! /// `[timer]`: how shards are pumped.
//! #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
//! #[serde(default, deny_unknown_fields)]
//! pub struct TimerConfig {
//!     /// Wake-ups closer than this are merged. 100 µs to 1 s; default 300 µs. Watch `delayq_lateness_seconds`.
//!     pub resolution: HumanDuration,
//! }
//!
//! impl Default for TimerConfig {
//!     fn default() -> Self {
//!         Self { resolution: HumanDuration::from_micros(300) }
//!     }
//! }
//!
//! impl Section for TimerConfig {
//!     fn validate(&self, at: &mut Faults) {
//!         let accepted = HumanDuration::from_micros(100)..=HumanDuration::from_secs(1);
//!         at.range("resolution", &self.resolution, accepted);
//!     }
//! }
//!
//! delayq_service::configuration! {
//!     /// The whole configuration of a binary: the sections it uses.
//!     struct Config {
//!         redis: RedisConfig,
//!         timer: TimerConfig,
//!     }
//! }
//!
//! // Sections of other roles, here [forwarder], are ignored; a misspelled one is refused.
//! let text = "[timer]\nresolution = '1ms'\n[forwarder]\nanything = true\n";
//! let loaded = load::<Config>(&Source::text("delayq.toml", text), &Environment::empty()).unwrap();
//! assert_eq!(*loaded.config.timer.resolution, std::time::Duration::from_millis(1));
//!
//! let text = "[timer]\nresolution = '5s'\n[timmer]\n";
//! let faults = load::<Config>(&Source::text("delayq.toml", text), &Environment::empty()).unwrap_err();
//! assert_eq!(faults.faults().len(), 2);
//! ```
//!
//! serde's `flatten`, `untagged` and `tag` read a value twice and lose its line: use an external tag
//! (`[sinks.orders.kafka]`) or a plain struct instead, and [`section!`](crate::section) for keys that several sections have,
//! such as a [`Login`].

mod address;
mod backoff;
mod document;
mod duration;
mod effective;
mod environment;
mod faults;
mod fields;
mod load;
mod locations;
mod login;
mod pem;
mod redis_url;
mod sample;
mod secret;
mod secrets;
mod section;
mod sections;
mod shared;
mod size;
mod text;

pub use secrecy::{ExposeSecret, SecretString};

pub use address::{HostPort, Listen};
pub use backoff::{backoff, backoff_text};
pub use document::Location;
pub use duration::HumanDuration;
pub use effective::effective;
pub(crate) use environment::LogEnvironment;
pub use environment::{Environment, PREFIX};
pub use faults::{ConfigFault, ConfigFaults, Faults};
pub use load::{Loaded, SECTIONS, Source, load};
pub use locations::Locations;
pub use login::Login;
pub use pem::{PemFiles, TlsOff, read_pem};
pub use redis_url::RedisUrl;
pub use sample::check_sample;
pub use secret::{MASK, Secret};
pub use secrets::secrets;
pub use section::Section;
pub use sections::{
    AdminConfig, DeploymentConfig, LogConfig, LogFormat, RedisConfig, RedisNodeConfig, SentinelConfig,
    ShutdownConfig, SpoolConfig, TracesConfig,
};
pub use shared::{SectionKeys, read_section};
pub use size::ByteSize;
pub use text::{Written, visit_written};
