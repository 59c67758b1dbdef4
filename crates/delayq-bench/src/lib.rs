//! The measurements of delayq, each beside a limit taken in the same run: the same script driven by a bare pipelined
//! client with nothing around it. A figure is a ratio, because machines differ.

mod address;
mod bare;
mod bare_loop;
mod bench;
mod clock;
mod figures;
mod fleet;
mod idle;
mod lateness;
mod memory;
mod put;
mod server;
mod storm;
mod suite;
mod take;

pub use address::Address;
pub use bench::{Bench, BenchError};
pub use figures::{Figure, Target, median};
pub use fleet::{Fleet, PumpCalls};
pub use lateness::LatenessNames;
pub use suite::Part;
