//! Every call of the public API, dropped at each of its awaits: no message stays leased, consumers stop, and the books balance.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod calls;
mod polled;
mod puts;
mod settled;
