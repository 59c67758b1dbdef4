//! Deliberately broken scripts: the model test must tell each from the real ones.

use crate::{bare_shard::scripts_with, random_run::run_seeds};
use delayq_tests::redis_server::RedisServer;

/// Enough that every mutant is found by far fewer; the real scripts stand many more.
const SEEDS: u64 = 400;

/// What is broken, in which file, which text, and what is in its place.
const MUTANTS: [(&str, &str, &str, &str); 22] = [
    ("ack ignores the receipt", "ack", "if held_until[at] and not word", "if not word"),
    ("ack keeps the lease", "ack", "redis.call('ZREM', base .. 'leases', unpack(settled))", "do end"),
    (
        "pump drops the last of a batch",
        "pump",
        "entries[i] = members[i] .. stamp end",
        "entries[i] = members[i] .. stamp end\n    if #entries > 1 then entries[#entries] = nil end",
    ),
    ("pump is a millisecond early", "pump", "bucket_due(bucket, now, n)", "bucket_due(bucket, now + 1, n)"),
    (
        "pump pushes twice",
        "pump",
        "    bucket_drop(bucket, #members)",
        "    make_ready(no, entries)\n    bucket_drop(bucket, #members)",
    ),
    (
        "pump forgets to set the alarm again",
        "pump",
        "rearm(bucket, bucket_head(bucket))",
        "rearm(bucket, nil)",
    ),
    ("pump serves an owner of old", "pump", "if tonumber(epoch) < known then", "if false then"),
    (
        "reschedule leaves the group index",
        "lib/place",
        "redis.call('ZADD', base .. 'g:' .. group, due",
        "redis.call('ZADD', base .. 'g:' .. group, 'NX', due",
    ),
    ("reschedule leaves the old bucket", "lib/reschedule", "  unplace(m)\n", ""),
    (
        "reschedule ignores the expected time",
        "reschedule",
        "if expected and old ~= expected and old ~= due",
        "if false",
    ),
    ("cancel leaves the body", "lib/finish", "redis.call('UNLINK', key)", "do end"),
    ("cancel leaves the bucket", "lib/cancel", "    unplace(m)\n", "    count('ready', m.no, 0)\n"),
    (
        "cancel delivers what is leased again",
        "lib/cancel",
        "m.flags = bit.bor(m.flags, DOOMED)",
        "m.flags = m.flags",
    ),
    ("reserve forgets the alarm", "reserve", "alarm('leases', until_ms)", "do end"),
    ("reserve does not count the attempt", "reserve", "\\0\\0\\0\\1\\0\\1", "\\0\\0\\0\\1\\0\\0"),
    ("reserve gives what has expired", "reserve", "if expires <= now then return 'expired' end", ""),
    ("release keeps the lease", "lib/receipt", "redis.call('ZREM', base .. 'leases', receipt)", "do end"),
    ("put forgets the counter", "put", "count('accepted', no, accepted)", "do end"),
    (
        "put forgets the expiry",
        "put",
        "if expires then\n    redis.call('ZADD'",
        "if false then\n    redis.call('ZADD'",
    ),
    ("put takes the same id twice", "put", "if answer then return answer end", ""),
    (
        "finish leaves no marker",
        "lib/finish",
        "redis.call('ZADD', base .. 'markers', now + remember, name)",
        "do end",
    ),
    ("a nearer due time wakes nobody", "lib/alarm", "if sooner then", "if false then"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_broken_script_turns_the_model_test_red() {
    let server = RedisServer::start().await;
    let mut unseen = Vec::new();
    for (what, file, from, to) in MUTANTS {
        let scripts = scripts_with(&[(file, from, to)]);
        if run_seeds(&server, &scripts, 0, SEEDS).await.is_ok() {
            unseen.push(what);
        }
    }
    assert!(unseen.is_empty(), "not noticed: {unseen:?}");
}
