//! Pumping: the Redises that have the shards, as every program that pumps sees them; and the pump next to a worker.

mod locks;
mod nodes;
mod trip;
mod worker;

pub use locks::{LOCK, Locks};
pub use nodes::{Moved, Node, Nodes};
pub use trip::Trip;

pub(crate) use worker::WorkersPump;
