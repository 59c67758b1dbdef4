//! Every sink against its real server, and the pipeline around them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod conformance;
mod pipeline;
mod redis_list;
mod redis_stream;
mod stage;
