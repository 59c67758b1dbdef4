//! Every call of the public API, dropped at each of its awaits: no message stays leased, consumers stop, and the books balance.

mod calls;
mod polled;
mod puts;
mod settled;
