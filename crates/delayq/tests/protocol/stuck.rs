//! Every way for a message to get stuck, under load: an audit names the fault, a repair frees the message.

mod load;
mod plant;
mod scene;

use delayq::admin::{FindingKind, Policy, Sweep, SweptFault, SweptMending};
use delayq::protocol::Holder;
use delayq::{Topic, UnixMillis};
use load::Load;
use scene::{Scene, own, swept_by};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const FAR: Duration = Duration::from_secs(3600);
/// An expiry that no test reaches.
const NEVER: UnixMillis = UnixMillis::new(4_102_444_800_000);

/// Findings of the sweep's next walk without counters, which every loss changes.
async fn stuck_by(sweep: &mut Sweep) -> Vec<&'static str> {
    let mut faults = swept_by(sweep).await;
    faults.retain(|fault| fault.kind != "counter");
    kinds(&faults)
}

fn kinds(faults: &[SweptFault]) -> Vec<&'static str> {
    let mut kinds: Vec<_> = faults.iter().map(|fault| fault.kind).collect();
    kinds.sort_unstable();
    kinds
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_got_stuck_is_named_by_an_audit_and_mended_by_a_repair_while_all_goes_on() {
    let mut scene = Scene::new().await;
    let load = Load::start(&scene);
    load.turns().await;
    let planted = scene.plant().await;
    let (audit, found) = scene.found().await;
    assert_eq!(found, planted);

    let repaired = scene.admin.audit().repair(audit, |_| {}).await.unwrap();
    assert!(repaired.left.is_clean() && repaired.failed.is_empty(), "{repaired:#?}");
    let kinds: BTreeSet<_> = planted.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(repaired.mended.keys().copied().collect::<BTreeSet<_>>(), kinds, "{repaired:#?}");
    load.turns().await;
    let (audit, _) = scene.found().await;
    assert!(audit.is_clean(), "{audit:#?}");
    load.stop().await;

    let delivered = scene.drain().await;
    for id in ["lost-ready", "lost-delayed", "unleased", "rings", "alone", "parked"] {
        assert!(delivered.contains(id), "{id} is not among {delivered:?}");
    }
    let numbers = scene.admin.topic(&scene.stuck).count().await.unwrap();
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

    // Mending may reveal a fault behind, such as an entry that is stale now.
    let (mut sweep, mut mended) = (scene.admin.audit().sweep(1.0, true), BTreeSet::new());
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
    for id in ["lost-ready", "lost-delayed", "unleased", "rings", "alone", "parked"] {
        assert!(delivered.contains(id), "{id} is not among {delivered:?}");
    }
    for topic in ["stuck", "load"] {
        let numbers = scene.admin.topic(&Topic::new(topic).unwrap()).count().await.unwrap();
        assert_eq!((numbers.pending(), numbers.balances()), (0, true), "{topic}: {numbers:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_leaves_a_shard_in_which_nothing_is_wrong_as_it_is() {
    let mut scene = Scene::new().await;
    let load = Load::start(&scene);
    load.turns().await;
    load.stop().await;
    for id in ["dead", "leased"] {
        scene.put(scene.message(id)).await;
    }
    let receipt = scene.reserve().await.into_iter().find(|found| found.id == own("dead")).unwrap().receipt;
    Holder::new(scene.client.clone()).bury(&[(receipt, "of no use".to_owned())]).await.remove(0).unwrap();
    scene.put(scene.message("ready")).await;
    scene.put(scene.message("cancelled").after(FAR)).await;
    scene.producer.cancel(&scene.stuck, &own("cancelled").into()).await.unwrap();
    scene.put(scene.message("delayed").after(FAR).group("crew").unwrap().expires(NEVER)).await;
    let (before, mut sweep) = (scene.bare.snapshot().await, scene.admin.audit().sweep(1.0, true));
    for _ in 0..3 {
        assert_eq!(swept_by(&mut sweep).await, []);
    }
    assert_eq!(scene.bare.snapshot().await, before);
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
        let numbers = scene.admin.topic(&scene.stuck).count().await.unwrap();
        assert!(numbers.balances(), "{numbers:?}");
        (numbers.dead, numbers.purged)
    };
    let set = async |policy| scene.admin.topic(&scene.stuck).change_policy(&policy, &[]).await.unwrap();
    assert_eq!((scene.swept(true).await, left().await), (Vec::new(), (230, 0)), "all are kept by default");
    set(Policy { dead_max: Some(200), ..Policy::default() }).await;
    assert_eq!((scene.swept(false).await, left().await), (Vec::new(), (230, 0)), "a dry run purges nothing");
    assert_eq!((scene.swept(true).await, left().await), (Vec::new(), (200, 30)));
    // Letters of the first and the second step are older than that now, letters of the third are not.
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
    let audit = scene.admin.audit().run(|_| {}).await.unwrap();
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
    let repaired = scene.admin.audit().repair(audit, |_| {}).await.unwrap();
    assert!(repaired.left.is_clean(), "{repaired:#?}");
    load.stop().await;
    scene.drain().await;
    for topic in ["stuck", "load"] {
        let numbers = scene.admin.topic(&Topic::new(topic).unwrap()).count().await.unwrap();
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
    let repaired = scene.admin.audit().repair(audit, |_| {}).await.unwrap();
    assert!(repaired.mended.is_empty() && !repaired.left.is_clean(), "{repaired:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_the_wrong_type_keeps_no_sweep_from_its_end() {
    let mut scene = Scene::new().await;
    scene.put(scene.message("a")).await;
    let keep_one = Policy { dead_max: Some(1), ..Policy::default() };
    scene.admin.topic(&scene.stuck).change_policy(&keep_one, &[]).await.unwrap();
    for key in ["d:1", "r:1", "leases"] {
        let name = format!("~{key}");
        scene.bare.command(&[b"DEL", name.as_bytes()]).await;
        scene.bare.command(&[b"SET", name.as_bytes(), b"x"]).await;
    }
    let audit = scene.found().await.0;
    assert_eq!(audit.findings.len(), 4, "{audit:#?}");
    let faults = scene.swept(true).await;
    let of = |kind| {
        faults.iter().filter(|fault| fault.kind == kind).map(|fault| &fault.mending).collect::<Vec<_>>()
    };
    assert_eq!(of("wrong_type"), [&SweptMending::Left; 3], "{faults:#?}");
    assert!(matches!(of("no_place")[..], [SweptMending::Failed(_)]), "{faults:#?}");
    let repaired = scene.admin.audit().repair(audit, |_| {}).await.unwrap();
    assert_eq!((repaired.mended.len(), repaired.failed.len()), (0, 1), "{repaired:#?}");

    scene.bare.command(&[b"DEL", b"~d:1", b"~r:1"]).await;
    let repaired = scene.admin.audit().repair(scene.found().await.0, |_| {}).await.unwrap();
    assert_eq!((repaired.mended.len(), repaired.failed.len()), (1, 0), "{repaired:#?}");
    let uncounted = scene.found().await.0.uncounted;
    assert_eq!(uncounted.first().map(|not| not.why), Some("wrong_type"), "{uncounted:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_that_looks_wrong_for_a_message_that_got_stuck_meanwhile_is_left_alone() {
    let mut scene = Scene::new().await;
    scene.put(scene.message("a").after(FAR)).await;
    let mut sweep = scene.admin.audit().sweep(1.0, true);
    // The walk reads the message and its entry before the loss, and counts the topic after.
    let mut looked_at = 0;
    while looked_at < 2 {
        looked_at += sweep.next().await.unwrap().unwrap().looked_at;
    }
    let bucket = scene.bucket_of("a").await;
    scene.take_out(&bucket, "a").await;
    assert_eq!(swept_by(&mut sweep).await, [], "the count is off by one for this walk alone");
    let faults = swept_by(&mut sweep).await;
    assert_eq!(kinds(&faults), ["no_place"], "{faults:#?}");
    // A message without a place counted as ready: only the counter remains.
    assert_eq!(swept_by(&mut sweep).await.len(), 1);
    assert_eq!(swept_by(&mut sweep).await, []);
    assert!(scene.found().await.0.is_clean());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_that_grows_faster_than_it_is_looked_at_does_not_keep_a_sweep_from_ending() {
    const STEPS: u64 = 100;
    // Entries added behind the end may have higher scores, or be later members of the same score.
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
        let (mut sweep, mut found, mut steps) = (scene.admin.audit().sweep(1.0, false), 0, 0);
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
    let calm = kinds(&swept_by(&mut scene.admin.audit().sweep(1.0, false)).await);
    assert_eq!(calm, ["no_place", "stale_entry"]);
    let (mut sweep, mut faults, mut failures) = (scene.admin.audit().sweep(1.0, false), Vec::new(), 0);
    loop {
        // Each step fails once, since reading is denied.
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_messages_a_sweep_misses_no_place_and_no_body_and_the_next_ones_no_head() {
    let mut scene = Scene::new().await;
    for n in 0..22 {
        let some = (0..500).map(|at| scene.message(&format!("m{n:02}-{at:03}")).after(FAR + FAR / 2));
        for put in scene.producer.put_many(some.collect()).await {
            assert!(put.unwrap().outcome.is_accepted());
        }
    }
    let (mut sweep, bucket) = (scene.admin.audit().sweep(1.0, true), scene.bucket_of("m00-000").await);
    assert_eq!(swept_by(&mut sweep).await, []);

    // One fault at a time: a doubt about one entry of a bucket leads to a look at every entry.
    scene.take_out(&bucket, "m01-007").await;
    assert_eq!(stuck_by(&mut sweep).await, ["no_place"]);
    scene.delete("m:1:m02-007").await;
    assert_eq!(stuck_by(&mut sweep).await, ["stale_entry"]);
    for generation in [b"\0\0\0\x02", b"\0\0\0\x01"] {
        let stale = [&b"m03-007"[..], generation].concat();
        for to in [bucket.clone(), format!("b:1:{}", NEVER.get() / 3_600_000)] {
            scene.bare.command(&[b"ZADD", format!("~{to}").as_bytes(), b"4102444800001", &stale]).await;
            scene.bare.command(&[b"ZADD", b"~alarms", b"1", to.as_bytes()]).await;
            assert_eq!(stuck_by(&mut sweep).await, ["stale_entry"], "in {to}");
        }
    }

    // The entries exist, and only the heads reveal the fault.
    scene.bare.command(&[b"SETRANGE", b"~m:1:m04-007", b"4", b"gone"]).await;
    scene.bare.command(&[b"SET", b"~m:1:m05-007", b"tiny"]).await;
    let mut stuck = Vec::new();
    for _walk in 0..16 {
        stuck.extend(stuck_by(&mut sweep).await);
    }
    stuck.sort_unstable();
    assert_eq!(stuck, ["malformed", "no_place", "stale_entry", "stale_entry"]);
    assert_eq!(scene.found().await.1, BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_sweep_cannot_mend_in_one_step_it_mends_in_the_next() {
    let mut scene = Scene::new().await;
    scene.put(scene.message("a").after(FAR)).await;
    let bucket = scene.bucket_of("a").await;
    scene.take_out(&bucket, "a").await;
    scene.bare.command(&[b"ZADD", b"~g:nobody", b"1", b"1:nobody"]).await;
    let (mut sweep, mut faults, mut failures) = (scene.admin.audit().sweep(1.0, true), Vec::new(), 0);
    loop {
        scene.refuses_writes(true).await;
        let mut step = sweep.next().await;
        scene.refuses_writes(false).await;
        if step.is_err() {
            failures += 1;
            step = sweep.next().await;
        }
        match step.unwrap() {
            Some(swept) => faults.extend(swept.faults),
            None => break,
        }
    }
    assert!(failures >= 2, "{failures}");
    assert_eq!(kinds(&faults), ["no_place", "stale_entry"]);
    assert!(faults.iter().all(|fault| fault.mending == SweptMending::Mended), "{faults:#?}");
    assert_eq!(scene.found().await.1, BTreeSet::new());
}
