//! The measurements of delayq, each beside a limit taken in the same run: the same script driven by a bare pipelined
//! client with nothing around it. A figure is a ratio, because machines differ.

mod bare;
mod bench;
mod clock;
mod figures;
mod lateness;
mod memory;
mod put;
mod storm;
mod suite;
mod take;

pub use bench::{Bench, BenchError};
pub use figures::{Figure, Target, median};
pub use lateness::LatenessNames;
pub use suite::Part;
