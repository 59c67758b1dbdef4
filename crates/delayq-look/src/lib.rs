//! One look at a deployment, and one judge. The command and the gateway show and judge by the same code, so they cannot differ.
//!
//! ```text
//!  Deployment ─► Look::take ─► Look ─┬─► judge ─► Checks: verdict, finding, advice
//!  (Redis, etcd)    (never fails,    └─► Shard::json, owners, timers
//!      │             its parts do)
//!      └─► exporters: what each process exports
//! ```

mod deployment;
mod endpoints;
mod exposition;
mod judge;
mod look;
mod owner;
mod phrase;
mod processes;

pub use delayq_cluster::EtcdConfig;
pub use deployment::{Deployment, observer, of_cluster};
pub use endpoints::{Endpoint, endpoints};
pub use exposition::{Exposition, Series};
pub use judge::{Cause, Check, EXTRAS, Judgement, Limits, Pair, causes, judge, pair, without_timer, worst};
pub use look::{Look, Servers, Shard, Shards, Topics, Want, Which, total};
pub use owner::{Owner, owners, timers};
pub use phrase::{counted, drained, duration};
pub use processes::{Circuit, ProcessSeen, RouteEnd, SourceSeen, exporters};
