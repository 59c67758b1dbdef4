//! Every call of the public API, dropped at each await: nothing stays leased, and the books balance.

mod calls;
mod polled;
mod puts;
mod settled;
