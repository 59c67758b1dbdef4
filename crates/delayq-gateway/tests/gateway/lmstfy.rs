//! lmstfy's API: its answers, and each difference of `docs/guides/lmstfy.md`.

mod answers;
mod clients;
mod consuming;
mod differences;
mod keys;
mod pools;
pub(crate) mod scene;
