//! After an error, a cut between any two commands, or a key of another type, every message can still finish.
//!
//! Each script runs on a shard that has messages in every state. For every k, its k-th command fails: alone,
//! like a denied command, or with all later commands, like a cut. Then normal operation drains the shard: every
//! message finishes, and none is lost. [`repeated`] does the same with a repeat of the call, and with each key of the shard.

mod repeated;

use crate::action::{Action, GiveBack, Item, Promote, Purge, Reserve};
use crate::bare_shard::{BareShard, NOW};
use crate::lab::in_g;
use crate::snapshot::{Name, Snapshot, lossy};
use delayq::protocol::{Again, DueRule, Scripts, Verb};
use delayq_tests::redis_server::RedisServer;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const HOUR_MS: u64 = 3_600_000;
const FAR_MS: u64 = 1000 * 24 * HOUR_MS;

const CLOCK: &str = "\
local now_us = tonumber(redis.call('GET', string.sub(KEYS[1], 1, -5) .. 'clock'))
local now = (now_us - now_us % 1000) / 1000
";

/// Precedes a script: the n-th command fails, by the number n in the key `cut`. If `cut` ends in `+`, all
/// later commands fail too.
const FAILING: &str = "\
local redis = (function()
  local real, n, READS = redis, 0, {}
  for read in string.gmatch('TIME TYPE EXISTS GETRANGE MGET HGET HMGET HGETALL HSCAN LRANGE ZCARD ZCOUNT ZSCORE ZMSCORE ZRANGE ' ..
    'ZRANGEBYSCORE ZREVRANGEBYSCORE LLEN XRANGE', '%S+') do READS[read] = true end
  local cut = real.call('GET', string.sub(KEYS[1], 1, -5) .. 'cut')
  local at = cut and tonumber(string.match(cut, '%d+'))
  local all = cut and string.sub(cut, -1) == '+'
  local function fails(command)
    -- A cut between two commands that only read is as one in front of the next write.
    if all and READS[command] then return false end
    n = n + 1
    local failing = at and (n == at or n > at and all)
    if failing then real.call('SET', string.sub(KEYS[1], 1, -5) .. 'cut', 'met') end
    return failing
  end
  local function call(...)
    if fails(...) then error({ err = 'ERR cut' }) end
    return real.call(...)
  end
  local function pcall(...)
    if fails(...) then return { err = 'ERR cut' } end
    return real.pcall(...)
  end
  return setmetatable({ call = call, pcall = pcall }, { __index = real })
end)()
";

/// `extra` are replacements, as in [`scripts_with`](crate::bare_shard::scripts_with).
fn failing_scripts(extra: &[(&str, &str, &str)]) -> Arc<Scripts> {
    Arc::new(Scripts::swapped(&|name, text| {
        let mut text = match name {
            "probe" => return None,
            "lib/now" => CLOCK.to_owned(),
            _ if name.starts_with("lib/") => text.to_owned(),
            _ => text.split_once('\n').map(|(shebang, rest)| format!("{shebang}\n{FAILING}{rest}"))?,
        };
        for (_, from, to) in extra.iter().filter(|(file, ..)| *file == name) {
            assert!(text.contains(from), "lua/{name}.lua does not say {from:?} any more");
            text = text.replace(from, to);
        }
        Some(text)
    }))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Alone,
    WithAllBehind,
}

struct Lab {
    shard: BareShard,
    receipts: Vec<(String, Vec<u8>)>,
}

// === impl Lab ===

impl Lab {
    fn at(&mut self, ms: u64) {
        self.shard.clock_us = Some((NOW + ms) * 1000);
    }

    async fn run(&mut self, action: &Action) -> Result<Vec<String>, String> {
        let answer = self.shard.call(action.verb(), &action.args()).await?;
        Ok(answer.iter().map(|item| lossy(item)).collect())
    }

    /// Makes a call whose commands fail as `cut` says; returns true if one did.
    async fn run_cut(&mut self, action: &Action, cut: &str) -> bool {
        self.shard.command(&[b"SET", b"~cut", cut.as_bytes()]).await;
        let _ = self.run(action).await;
        let met = self.shard.command(&[b"GETDEL", b"~cut"]).await;
        redis::from_redis_value::<String>(met).unwrap() == "met"
    }

    async fn put(&mut self, items: &[Item]) {
        self.run(&Action::Put { topic: "a".into(), items: items.to_vec() }).await.unwrap();
    }

    async fn reserve(&mut self) -> Vec<(String, Vec<u8>)> {
        let mut all = Vec::new();
        for topic in ["a", "b"] {
            all.extend(self.reserve_from(topic).await);
        }
        all
    }

    async fn reserve_from(&mut self, topic: &str) -> Vec<(String, Vec<u8>)> {
        let reserve = Action::Reserve(Reserve::from(topic, 100, Some(5000)));
        let answer = self.shard.call(reserve.verb(), &reserve.args()).await.unwrap();
        let of_one = |one: &[Vec<u8>]| {
            let receipt = one[1].clone();
            (lossy(&receipt[2..receipt.len() - 4]), receipt)
        };
        answer.get(9..).unwrap_or_default().chunks(3).map(of_one).collect()
    }

    fn receipt(&self, id: &str) -> Vec<u8> {
        self.receipts.iter().find(|(own, _)| *own == in_g(id)).unwrap().1.clone()
    }

    /// Two messages in every state, in a group and with an expiry. Finished messages are remembered during
    /// the whole test. Leases end at 5,000; `soon` messages are due at 500.
    async fn seed(&mut self) {
        self.at(0);
        self.shard.create_again().await;
        let settings =
            ["remember_own_ms", "remember_cancelled_ms"].map(|name| (name, FAR_MS.to_string().into()));
        self.run(&Action::Configure { topic: "a".into(), settings: settings.to_vec() }).await.unwrap();
        self.run(&Action::configure("a", "history", "1000")).await.unwrap();
        self.run(&Action::configure("empty", "lease_ms", "3000")).await.unwrap();
        for lease in ["3000", ""] {
            self.run(&Action::configure("quiet", "lease_ms", lease)).await.unwrap();
        }
        self.run(&Action::ForgetQuiet { quiet: 1 }).await.unwrap();
        let mut items: Vec<Item> =
            ["leased", "doomed", "dead", "over"].iter().flat_map(|id| two(id, NOW)).collect();
        items.extend(two("last", NOW).map(|item| Item { max: 1, ..item }));
        self.put(&items).await;
        self.receipts = self.reserve().await;
        let receipts =
            |lab: &Self, id: &str| vec![lab.receipt(&format!("{id}1")), lab.receipt(&format!("{id}2"))];
        let dead = receipts(self, "dead");
        self.run(&Action::Bury { receipts: dead }).await.unwrap();
        let over = receipts(self, "over");
        self.run(&Action::Ack { receipts: over }).await.unwrap();
        self.run(&Action::Cancel { topic: "a".into(), ids: ids("doomed") }).await.unwrap();
        let mut items: Vec<Item> = [("ready", 0), ("soon", 500), ("late", 3 * HOUR_MS)]
            .iter()
            .flat_map(|(id, due)| two(id, NOW + due))
            .collect();
        items.extend(two("fleeting", NOW).map(|item| Item { expires: Some(NOW + 400), ..item }));
        items.push(Item::new(b"plain", NOW));
        items.push(Item::new(&[1; 16], NOW));
        self.put(&items).await;
        // The next put, and the next reserve of several, make tables.
        for (counter, value) in [(b"delivered:1".as_slice(), 2), (b"accepted:1", 20)] {
            let counted = self.shard.command(&[b"HINCRBY", b"~stats", counter, b"1003"]).await;
            assert_eq!(counted, redis::Value::Int(1003 + value));
        }
        self.shard.command(&[b"HSET", b"~meta", b"gen", b"1258"]).await;
    }

    async fn drain(&mut self) {
        for hour in [1, 4, 5, 6] {
            self.at(hour * HOUR_MS);
            for _ in 0..30 {
                let pump = Action::Pump { epoch: Some(9), limit: 500 };
                let report = self.run(&pump).await.unwrap();
                if report[0] == "pumped" {
                    break;
                }
            }
            // A rate of groups hands out one message after the other.
            for second in 0..30 {
                self.at(hour * HOUR_MS + second * 1000);
                let receipts: Vec<_> = self.reserve().await.into_iter().map(|(_, receipt)| receipt).collect();
                if receipts.is_empty() {
                    break;
                }
                self.run(&Action::Ack { receipts }).await.unwrap();
            }
        }
    }

    async fn repair(&mut self) {
        for _ in 0..3 {
            let shard = self.shard.snapshot().await;
            let mut findings = self.stuck_messages(&shard).await;
            findings.extend(self.stuck_entries(&shard).await);
            if !findings.is_empty() {
                self.shard.call(Verb::Repair, &findings.concat()).await.unwrap();
            }
        }
        let recount = ["a", "mend", "", "0", "0"];
        self.shard.call(Verb::Recount, &recount).await.unwrap();
    }

    async fn stuck_messages(&mut self, shard: &Snapshot) -> Vec<[Vec<u8>; 3]> {
        let key = |(no, id): &Name| [format!("m:{no}:").as_bytes(), id].concat();
        let keys: Vec<_> = shard.bodies.keys().map(key).collect();
        if keys.is_empty() {
            return Vec::new();
        }
        let told = self.shard.call(Verb::Audit, &keys).await.unwrap();
        let queued: BTreeSet<_> =
            shard.ready.values().flatten().map(|entry| entry[..entry.len() - 7].to_vec()).collect();
        let finding = |pair: &[Vec<u8>]| match pair[0].as_slice() {
            b"ready" if queued.contains(&pair[1][2..]) => None,
            b"ready" => Some([b"no_place".to_vec(), b"m".to_vec(), pair[1].clone()]),
            kind => Some([kind.to_vec(), b"m".to_vec(), pair[1].clone()]),
        };
        told[5..].chunks(2).filter_map(finding).collect()
    }

    async fn stuck_entries(&mut self, shard: &Snapshot) -> Vec<[Vec<u8>; 3]> {
        let mut found = Vec::new();
        for index in indexes(shard) {
            let words = [b"500".to_vec(), index.into_bytes(), Vec::new(), Vec::new(), b"all".to_vec()];
            let told = self.shard.call(Verb::AuditIndex, &words).await.unwrap();
            let finding = |fault: &[Vec<u8>]| [fault[1].clone(), fault[0].clone(), fault[2].clone()];
            found.extend(told[4..].chunks(3).map(finding));
        }
        found
    }
}

fn indexes(shard: &Snapshot) -> BTreeSet<String> {
    let buckets = shard.buckets.iter().map(|(no, hour, ..)| format!("b:{no}:{hour}"));
    let dead = shard.dead.iter().map(|(no, ..)| format!("d:{no}"));
    let groups = shard.groups.iter().map(|(group, ..)| format!("g:{group}"));
    let parked = shard.parked.keys().map(|(no, group)| format!("p:{no}:{group}"));
    shard.indexes.keys().cloned().chain(buckets).chain(dead).chain(groups).chain(parked).collect()
}

fn two(id: &str, due: u64) -> [Item; 2] {
    ["1", "2"].map(|n| Item {
        expires: Some(NOW + FAR_MS),
        ..Item::new(format!("{id}{n}").as_bytes(), due).in_group("g")
    })
}

fn ids(id: &str) -> Vec<Vec<u8>> {
    ["1", "2"].map(|n| in_g(&format!("{id}{n}")).into_bytes()).to_vec()
}

/// Calls that the receipts of a seeded shard determine.
type Calls = dyn Fn(&Lab) -> Vec<Action>;

struct Case {
    name: &'static str,
    at: u64,
    /// Calls before, which are not cut.
    prior: Box<Calls>,
    /// Failed messages block the group.
    blocks: bool,
    action: Box<dyn Fn(&Lab) -> Action>,
}

fn case(name: &'static str, action: impl Fn(&Lab) -> Action + 'static) -> Case {
    Case { name, at: 400, prior: Box::new(|_| Vec::new()), blocks: false, action: Box::new(action) }
}

/// A case with messages of a paused group that a reserve has parked.
fn paused(name: &'static str, action: impl Fn(&Lab) -> Action + 'static) -> Case {
    Case { prior: Box::new(|_| vec![pause(true), reserve()]), ..case(name, action) }
}

/// A case with parked messages behind failed messages, two delayed and two dead.
fn blocked(name: &'static str, action: impl Fn(&Lab) -> Action + 'static) -> Case {
    let prior = |lab: &Lab| {
        let receipts = vec![lab.receipt("last1"), lab.receipt("last2")];
        let bury = Action::Bury { receipts };
        vec![blocks(), release(lab, "leased", Some(HOUR_MS)), bury, reserve()]
    };
    Case { prior: Box::new(prior), blocks: true, ..case(name, action) }
}

/// A case with groups that take turns, and with messages that were ready before.
fn fair(name: &'static str, action: impl Fn(&Lab) -> Action + 'static) -> Case {
    Case { prior: Box::new(|_| vec![fair_order("fair")]), ..case(name, action) }
}

fn fair_order(order: &str) -> Action {
    Action::configure("a", "group_order", order)
}

/// A case with parked messages of a group that waits for a token.
fn rated(name: &'static str, action: impl Fn(&Lab) -> Action + 'static) -> Case {
    Case { prior: Box::new(|_| vec![group_rate("5/s"), reserve()]), ..case(name, action) }
}

fn group_rate(rate: &str) -> Action {
    Action::configure("a", "group_rate", rate)
}

fn blocks() -> Action {
    Action::configure("a", "group_failed", "block")
}

fn pause(pauses: bool) -> Action {
    Action::PauseGroup { topic: "a".into(), pauses, groups: vec!["g".into()] }
}

fn reserve() -> Action {
    reserve_of(100)
}

fn reserve_of(most: u64) -> Action {
    Action::Reserve(Reserve::from("a", most, Some(1000)))
}

fn changes(id: &str, due: u64) -> Action {
    let change = |id| (id, (NOW + due).to_string(), None);
    Action::Reschedule { topic: "a".into(), changes: ids(id).into_iter().map(change).collect() }
}

fn promote(topic: &str, group: &str) -> Action {
    let (topic, group) = (topic.into(), group.into());
    Action::Promote(Promote { topic, group, from: 0, to: NOW + FAR_MS, last: Vec::new(), limit: 100 })
}

fn purge(state: &'static str) -> Action {
    Action::Purge(Purge { topic: "a".into(), state, from: 0, to: NOW + FAR_MS, last: Vec::new(), limit: 100 })
}

fn release(lab: &Lab, id: &str, delay: Option<u64>) -> Action {
    let receipts = ["1", "2"].map(|n| lab.receipt(&format!("{id}{n}")));
    Action::Release { all: receipts.map(|receipt| GiveBack { receipt, delay, keep: false }).to_vec() }
}

fn cases() -> Vec<Case> {
    let receipts = |lab: &Lab, id: &str| vec![lab.receipt(&format!("{id}1")), lab.receipt(&format!("{id}2"))];
    let put = |items: Vec<Item>| Action::Put { topic: "a".into(), items };
    let replacing = |id: &'static str| {
        move |_: &Lab| {
            let items = two(id, NOW + 800).map(|item| Item { replace: true, content: 1, ..item });
            Action::Put { topic: "a".into(), items: items.to_vec() }
        }
    };
    let following = |id: &'static str, led: &'static str| {
        move |lab: &Lab| {
            let mut items = two(id, NOW + 800).map(|item| Item { content: 1, ..item });
            for (item, receipt) in items.iter_mut().zip(receipts(lab, led)) {
                item.ack = Some(receipt);
            }
            Action::Put { topic: "a".into(), items: items.to_vec() }
        }
    };
    let debounce = Again { due: DueRule::Within(Duration::from_millis(900)), keep: true, ..Again::default() };
    let edit = Again { due: DueRule::Content, ..Again::default() };
    let throttle = Again { due: DueRule::Throttle(Duration::from_millis(900)), ..Again::default() };
    let merging = |id: &'static str, again: Again| {
        move |_: &Lab| {
            let items = two(id, NOW + 800).map(|item| Item { replace: true, again, content: 1, ..item });
            Action::Put { topic: "a".into(), items: items.to_vec() }
        }
    };
    let mut cases = vec![
        case("put delayed", move |_| put(two("new", NOW + 800).to_vec())),
        case("put ready", move |_| put(two("new", NOW).to_vec())),
        case("put plain", move |_| put(vec![Item::new(b"new1", NOW + 800), Item::new(b"new2", NOW)])),
        case("put of a new topic", |_| Action::Put {
            topic: "b".into(),
            items: vec![Item::new(b"b", NOW + 800)],
        }),
        case("put ready of a new topic", |_| Action::Put {
            topic: "b".into(),
            items: vec![Item::new(b"b", NOW)],
        }),
        case("forget of what is empty", |_| Action::Forget { topic: "empty".into() }),
        Case { at: 2 * FAR_MS, ..case("forget_quiet", |_| Action::ForgetQuiet { quiet: 1 }) },
        case("forget_quiet of nothing yet", |_| Action::ForgetQuiet { quiet: 1 }),
        case("forget of what is not", |_| Action::Forget { topic: "a".into() }),
        case("cancel_group", |_| Action::CancelGroup {
            group: "g".into(),
            topic: String::new(),
            behind: (0, Vec::new()),
            limit: 100,
        }),
        case("shift_group later", |_| shift(1000)),
        case("shift_group earlier", |_| shift(-1000)),
        case("reserve", |_| reserve()),
        Case { at: 300, ..case("reserve of many", |_| reserve()) },
        case("pause of a group", |_| pause(true)),
        Case { prior: Box::new(|_| vec![pause(true)]), ..case("reserve of a paused group", |_| reserve()) },
        paused("resume of a group", |_| pause(false)),
        Case {
            prior: Box::new(|_| vec![pause(true), reserve(), pause(false)]),
            ..case("reserve of a resumed group", |_| reserve())
        },
        paused("cancel of what is parked", |_| Action::Cancel { topic: "a".into(), ids: ids("ready") }),
        paused("reschedule of what is parked", |_| changes("ready", 900)),
        paused("purge of what is parked", |_| purge("ready")),
        case("ack", move |lab| Action::Ack { receipts: receipts(lab, "leased") }),
        case("bury", move |lab| Action::Bury { receipts: receipts(lab, "leased") }),
        case("extend", move |lab| Action::Extend { receipts: receipts(lab, "leased"), lease: Some(9000) }),
        case("release to ready", |lab| release(lab, "leased", Some(0))),
        case("release to delayed", |lab| release(lab, "leased", Some(700))),
        case("release by back-off", |lab| release(lab, "leased", None)),
        case("release of the last attempt", |lab| release(lab, "last", None)),
        case("release of what is cancelled", |lab| release(lab, "doomed", None)),
        case("replay", |_| Action::Replay { topic: "a".into(), delay: 0, ids: ids("dead") }),
        case("replay later", |_| Action::Replay { topic: "a".into(), delay: 900, ids: ids("dead") }),
        case("reschedule later", |_| changes("soon", 900)),
        case("reschedule of what is ready", |_| changes("ready", 900)),
        case("reschedule to now", |_| changes("late", 0)),
        case("promote topic", |_| promote("a", "")),
        case("promote group", |_| promote("", "g")),
        case("purge delayed", |_| purge("delayed")),
        case("purge ready", |_| purge("ready")),
        case("purge dead", |_| purge("dead")),
        case("claim", |_| Action::Claim { owner: "me".into(), lock: 0 }),
        case("configure", |_| Action::configure("a", "lease_ms", "3000")),
        case("configure of a new topic", |_| Action::configure("c", "lease_ms", "3000")),
        case("hold", |_| Action::Hold { epoch: 0, on: false }),
    ];
    cases.extend(
        [("soon", "put over delayed"), ("ready", "put over ready"), ("dead", "put over dead")]
            .map(|(id, name)| case(name, replacing(id))),
    );
    cases.push(case("put over a marker", replacing("over")));
    cases.extend(
        [("soon", "debounce delayed"), ("ready", "debounce ready"), ("dead", "debounce dead")]
            .map(|(id, name)| case(name, merging(id, debounce))),
    );
    cases.extend(
        [("soon", "edit delayed"), ("ready", "edit ready")].map(|(id, name)| case(name, merging(id, edit))),
    );
    cases.extend(
        [("soon", "throttle delayed"), ("dead", "throttle dead"), ("over", "throttle over a marker")]
            .map(|(id, name)| case(name, merging(id, throttle))),
    );
    cases.extend(
        [("soon", "cancel delayed"), ("ready", "cancel ready"), ("leased", "cancel leased")]
            .map(|(id, name)| case(name, move |_| Action::Cancel { topic: "a".into(), ids: ids(id) })),
    );
    let pump = |_: &Lab| Action::Pump { epoch: Some(0), limit: 500 };
    cases.extend([
        Case {
            prior: Box::new(|_| vec![blocks()]),
            blocks: true,
            ..case("release that blocks", |lab| release(lab, "leased", Some(100)))
        },
        Case {
            prior: Box::new(|_| vec![blocks()]),
            blocks: true,
            ..case("bury that blocks", move |lab| Action::Bury { receipts: receipts(lab, "leased") })
        },
        Case {
            at: 6000,
            prior: Box::new(|_| vec![blocks()]),
            blocks: true,
            ..case("pump what ran out and blocks", pump)
        },
        blocked("reserve of a blocked group", |_| reserve()),
        blocked("cancel of a failed message", |_| Action::Cancel { topic: "a".into(), ids: ids("leased") }),
        blocked("reschedule of a failed message", |_| changes("leased", 900)),
        blocked("promote of a failed message", |_| promote("a", "")),
        blocked("purge of a failed message", |_| purge("delayed")),
        blocked("purge of a dead letter that blocks", |_| purge("dead")),
        blocked("replay of what blocks", |_| Action::Replay {
            topic: "a".into(),
            delay: 0,
            ids: ids("last"),
        }),
        blocked("put over a failed message", replacing("leased")),
        blocked("debounce of a failed message", merging("leased", debounce)),
        blocked("edit of a failed message", merging("leased", edit)),
        blocked("put over a dead letter that blocks", replacing("last")),
        blocked("no more blocks", |_| Action::configure("a", "group_failed", "pass")),
    ]);
    let in_turn = |_: &Lab| vec![fair_order("fair"), reserve_of(1)];
    cases.extend([
        case("fair order", |_| fair_order("fair")),
        fair("reserve of what was ready before", |_| reserve()),
        fair("put in fair order", move |_| put(two("new", NOW).to_vec())),
        fair("release in fair order", |lab| release(lab, "leased", Some(0))),
        fair("promote in fair order", |_| promote("a", "")),
        Case { at: 600, ..fair("pump in fair order", pump) },
        Case { prior: Box::new(in_turn), ..case("reserve in fair order", |_| reserve_of(2)) },
        Case { prior: Box::new(in_turn), ..case("purge in fair order", |_| purge("ready")) },
        Case { prior: Box::new(in_turn), ..case("no fair order", |_| fair_order("")) },
        Case {
            prior: Box::new(|_| vec![fair_order("fair"), reserve_of(1), fair_order("")]),
            ..case("reserve after fair order", |_| reserve())
        },
        case("ack that puts", following("new", "leased")),
        case("ack that puts in its place", following("leased", "leased")),
        case("ack that puts after a cancel", following("new", "doomed")),
    ]);
    cases.extend([
        rated("reserve at a rate of groups", |_| reserve()),
        rated("no rate of groups", |_| group_rate("0")),
        Case { at: 900, ..rated("reserve of a group with a token", |_| reserve()) },
        Case {
            prior: Box::new(|_| vec![group_rate("5/s")]),
            ..case("first reserve at a rate of groups", |_| reserve())
        },
    ]);
    let behind = move |id: &'static str| move |lab: &Lab| vec![merging(id, throttle)(lab)];
    cases.push(case("put behind a leased message", merging("leased", throttle)));
    cases.extend([
        Case {
            prior: Box::new(behind("leased")),
            ..case("put behind a leased message again", merging("leased", throttle))
        },
        Case {
            prior: Box::new(behind("leased")),
            ..case("ack with a successor", move |lab| Action::Ack { receipts: receipts(lab, "leased") })
        },
        Case {
            prior: Box::new(behind("leased")),
            ..case("bury with a successor", move |lab| Action::Bury { receipts: receipts(lab, "leased") })
        },
        Case {
            prior: Box::new(behind("leased")),
            ..case("release with a successor", |lab| release(lab, "leased", Some(0)))
        },
        Case {
            prior: Box::new(behind("last")),
            ..case("release of the last attempt with a successor", |lab| release(lab, "last", None))
        },
        Case {
            prior: Box::new(behind("doomed")),
            ..case("release of what is cancelled with a successor", |lab| release(lab, "doomed", None))
        },
        Case {
            prior: Box::new(behind("leased")),
            ..case("cancel of what has a successor", |_| Action::Cancel {
                topic: "a".into(),
                ids: ids("leased"),
            })
        },
        Case {
            prior: Box::new(behind("leased")),
            ..case("ack that puts in the place of a successor", following("leased", "leased"))
        },
        Case {
            prior: Box::new(behind("leased")),
            ..case("ack that puts beside a successor", following("new", "leased"))
        },
        Case {
            at: 6000,
            prior: Box::new(behind("leased")),
            ..case("pump what ran out with a successor", pump)
        },
        Case {
            prior: Box::new(move |lab| [vec![blocks()], behind("leased")(lab)].concat()),
            blocks: true,
            ..case("release that blocks with a successor", |lab| release(lab, "leased", Some(100)))
        },
        Case {
            prior: Box::new(move |lab| [vec![fair_order("fair")], behind("leased")(lab)].concat()),
            ..case("ack with a successor in fair order", move |lab| Action::Ack {
                receipts: receipts(lab, "leased"),
            })
        },
    ]);
    cases.push(Case { at: 600, ..case("pump what is due", pump) });
    cases.push(Case { at: 600, ..paused("pump what expires while it is parked", pump) });
    cases.push(Case { at: 6000, ..case("pump what ran out", pump) });
    cases.push(Case { at: 2 * FAR_MS, ..case("pump what is forgotten", pump) });
    cases
}

fn shift(by: i64) -> Action {
    Action::ShiftGroup { group: "g".into(), topic: String::new(), token: "t".into(), by, limit: 100 }
}

/// Messages without an end: pending, leased, or in a place that no index lists.
fn stuck(shard: &Snapshot) -> Vec<String> {
    let is_stuck = |(name, body): (&Name, &Vec<u8>)| {
        let member = [&name.1[..], &body[4.min(body.len())..8.min(body.len())]].concat();
        let index_name = [format!("{}:", name.0).as_bytes(), &name.1].concat();
        match body.get(1) {
            Some(4) => !shard.dead.iter().any(|(no, entry, _)| *no == name.0 && *entry == member),
            Some(5..=8) => {
                shard.forgotten(name).is_none() && !shard.index("markers").contains_key(&index_name)
            }
            _ => true,
        }
    };
    let word = |(name, body): (&Name, &Vec<u8>)| format!("{} {:?}", lossy(&name.1), body.get(1));
    let mut all: Vec<_> = shard.bodies.iter().filter(|one| is_stuck(*one)).map(word).collect();
    all.extend(shard.index("leases").keys().map(|receipt| format!("lease of {}", lossy(receipt))));
    all
}

/// Prepares the shard for a case; returns the call.
async fn prepare(lab: &mut Lab, case: &Case) -> Action {
    lab.shard.remove().await;
    lab.seed().await;
    lab.at(300.min(case.at));
    for action in (case.prior)(lab) {
        lab.run(&action).await.unwrap();
    }
    lab.at(case.at);
    (case.action)(lab)
}

/// After the call: normal operation until every message finishes.
async fn go_on(lab: &mut Lab, case: &Case) -> Arc<Snapshot> {
    // A topic without messages can be forgotten, whatever a cut left behind.
    for topic in ["b", "c", "empty", "quiet"] {
        lab.run(&Action::Forget { topic: topic.into() }).await.unwrap();
    }
    lab.run(&pause(false)).await.unwrap();
    // A dead letter would block its group for ever.
    if case.blocks {
        lab.run(&purge("dead")).await.unwrap();
    }
    lab.drain().await;
    if case.blocks {
        lab.run(&purge("dead")).await.unwrap();
        lab.drain().await;
    }
    lab.shard.snapshot().await
}

/// True if the call was cut, and the messages that normal operation left stuck or lost.
async fn cut(lab: &mut Lab, case: &Case, k: usize, fault: Fault) -> (bool, Vec<String>) {
    let action = prepare(lab, case).await;
    let before = lab.shard.snapshot().await;
    let plus = if fault == Fault::WithAllBehind { "+" } else { "" };
    let is_cut = lab.run_cut(&action, &format!("{k}{plus}")).await;
    let after = go_on(lab, case).await;
    // A message that was forgotten on time, or with its topic, has also finished.
    let ended = |name: &&Name| case.at > FAR_MS || name.1 == [1; 16];
    let lost =
        before.bodies.keys().filter(|name| !after.bodies.contains_key(*name)).filter(|name| !ended(name));
    let mut left = stuck(&after);
    left.extend(lost.map(|name| format!("{} is lost", lossy(&name.1))));
    (is_cut, left)
}

async fn every_message_has_a_way_out(fault: Fault) {
    let server = RedisServer::start().await;
    let mut lab =
        Lab { shard: BareShard::uncreated(&server, "w", failing_scripts(&[])).await, receipts: Vec::new() };
    let (mut needs_repair, mut cuts) = (BTreeSet::new(), 0);
    for case in cases() {
        for k in 1.. {
            let (is_cut, left) = cut(&mut lab, &case, k, fault).await;
            if !is_cut {
                assert!(k > 1 && left.is_empty(), "{} uncut: {left:?}", case.name);
                break;
            }
            cuts += 1;
            if !left.is_empty() {
                println!("{} {k}: {left:?}", case.name);
                needs_repair.insert(case.name);
                lab.repair().await;
                lab.drain().await;
                let left = stuck(&*lab.shard.snapshot().await);
                assert!(left.is_empty(), "{} {k}, repaired: {left:?}", case.name);
            }
        }
    }
    println!("{cuts} cuts");
    assert_eq!(needs_repair, BTreeSet::new(), "plain operation does not suffice, a repair does");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_error_of_any_command_every_message_still_has_a_way_out() {
    every_message_has_a_way_out(Fault::Alone).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_cut_between_any_two_commands_every_message_still_has_a_way_out() {
    every_message_has_a_way_out(Fault::WithAllBehind).await;
}
