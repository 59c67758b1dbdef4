//! Every way in which a message can get stuck, planted in a shard under load: an audit names it, a repair frees it, and
//! no message in motion looks stuck.

use crate::bare_shard::BareShard;
use crate::snapshot::lossy;
use delayq::admin::{Audit, FindingKind, Policy, Sweep, SweptFault, SweptMending};
use delayq::protocol::{Holder, Owner, ReserveRequest, Scripts, ShardId};
use delayq::{Admin, Client, Message, MessageId, Producer, Settled, Topic, UnixMillis};
use delayq_tests::clock_shim::ClockShim;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::deployment::Deployment;
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

const SHARD: ShardId = ShardId::new(0);
const FAR: Duration = Duration::from_secs(3600);
const LEASE: Duration = Duration::from_secs(60);
/// Rounds of the load that a test awaits, so that audits fall between them.
const ROUNDS: u64 = 20;
/// An expiry that no test reaches.
const NEVER: UnixMillis = UnixMillis::new(4_102_444_800_000);

struct Scene {
    server: RedisServer,
    clock: ClockShim,
    client: Client,
    producer: Producer,
    admin: Admin,
    bare: BareShard,
    stuck: Topic,
}

/// Puts, pumps, reserves, acks, releases and cancels in a topic of its own until it is stopped.
struct Load {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

// === impl Load ===

impl Load {
    fn start(scene: &Scene) -> Self {
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (client, producer) = (scene.client.clone(), scene.producer.clone());
        let task = {
            let (stop, rounds) = (Arc::clone(&stop), Arc::clone(&rounds));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    one_round(&client, &producer, rounds.fetch_add(1, Ordering::Relaxed)).await;
                }
            })
        };
        Self { stop, rounds, task }
    }

    async fn turns(&self) {
        let until = self.rounds.load(Ordering::Relaxed) + ROUNDS;
        wait_until("the load to turn", LONG, || async { self.rounds.load(Ordering::Relaxed) >= until }).await;
    }

    async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
    }
}

async fn one_round(client: &Client, producer: &Producer, round: u64) {
    let topic = Topic::new("load").unwrap();
    let message = |n: u64| {
        let own = Message::new(topic.clone(), "x").with_id(own(&format!("load-{round}-{n}")));
        let own = if n.is_multiple_of(2) { own.group("crowd").unwrap() } else { own };
        if n.is_multiple_of(3) { own.after(Duration::from_millis(5)) } else { own }
    };
    for put in producer.put_many((0..20).map(message).collect()).await {
        assert!(put.unwrap().outcome.is_accepted());
    }
    producer.cancel(&topic, &own(&format!("load-{round}-1")).into()).await.unwrap();
    Owner::new(client.clone()).pump(&[(SHARD, Some(1))], 500, None).await.remove(0).unwrap();
    let request = ReserveRequest { topics: vec![topic], most: 25, max_bytes: 0, lease: None };
    let found =
        Holder::new(client.clone()).reserve(&[(SHARD, request.clone())]).await.remove(0).unwrap().messages;
    let receipts: Vec<_> = found.into_iter().map(|found| found.receipt).collect();
    let (given_back, acked) = receipts.split_at(receipts.len() / 4);
    let release = |receipt: &delayq::protocol::Receipt| delayq::protocol::Release {
        receipt: receipt.clone(),
        delay: Some(Duration::ZERO),
        keep_attempt: true,
        reason: String::new(),
    };
    let holder = Holder::new(client.clone());
    holder.release(&given_back.iter().map(release).collect::<Vec<_>>()).await;
    for settled in holder.ack(acked).await {
        assert_eq!(settled.unwrap(), Settled::Delivered);
    }
}

fn kinds(faults: &[SweptFault]) -> Vec<&'static str> {
    let mut kinds: Vec<_> = faults.iter().map(|fault| fault.kind).collect();
    kinds.sort_unstable();
    kinds
}

fn own(id: &str) -> MessageId {
    MessageId::own(id).unwrap()
}

// === impl Scene ===

impl Scene {
    async fn new() -> Self {
        let clock = ClockShim::new();
        let server = RedisServer::start_with(RedisOptions::default().clock(&clock)).await;
        let Deployment { server, client, producer, admin } = Deployment::on(server, 1).await;
        let stuck = Topic::new("stuck").unwrap();
        // So that nothing finishes before it is planted.
        admin.set_policy(&stuck, &Policy { lease: Some(LEASE), ..Policy::default() }).await.unwrap();
        let bare = BareShard::uncreated(&server, "dq", Arc::new(Scripts::published())).await;
        Self { server, clock, client, producer, admin, bare, stuck }
    }

    /// Changes what everybody may do.
    async fn allow(&self, rule: &str) {
        let () = self.server.command(&["ACL", "SETUSER", "default", rule]).await;
    }

    async fn put(&self, message: Message) {
        assert!(self.producer.put(message).await.unwrap().outcome.is_accepted());
    }

    fn message(&self, id: &str) -> Message {
        Message::new(self.stuck.clone(), id.to_owned()).with_id(own(id))
    }

    async fn reserve(&self) -> Vec<delayq::protocol::Reservation> {
        let request =
            ReserveRequest { topics: vec![self.stuck.clone()], most: 500, max_bytes: 0, lease: None };
        Holder::new(self.client.clone())
            .reserve(&[(SHARD, request.clone())])
            .await
            .remove(0)
            .unwrap()
            .messages
    }

    /// The entries of an index in which `id` is.
    async fn entries(&mut self, key: &str, id: &str) -> Vec<Vec<u8>> {
        let range: &[u8] = if key.starts_with("r:") { b"LRANGE" } else { b"ZRANGE" };
        let name = format!("~{key}");
        let all = self.bare.command(&[range, name.as_bytes(), b"0", b"-1"]).await;
        let all: Vec<Vec<u8>> = redis::from_redis_value(all).unwrap();
        all.into_iter().filter(|entry| lossy(entry).contains(id)).collect()
    }

    async fn take_out(&mut self, key: &str, id: &str) {
        let entries = self.entries(key, id).await;
        assert!(!entries.is_empty(), "{id} is not in {key}");
        let name = format!("~{key}");
        for entry in entries {
            let words: Vec<&[u8]> = match key.starts_with("r:") {
                true => vec![b"LREM", name.as_bytes(), b"0", &entry],
                false => vec![b"ZREM", name.as_bytes(), &entry],
            };
            self.bare.command(&words).await;
        }
    }

    /// The key of the bucket in which `id` is.
    async fn bucket_of(&mut self, id: &str) -> String {
        let shard = self.bare.snapshot().await;
        let found = shard.buckets.iter().find(|(_, _, entry, _)| lossy(entry).contains(id)).unwrap();
        format!("b:{}:{}", found.0, found.1)
    }

    async fn delete(&mut self, key: &str) {
        self.bare.command(&[b"DEL", format!("~{key}").as_bytes()]).await;
    }

    /// One message, entry, index and counter of each kind of fault. Topic `stuck` is number 1.
    async fn plant(&mut self) -> BTreeSet<(FindingKind, String)> {
        self.plant_messages().await;
        self.plant_entries().await;
        self.bare.command(&[b"HSET", b"~shift:endless", b"token", b"t"]).await;
        let [far, farther] = [self.bucket_of("rings").await, self.bucket_of("body-gone").await];
        self.bare.command(&[b"ZREM", b"~alarms", far.as_bytes()]).await;
        use FindingKind::{
            Malformed, NoAlarm, NoDeadEntry, NoExpiryEntry, NoGroupEntry, NoLease, NoMarkerEntry, NoPlace,
            NoShiftEnd, StaleEntry,
        };
        let messages = [
            (NoPlace, "lost-ready"),
            (NoPlace, "lost-delayed"),
            (NoLease, "unleased"),
            (NoDeadEntry, "undead"),
            (NoMarkerEntry, "remembered"),
            (NoGroupEntry, "alone"),
            (NoExpiryEntry, "undying"),
            (Malformed, "tiny"),
        ];
        let messages = messages.map(|(kind, id)| (kind, format!("m {id}")));
        let entries = [farther, "g:gone".into(), "expiries".into(), "leases".into(), "d:1".into()];
        let entries = entries.into_iter().map(|index| (StaleEntry, format!("{index} body-gone")));
        let markers = ["markers nothing", "ends e:"].map(|entry| (StaleEntry, entry.to_owned()));
        let indexes = [format!("{far} "), "e:9999999999998 ".to_owned()].map(|index| (NoAlarm, index));
        let shifts = [(NoShiftEnd, "shift:endless ".to_owned())];
        messages.into_iter().chain(entries).chain(markers).chain(indexes).chain(shifts).collect()
    }

    async fn plant_messages(&mut self) {
        for id in ["unleased", "undead"] {
            self.put(self.message(id)).await;
        }
        for found in self.reserve().await {
            if found.id == own("undead") {
                Holder::new(self.client.clone())
                    .bury(&[(found.receipt, "of no use".to_owned())])
                    .await
                    .remove(0)
                    .unwrap();
            }
        }
        self.take_out("leases", "unleased").await;
        self.take_out("d:1", "undead").await;
        self.put(self.message("lost-ready")).await;
        for id in ["lost-delayed", "remembered"] {
            self.put(self.message(id).after(FAR)).await;
        }
        self.put(self.message("rings").after(2 * FAR)).await;
        self.put(self.message("alone").after(FAR).group("crew").unwrap()).await;
        self.put(self.message("undying").after(FAR).expires(NEVER)).await;
        self.producer.cancel(&self.stuck, &own("remembered").into()).await.unwrap();
        // Its entry is of another gen, and its time is long over.
        self.bare.command(&[b"SETRANGE", b"~m:1:remembered", b"4", b"gone"]).await;
        self.bare.command(&[b"SETRANGE", b"~m:1:remembered", b"16", &[0; 8]]).await;
        self.take_out("r:1", "lost-ready").await;
        let bucket = self.bucket_of("lost-delayed").await;
        self.take_out(&bucket, "lost-delayed").await;
        self.take_out("g:crew", "alone").await;
        self.take_out("expiries", "undying").await;
    }

    async fn plant_entries(&mut self) {
        let gone = self.message("body-gone-1").after(4 * FAR).group("gone").unwrap().expires(NEVER);
        self.put(gone).await;
        self.put(self.message("body-gone-2")).await;
        self.put(self.message("body-gone-3")).await;
        for found in self.reserve().await {
            if found.id == own("body-gone-3") {
                Holder::new(self.client.clone())
                    .bury(&[(found.receipt, "of no use".to_owned())])
                    .await
                    .remove(0)
                    .unwrap();
            }
        }
        for n in 1..4 {
            self.delete(&format!("m:1:body-gone-{n}")).await;
        }
        self.bare.command(&[b"ZADD", b"~markers", b"9999999999999", b"1:nothing"]).await;
        self.bare.command(&[b"ZADD", b"~alarms", b"9999999999999", b"markers"]).await;
        self.bare.command(&[b"ZADD", b"~ends", b"9999999999999", b"e:9999999999999"]).await;
        self.bare.command(&[b"RPUSH", b"~e:9999999999998", b"1:nobody\0\0\0\0"]).await;
        self.put(self.message("tiny")).await;
        self.bare.command(&[b"SET", b"~m:1:tiny", b"tiny"]).await;
    }

    /// What an audit found, without consequential findings.
    async fn found(&self) -> (Audit, BTreeSet<(FindingKind, String)>) {
        let audit = self.admin.audit(|_| {}).await.unwrap();
        let found = audit.findings.iter().map(|found| {
            let id = found.id.trim_end_matches(|c: char| c == '-' || c.is_ascii_digit());
            (found.kind, format!("{} {id}", found.index))
        });
        let found = found.collect();
        (audit, found)
    }

    /// What a sweep over everything found.
    async fn swept(&self, mends: bool) -> Vec<SweptFault> {
        swept_by(&mut self.admin.sweep(1.0, mends)).await
    }

    /// Lets the rest run its course in normal operation; returns the delivered ids.
    async fn drain(&mut self) -> BTreeSet<String> {
        let mut delivered = BTreeSet::new();
        let topics = vec![self.stuck.clone(), Topic::new("load").unwrap()];
        for step in 1..8_i64 {
            self.clock.set_offset_ms(step * 3_600_000);
            wait_until("what is due to be pumped", LONG, || async {
                let report = Owner::new(self.client.clone())
                    .pump(&[(SHARD, Some(1))], 500, None)
                    .await
                    .remove(0)
                    .unwrap();
                report.next_due.is_none_or(|due| due > report.now.millis())
            })
            .await;
            loop {
                let request = ReserveRequest { topics: topics.clone(), most: 500, max_bytes: 0, lease: None };
                let found = Holder::new(self.client.clone())
                    .reserve(&[(SHARD, request.clone())])
                    .await
                    .remove(0)
                    .unwrap()
                    .messages;
                if found.is_empty() {
                    break;
                }
                delivered.extend(found.iter().map(|found| found.id.to_string()));
                let receipts: Vec<_> = found.into_iter().map(|found| found.receipt).collect();
                for settled in Holder::new(self.client.clone()).ack(&receipts).await {
                    assert_eq!(settled.unwrap(), Settled::Delivered);
                }
            }
        }
        delivered
    }
}

/// What the next walk of a sweep found.
async fn swept_by(sweep: &mut Sweep) -> Vec<SweptFault> {
    let mut faults = Vec::new();
    while let Some(swept) = sweep.next().await.unwrap() {
        faults.extend(swept.faults);
    }
    faults
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_got_stuck_is_named_by_an_audit_and_mended_by_a_repair_while_all_goes_on() {
    let mut scene = Scene::new().await;
    let load = Load::start(&scene);
    load.turns().await;
    let planted = scene.plant().await;
    let (audit, found) = scene.found().await;
    assert_eq!(found, planted);

    let repaired = scene.admin.repair(audit, |_| {}).await.unwrap();
    assert!(repaired.left.is_clean() && repaired.failed.is_empty(), "{repaired:#?}");
    let kinds: BTreeSet<_> = planted.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(repaired.mended.keys().copied().collect::<BTreeSet<_>>(), kinds, "{repaired:#?}");
    load.turns().await;
    let (audit, _) = scene.found().await;
    assert!(audit.is_clean(), "{audit:#?}");
    load.stop().await;

    let delivered = scene.drain().await;
    for id in ["lost-ready", "lost-delayed", "unleased", "rings", "alone"] {
        assert!(delivered.contains(id), "{id} is not among {delivered:?}");
    }
    let numbers = scene.admin.count(&scene.stuck).await.unwrap();
    assert_eq!((numbers.pending(), numbers.dead, numbers.balances()), (0, 2, true), "{numbers:?}");
    assert!(scene.found().await.0.is_clean());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_got_stuck_is_mended_by_sweeps_while_all_goes_on_and_nothing_else_is() {
    let mut scene = Scene::new().await;
    let load = Load::start(&scene);
    load.turns().await;
    let planted = scene.plant().await;
    scene.bare.command(&[b"HINCRBY", b"~stats", b"accepted:1", b"9"]).await;

    let only_told = scene.swept(false).await;
    let kinds: BTreeSet<_> = planted.iter().map(|(kind, _)| kind.word()).collect();
    assert_eq!(only_told.iter().map(|fault| fault.kind).collect::<BTreeSet<_>>(), kinds, "{only_told:#?}");
    assert!(only_told.iter().all(|fault| fault.mending == SweptMending::Left), "{only_told:#?}");
    assert_eq!(scene.found().await.1, planted, "a dry run mends nothing");

    // What is mended may show what was behind it, such as an entry that is stale now.
    let (mut sweep, mut mended) = (scene.admin.sweep(1.0, true), BTreeSet::new());
    for _ in 0..4 {
        let faults = swept_by(&mut sweep).await;
        assert!(faults.iter().all(|fault| fault.mending == SweptMending::Mended), "{faults:#?}");
        mended.extend(faults.into_iter().map(|fault| fault.kind));
    }
    assert_eq!(mended, kinds.into_iter().chain(["counter"]).collect());
    assert_eq!(swept_by(&mut sweep).await, [], "all is mended");
    load.turns().await;
    assert!(scene.found().await.0.is_clean());
    load.stop().await;

    let delivered = scene.drain().await;
    for id in ["lost-ready", "lost-delayed", "unleased", "rings", "alone"] {
        assert!(delivered.contains(id), "{id} is not among {delivered:?}");
    }
    for topic in ["stuck", "load"] {
        let numbers = scene.admin.count(&Topic::new(topic).unwrap()).await.unwrap();
        assert_eq!((numbers.pending(), numbers.balances()), (0, true), "{topic}: {numbers:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_purges_the_dead_letters_that_are_too_old_or_too_many_and_the_oldest_first() {
    let scene = Scene::new().await;
    let holder = Holder::new(scene.client.clone());
    for n in 0..230 {
        scene.put(scene.message(&format!("dead-{n:03}"))).await;
    }
    for (step, found) in scene.reserve().await.chunks(46).enumerate() {
        scene.clock.set_offset_ms(i64::try_from(step).unwrap() * 3_600_000);
        let buried: Vec<_> = found.iter().map(|one| (one.receipt.clone(), String::new())).collect();
        holder.bury(&buried).await;
    }
    let left = async || {
        let numbers = scene.admin.count(&scene.stuck).await.unwrap();
        assert!(numbers.balances(), "{numbers:?}");
        (numbers.dead, numbers.purged)
    };
    let set = async |policy| scene.admin.change_policy(&scene.stuck, &policy, &[]).await.unwrap();
    assert_eq!((scene.swept(true).await, left().await), (Vec::new(), (230, 0)), "all are kept by default");
    set(Policy { dead_max: Some(200), ..Policy::default() }).await;
    assert_eq!((scene.swept(false).await, left().await), (Vec::new(), (230, 0)), "a dry run purges nothing");
    assert_eq!((scene.swept(true).await, left().await), (Vec::new(), (200, 30)));
    // Those of the first and the second step are older than that now, those of the third are not.
    set(Policy { dead_for: Some(2 * FAR + FAR / 2), ..Policy::default() }).await;
    assert_eq!((scene.swept(true).await, left().await), (Vec::new(), (138, 92)));
    assert_eq!(
        (scene.swept(true).await, left().await),
        (Vec::new(), (138, 92)),
        "a second sweep finds no more"
    );
    assert!(scene.found().await.0.is_clean());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_that_drift_are_set_right_while_all_goes_on() {
    let mut scene = Scene::new().await;
    let load = Load::start(&scene);
    scene.put(scene.message("ready")).await;
    load.turns().await;
    let topics = scene.bare.snapshot().await.number("meta", "topic:load");
    for (counter, by) in [("ready:1", "5"), ("leased:1", "-3"), ("accepted:1", "2")] {
        scene.bare.command(&[b"HINCRBY", b"~stats", counter.as_bytes(), by.as_bytes()]).await;
    }
    let ready = format!("ready:{topics}");
    scene.bare.command(&[b"HINCRBY", b"~stats", ready.as_bytes(), b"7"]).await;
    let audit = scene.admin.audit(|_| {}).await.unwrap();
    let drifts: BTreeMap<_, _> = audit
        .drifts
        .iter()
        .map(|drift| ((drift.topic.as_str(), drift.counter), drift.says - drift.is))
        .collect();
    let wanted = BTreeMap::from([
        (("load", "ready"), 7),
        (("stuck", "accepted"), 2),
        (("stuck", "leased"), -3),
        (("stuck", "ready"), 5),
    ]);
    assert_eq!(drifts, wanted, "{audit:#?}");
    let repaired = scene.admin.repair(audit, |_| {}).await.unwrap();
    assert!(repaired.left.is_clean(), "{repaired:#?}");
    load.stop().await;
    scene.drain().await;
    for topic in ["stuck", "load"] {
        let numbers = scene.admin.count(&Topic::new(topic).unwrap()).await.unwrap();
        assert_eq!((numbers.pending(), numbers.balances()), (0, true), "{topic}: {numbers:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_is_under_way_looks_stuck() {
    let scene = Scene::new().await;
    let load = Load::start(&scene);
    for _ in 0..10 {
        load.turns().await;
        let (audit, _) = scene.found().await;
        assert!(audit.is_clean() && audit.uncounted.is_empty(), "{audit:#?}");
    }
    load.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_the_wrong_type_is_named_and_left_to_the_operator() {
    let mut scene = Scene::new().await;
    scene.put(scene.message("a").after(FAR)).await;
    scene.bare.command(&[b"SET", b"~d:1", b"x"]).await;
    scene.bare.command(&[b"RPUSH", b"~m:1:b", b"x"]).await;
    let (audit, found) = scene.found().await;
    let wrong = [("d:1 "), ("m b")].map(|name| (FindingKind::WrongType, name.to_owned()));
    assert_eq!(found, BTreeSet::from(wrong));
    let repaired = scene.admin.repair(audit, |_| {}).await.unwrap();
    assert!(repaired.mended.is_empty() && !repaired.left.is_clean(), "{repaired:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_the_wrong_type_keeps_no_sweep_from_its_end() {
    let mut scene = Scene::new().await;
    scene.put(scene.message("a").after(FAR)).await;
    scene.bare.command(&[b"ZADD", b"~g:nobody", b"1", b"1:nobody"]).await;
    let keep_one = Policy { dead_max: Some(1), ..Policy::default() };
    scene.admin.change_policy(&scene.stuck, &keep_one, &[]).await.unwrap();
    for key in ["d:1", "stats"] {
        let name = format!("~{key}");
        scene.bare.command(&[b"DEL", name.as_bytes()]).await;
        scene.bare.command(&[b"SET", name.as_bytes(), b"x"]).await;
    }
    let audit = scene.found().await.0;
    assert_eq!(audit.findings.len(), 3, "{audit:#?}");
    let faults = scene.swept(true).await;
    let of = |kind| {
        faults.iter().filter(|fault| fault.kind == kind).map(|fault| &fault.mending).collect::<Vec<_>>()
    };
    assert_eq!(of("wrong_type"), [&SweptMending::Left, &SweptMending::Left], "{faults:#?}");
    assert!(matches!(of("stale_entry")[..], [SweptMending::Failed(_)]), "{faults:#?}");
    let repaired = scene.admin.repair(audit, |_| {}).await.unwrap();
    assert_eq!((repaired.mended.len(), repaired.failed.len()), (0, 1), "{repaired:#?}");

    scene.bare.command(&[b"DEL", b"~d:1", b"~g:nobody"]).await;
    let uncounted = scene.found().await.0.uncounted;
    assert_eq!(uncounted.first().map(|not| not.why), Some("wrong_type"), "{uncounted:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_that_looks_wrong_for_a_message_that_got_stuck_meanwhile_is_left_alone() {
    let mut scene = Scene::new().await;
    scene.put(scene.message("a").after(FAR)).await;
    let mut sweep = scene.admin.sweep(1.0, true);
    // The walk has looked at the message before it loses its place, and counts its topic behind that.
    while sweep.next().await.unwrap().unwrap().looked_at == 0 {}
    let bucket = scene.bucket_of("a").await;
    scene.take_out(&bucket, "a").await;
    assert_eq!(swept_by(&mut sweep).await, [], "the count is off by one for this walk alone");
    let faults = swept_by(&mut sweep).await;
    assert_eq!(kinds(&faults), ["no_place"], "{faults:#?}");
    // A message without a place counted as ready: that much is left.
    assert_eq!(swept_by(&mut sweep).await.len(), 1);
    assert_eq!(swept_by(&mut sweep).await, []);
    assert!(scene.found().await.0.is_clean());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_that_grows_faster_than_it_is_looked_at_does_not_keep_a_sweep_from_ending() {
    const STEPS: u64 = 100;
    // What comes in behind its end may have higher scores, or be later members of one.
    for by in [1, 0] {
        let mut scene = Scene::new().await;
        let mut grow = async |from: u64| {
            let mut add = vec![b"ZADD".to_vec(), b"~expiries".to_vec()];
            for n in from..from + 300 {
                let score = NEVER.get() + by * n;
                add.extend([score.to_string().into_bytes(), format!("1:nobody-{n:06}").into_bytes()]);
            }
            scene.bare.command(&add.iter().map(Vec::as_slice).collect::<Vec<_>>()).await;
        };
        grow(0).await;
        let (mut sweep, mut found, mut steps) = (scene.admin.sweep(1.0, false), 0, 0);
        while let Some(swept) = sweep.next().await.unwrap() {
            found += swept.faults.len();
            steps += 1;
            assert!(steps < STEPS, "{found} found");
            grow(300 * steps).await;
        }
        assert!(found >= 300, "{found}: what was there at first is looked at");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_in_any_step_of_a_sweep_makes_it_pass_over_nothing() {
    let mut scene = Scene::new().await;
    for n in 0..600 {
        scene.put(scene.message(&format!("m{n}")).after(FAR)).await;
    }
    let bucket = scene.bucket_of("m0").await;
    scene.take_out(&bucket, "m0").await;
    scene.bare.command(&[b"ZADD", b"~g:nobody", b"1", b"1:nobody"]).await;
    let calm = kinds(&swept_by(&mut scene.admin.sweep(1.0, false)).await);
    assert_eq!(calm, ["no_place", "stale_entry"]);
    let (mut sweep, mut faults, mut failures) = (scene.admin.sweep(1.0, false), Vec::new(), 0);
    loop {
        // Each step fails once: what it reads by is denied.
        scene.allow("-@read").await;
        failures += u64::from(sweep.next().await.is_err());
        scene.allow("+@read").await;
        match sweep.next().await.unwrap() {
            Some(swept) => faults.extend(swept.faults),
            None => break,
        }
    }
    assert!(failures > 5, "{failures}");
    assert_eq!(kinds(&faults), calm);
}
