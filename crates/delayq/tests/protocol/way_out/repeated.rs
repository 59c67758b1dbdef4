//! A key of another type is a cut: wherever a call ends, and whichever key is planted, a repeat ends every message as if
//! the call had been made once.

use super::{Case, Lab, cases, failing_scripts, go_on, prepare, stuck};
use crate::bare_shard::BareShard;
use crate::snapshot::{Name, Snapshot};
use delayq::protocol::Verb;
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use futures_util::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Concurrent walks over the cases.
const WORKERS: usize = 4;

/// The fault in the first call.
#[derive(Clone, Copy)]
enum Hindrance<'a> {
    Nothing,
    /// The call ends in front of its n-th write.
    Cut(usize),
    /// A set stands in the place of this key.
    Planted(&'a str),
}

/// The state in which each message ended.
type Ends = BTreeMap<Name, u8>;

fn ends(shard: &Snapshot) -> Ends {
    shard.bodies.iter().map(|(name, body)| (name.clone(), body[1])).collect()
}

/// The keys that a call finds or makes. A body of another type reads as missing: that is a lost message, which an audit
/// finds (`stuck`).
async fn keys(lab: &mut Lab, case: &Case) -> BTreeSet<String> {
    let action = prepare(lab, case).await;
    let mut keys: BTreeSet<_> = lab.shard.snapshot().await.keys.iter().cloned().collect();
    let _ = lab.run(&action).await;
    keys.extend(lab.shard.snapshot().await.keys.iter().cloned());
    keys.retain(|key| !key.starts_with("m:"));
    keys
}

/// Makes the call, and again without the hindrance until a call in steps has ended. Returns true if the hindrance was
/// met, and the shard after normal operation.
async fn meet(lab: &mut Lab, case: &Case, hindrance: Hindrance<'_>) -> (bool, Arc<Snapshot>) {
    let action = prepare(lab, case).await;
    let mut is_met = true;
    match hindrance {
        Hindrance::Nothing => _ = lab.run(&action).await,
        Hindrance::Cut(write) => is_met = lab.run_cut(&action, &format!("{write}+")).await,
        Hindrance::Planted(key) => {
            lab.shard.break_key(key).await;
            let _ = lab.run(&action).await;
            lab.shard.mend_key(key).await;
        }
    }
    for _ in 0..4 {
        // What a key blocked comes back after ten seconds.
        lab.shard.clock_us = lab.shard.clock_us.map(|us| us + 11_000_000);
        let _ = lab.run(&action).await;
    }
    (is_met, go_on(lab, case).await)
}

/// Faults that an audit finds after a repair, messages that are stuck, and wrong counters.
async fn left(lab: &mut Lab) -> Vec<String> {
    lab.repair().await;
    let shard = lab.shard.snapshot().await;
    let mut faults = lab.stuck_messages(&shard).await;
    faults.extend(lab.stuck_entries(&shard).await);
    let mut left: Vec<_> = faults.iter().map(|fault| format!("{fault:?}")).collect();
    left.extend(stuck(&shard));
    let counted = lab.shard.call(Verb::Recount, &["a", "look", "", "0", "0"]).await.unwrap();
    if !counted[4..].chunks(2).all(|pair| pair[0] == pair[1]) {
        left.push(format!("{counted:?}"));
    }
    left
}

/// True if the hindrance was met, and the faults: messages that are stuck or ended otherwise than `wanted`, and what a
/// repair leaves.
async fn faults(lab: &mut Lab, case: &Case, hindrance: Hindrance<'_>, wanted: &Ends) -> (bool, Vec<String>) {
    let (is_met, after) = meet(lab, case, hindrance).await;
    let mut faults = stuck(&after);
    if ends(&after) != *wanted {
        faults.push(format!("{:?}, not {wanted:?}", ends(&after)));
    }
    faults.extend(left(lab).await);
    (is_met, faults)
}

async fn lab(server: &SharedRedis, namespace: &str, extra: &[(&str, &str, &str)]) -> Lab {
    let shard = BareShard::uncreated(server, namespace, failing_scripts(extra)).await;
    Lab { shard, receipts: Vec::new() }
}

async fn of_every_key(lab: &mut Lab, case: &Case) -> Vec<String> {
    let wanted = ends(&meet(lab, case, Hindrance::Nothing).await.1);
    let mut found = Vec::new();
    for key in keys(lab, case).await {
        let (_, faults) = faults(lab, case, Hindrance::Planted(&key), &wanted).await;
        found.extend(faults.iter().map(|fault| format!("{}, {key}: {fault}", case.name)));
    }
    found
}

async fn of_every_cut(lab: &mut Lab, case: &Case) -> Vec<String> {
    let wanted = ends(&meet(lab, case, Hindrance::Nothing).await.1);
    let mut found = Vec::new();
    for write in 1.. {
        let (is_cut, faults) = faults(lab, case, Hindrance::Cut(write), &wanted).await;
        found.extend(faults.iter().map(|fault| format!("{}, write {write}: {fault}", case.name)));
        if !is_cut {
            break;
        }
    }
    found
}

/// Checks the cases in several shards at a time.
async fn check(of_case: impl AsyncFn(&mut Lab, &Case) -> Vec<String>) {
    let server = RedisServer::start().await;
    let of_worker = async |worker: usize| {
        let (mut lab, mut found) = (lab(&server, &format!("k{worker}"), &[]).await, Vec::new());
        for case in cases().iter().skip(worker).step_by(WORKERS) {
            found.extend(of_case(&mut lab, case).await);
        }
        found
    };
    let found = join_all((0..WORKERS).map(of_worker)).await.concat();
    assert!(found.is_empty(), "{found:#?}");
}

#[tokio::test]
async fn whichever_key_is_of_another_type_a_repeat_without_it_ends_every_message_as_one_call_would() {
    check(of_every_key).await;
}

#[tokio::test]
async fn wherever_a_call_is_cut_a_repeat_ends_every_message_as_one_call_would() {
    check(of_every_cut).await;
}

/// Writes in a wrong order: file, text, replacement, and the case that betrays them.
const MUTANTS: [(&str, &str, &str, &str); 6] = [
    ("lib/receipt", "return is_held(m, receipt) and m or nil", "return m", "release of what is cancelled"),
    (
        "lib/reserve/lease",
        "call('ZADD', base .. 'leases', unpack(leases))\n",
        "for i = 1, taken do call('SETRANGE', keys[i], '0', heads[i]) end\ncall('ZADD', base .. 'leases', unpack(leases))\n",
        "reserve of many",
    ),
    (
        "lib/finish",
        "  if remember > 0 then end_marker(m, remember) end\n",
        "  if remember > 0 then redis.call('SETRANGE', key, '1', '\\6') end_marker(m, remember) end\n",
        "cancel delayed",
    ),
    (
        "lib/put/follow",
        "then return nil, m, is_same_id and m or nil end",
        "then end_acked(m) return nil end",
        "ack that puts",
    ),
    ("lib/ready", "return false, length end", "end", "pump what is due"),
    (
        "put",
        "--# include put/indexes\n",
        "call('MSET', unpack(bodies))\n--# include put/indexes\n",
        "put plain",
    ),
];

#[tokio::test]
async fn writes_in_a_wrong_order_are_betrayed_by_a_cut_or_a_key_of_another_type() {
    let server = RedisServer::start().await;
    let mut unseen = Vec::new();
    for (file, from, to, name) in MUTANTS {
        let case = cases().into_iter().find(|case| case.name == name).unwrap();
        let mut lab = lab(&server, "k", &[(file, from, to)]).await;
        let found = [of_every_cut(&mut lab, &case).await, of_every_key(&mut lab, &case).await].concat();
        if found.is_empty() {
            unseen.push(format!("{file}: {from}"));
        }
    }
    assert!(unseen.is_empty(), "{unseen:#?}");
}
