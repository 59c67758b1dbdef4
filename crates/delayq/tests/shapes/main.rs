//! Several Redises: replicas, sentinels, independent nodes, a Redis Cluster, and their failovers.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod durability;
mod failovers;
mod redis_cluster;
mod redis_nodes;
mod redis_nodes_created;
mod redis_nodes_moved;
mod sentinel;
