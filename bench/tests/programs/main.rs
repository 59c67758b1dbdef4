//! The programs of the documentation and of `make run`.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod pictures;
mod rehearsal;
