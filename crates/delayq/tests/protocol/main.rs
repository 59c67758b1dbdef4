//! The protocol against a real Redis: every script, every promise.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod action;
mod arguments;
mod bare_shard;
mod bindings;
mod claims;
mod clock_back;
mod commands;
mod compare;
mod damage;
mod drained;
mod edges;
mod expiry;
mod finish;
mod forgetting;
mod given_back;
mod headers;
mod history;
mod lab;
mod life;
mod model;
mod model_test;
mod moving;
mod mutants;
mod odd_arguments;
mod odd_items;
mod oldest_first;
mod one_topic;
mod orphans;
mod paging;
mod part_done;
mod poison;
mod policies;
mod power_cut;
mod races;
mod random_run;
mod refusals;
mod repeats;
mod reserving;
mod slots;
mod snapshot;
mod stuck;
mod tables;
mod torn_log;
mod way_out;
