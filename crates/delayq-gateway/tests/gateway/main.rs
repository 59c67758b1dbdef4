//! The program `delayq-gateway` against real servers, from the view of its clients.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod changes;
mod document;
mod events;
mod guide;
mod hostile;
mod killed;
mod lines;
mod lmstfy;
mod looks;
mod mutated;
mod named;
mod openapi;
mod operations;
mod page;
mod people;
mod process;
mod puts;
mod reserves;
mod rights;
mod several;
mod shown;
mod spooling;
mod stage;
mod status;
mod streams;
mod tenants;
mod tls;
mod topics;
mod typed;
mod walks;
