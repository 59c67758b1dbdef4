//! The command line against a real Redis: refusals, output, stored messages; and `delayq up`.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod access;
mod acl;
mod agreement;
mod asking;
mod audit;
mod backup;
mod bundle;
mod causes;
mod check;
mod clock;
mod cluster;
mod completion;
mod config;
mod dead;
mod deletion;
mod destinations;
mod down;
mod drain;
mod flow;
mod generated;
mod groups;
mod growth;
mod hints;
mod hostile;
mod moving;
mod ndjson;
mod nodes;
mod older;
mod outages;
#[cfg(feature = "postgres")]
mod outbox;
mod paging;
mod partial;
mod pipes;
mod policy;
mod printed;
mod private;
mod pumping;
mod reference;
mod refused;
mod sentinel;
mod shape;
mod sources;
mod spool;
mod terminal;
mod times;
mod top;
mod typed;
mod up;

use delayq_tests::binary::{Binary, Finished};
use delayq_tests::deadline::SHORT;
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use std::borrow::Borrow;

fn delayq(redis: &SharedRedis) -> Binary {
    Binary::new("delayq")
        .args(["--redis", &redis.url(), "--shards", "4"])
        .env("DELAYQ__ETCD__ENABLED", "false")
}

async fn run(redis: &SharedRedis, args: &[&str]) -> Finished {
    delayq(redis).args(args).run(b"", SHORT).await
}

async fn done(redis: &SharedRedis, args: &[&str]) -> String {
    let finished = run(redis, args).await;
    assert_eq!(finished.code, Some(0), "{args:?}: {finished:?}");
    finished.stdout
}

async fn deployment() -> SharedRedis {
    deployed(RedisServer::start().await).await
}

async fn deployed<R: Borrow<SharedRedis>>(redis: R) -> R {
    done(redis.borrow(), &["init"]).await;
    redis
}

async fn keys(redis: &SharedRedis) -> u64 {
    redis.command(&["DBSIZE"]).await
}
