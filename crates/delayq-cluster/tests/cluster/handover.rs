//! Members come, go and die while etcd is well.

use crate::fleet::{Floor, Member, config, s};
use crate::scope::Scope;
use delayq_cluster::{Cluster, ClusterError, Observer, Plan};
use delayq_tests::deadline::{LONG, wait_for};
use delayq_tests::etcd_server::EtcdCluster;
use delayq_tests::timing::conclusive;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn the_first_member_owns_everything_and_the_second_gets_half() {
    let scope = Scope::shared().await;
    let floor = Floor::new();
    let first = Member::join(scope.config("a", 33), &floor).await;
    floor.until("a owns all", |work| work.balanced(33, &["a"])).await;
    let second = Member::join(scope.config("b", 33), &floor).await;
    floor.until("a and b share", |work| work.balanced(33, &["a", "b"])).await;

    let work = floor.work();
    assert_eq!((work.claims, work.fenced), (33 + 16, 16), "no more moves than needed");
    assert_eq!(work.longest_gap, Duration::ZERO, "a pumped each until b had it");
    let overview = second.overview().await;
    assert_eq!((overview.unplanned, overview.unreadable), (vec![], vec![]));
    assert_eq!(
        overview.members.iter().map(|m| (m.name.as_str(), m.leader)).collect::<Vec<_>>(),
        [("a", true), ("b", false)]
    );
    first.leave().await;
    second.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_hands_256_shards_over_in_less_than_a_second() {
    conclusive(async || {
        let scope = Scope::shared().await;
        let floor = Floor::new();
        let leader = Member::join(scope.config("a", 512), &floor).await;
        let heir = Member::join(scope.config("b", 512), &floor).await;
        floor.until("a and b share", |work| work.balanced(512, &["a", "b"])).await;

        // The draining leader must plan itself away first.
        leader.handle.drain();
        let took = floor.until("b owns all", |work| work.balanced(512, &["b"])).await;
        let gap = floor.work().longest_gap;
        println!("256 shards handed over in {took:?}, each without a worker for {gap:?} at most");
        assert!(leader.overview().await.members[0].draining);
        assert_eq!(gap, Duration::ZERO);
        let timing = floor.judge("the hand-over", took, s(1));
        leader.leave().await;
        let overview = heir.overview().await;
        assert_eq!(overview.members.len(), 1);
        timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_members_shards_are_owned_elsewhere_within_the_lease_and_two_seconds() {
    conclusive(async || {
        let scope = Scope::shared().await;
        let floor = Floor::new();
        let leader = Member::join(scope.config("a", 64), &floor).await;
        let other = Member::join(scope.config("b", 64), &floor).await;
        let third = Member::join(scope.config("c", 64), &floor).await;
        floor.until("all share", |work| work.balanced(64, &["a", "b", "c"])).await;

        let granted = leader.handle.granted_ttl().unwrap();
        leader.die();
        let took = floor.until("b and c share", |work| work.balanced(64, &["b", "c"])).await;
        println!("a dead leader's shards are owned elsewhere after {took:?} (lease {granted:?})");
        let timing = floor.judge("the take-over", took, granted + s(2));
        assert!(other.overview().await.members[0].leader);
        drop(third);
        timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_heir_that_cannot_claim_takes_nothing_away() {
    let scope = Scope::shared().await;
    let floor = Floor::new();
    let owner = Member::join(scope.config("owner", 16), &floor).await;
    floor.until("it owns all", |work| work.balanced(16, &["owner"])).await;
    let heir = Cluster::start(scope.config("heir", 16)).await.unwrap();
    heir.subscribe().wait_for(|view| view.planned.len() == 8).await.unwrap();
    owner.handle.subscribe().wait_for(|view| view.planned.len() == 8).await.unwrap();
    // The heir leaves: the owner pumped all the time, and has nothing to claim.
    assert!(heir.leave(s(5)).await);
    owner.handle.subscribe().wait_for(|view| view.planned.len() == 16).await.unwrap();
    let work = floor.work();
    assert_eq!((work.of("owner"), work.claims, work.fenced), (16, 16, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_members_start_at_once() {
    let scope = Scope::shared().await;
    let floor = Floor::new();
    let joining: Vec<_> = (0..200)
        .map(|n| {
            let mut config = scope.config(&format!("m{n}"), 256);
            // The test is about the start, not about 200 keep-alives in this machine's spare time.
            config.etcd.lease_ttl = s(60).into();
            config.etcd.call_deadline = s(10).into();
            let floor = floor.clone();
            tokio::spawn(async move { Member::join(config, &floor).await })
        })
        .collect();
    let mut members = Vec::new();
    for joined in joining {
        members.push(joined.await.unwrap());
    }
    let names: Vec<String> = members.iter().map(|member| member.name.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let took = floor.until("200 share", |work| work.balanced(256, &names)).await;
    let overview = members[0].overview().await;
    println!(
        "200 members settled {took:?} after the last joined, plan version {}",
        overview.plan.unwrap().version
    );
    assert_eq!(overview.members.iter().filter(|member| member.leader).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_comes_back_under_its_name_gets_its_shards_back() {
    let scope = Scope::shared().await;
    let floor = Floor::new();
    let patient = |name: &str| {
        let mut config = scope.config(name, 40);
        // The leader waits long enough for the member to return before a plan without that member.
        (config.plan_quiet, config.plan_at_most) = (s(1), s(3));
        config
    };
    let _stays = Member::join(patient("a"), &floor).await;
    let leaves = Member::join(patient("b"), &floor).await;
    floor.until("a and b share", |work| work.balanced(40, &["a", "b"])).await;
    let (owned_before, claims) = (floor.work().shards_of("b"), floor.work().claims);
    // A foreign tool revokes the lease: etcd answers *gone*, and a new life begins.
    let before = leaves.handle.member().unwrap();
    let lease = i64::from_str_radix(before.as_str().rsplit('-').next().unwrap(), 16).unwrap();
    let mut tool = scope.tool().await;
    tool.lease_revoke(lease).await.unwrap();

    leaves.until_stats("another life", |stats| stats.leases_granted == 2).await;
    leaves.handle.subscribe().wait_for(|view| view.planned.len() == 20).await.unwrap();
    assert_ne!(leaves.handle.member().unwrap(), before);
    assert!(leaves.is_trusted());
    assert_eq!(floor.work().shards_of("b"), owned_before);
    assert_eq!(floor.work().claims, claims, "it pumped them all the time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_deleted_by_hand_is_written_again_and_nothing_moves() {
    let scope = Scope::shared().await;
    let floor = Floor::new();
    let _first = Member::join(scope.config("a", 16), &floor).await;
    // The plan needs a past: a plan from nothing would differ.
    floor.until("a owns all", |work| work.balanced(16, &["a"])).await;
    let _second = Member::join(scope.config("b", 16), &floor).await;
    floor.until("a and b share", |work| work.balanced(16, &["a", "b"])).await;
    let moved = floor.work().claims;
    let mut tool = scope.tool().await;
    let mut watch = tool.watch(scope.key("plan"), None).await.unwrap();
    tool.delete(scope.key("plan"), None).await.unwrap();
    until_written(&mut watch).await;
    floor.until("a and b share", |work| work.balanced(16, &["a", "b"])).await;
    assert_eq!(floor.work().claims, moved);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_fleet_asks_etcd_for_nothing_but_its_keep_alives() {
    let etcd = EtcdCluster::start_one().await;
    let floor = Floor::new();
    let mut members = Vec::new();
    for n in 0..5 {
        members.push(Member::join(config(&etcd.endpoints(), &format!("m{n}"), 64), &floor).await);
    }
    let names = ["m0", "m1", "m2", "m3", "m4"];
    floor.until("five share", |work| work.balanced(64, &names)).await;
    let (before, since) = (etcd.members()[0].received().await, Instant::now());
    let rise = |(method, n): (String, f64)| {
        let rise = n - before.get(&method).copied().unwrap_or(0.0);
        (rise > 0.0).then_some((method, rise))
    };
    let grown = wait_for("four rounds of keep-alives", LONG, || async {
        let grown: BTreeMap<String, f64> =
            etcd.members()[0].received().await.into_iter().filter_map(rise).collect();
        grown.get("LeaseKeepAlive").is_some_and(|&count| count >= 20.0).then_some(grown)
    })
    .await;
    let took = since.elapsed();
    println!("messages in {took:?} from 5 members with a lease of 3 s: {grown:?}");
    assert_eq!(grown.keys().collect::<Vec<_>>(), ["LeaseKeepAlive"], "and nothing else");
    // A third of the lease is a second: the first round may have come at once, the other three in their time.
    // Half a second is left for a slow arrival.
    assert!(took > Duration::from_millis(2_500), "four rounds in {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_is_not_there_is_said_so() {
    let mut config = config(&["http://127.0.0.1:9".to_owned()], "a", 8);
    let error = Observer::new(&config).unwrap().overview().await.unwrap_err();
    assert!(matches!(error, ClusterError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("http://127.0.0.1:9"), "{error}");
    config.etcd.endpoints.clear();
    assert!(matches!(Cluster::start(config).await.err(), Some(ClusterError::Config(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_keys_in_the_fleet_are_named_and_change_nothing() {
    let scope = Scope::shared().await;
    let floor = Floor::new();
    let mut tool = scope.tool().await;
    // Older than every member, and without a lease: a member that waited for these keys to go would never lead.
    for key in ["members/junk", "members/other"] {
        tool.put(scope.key(key), "not a document", None).await.unwrap();
    }
    let first = Member::join(scope.config("a", 8), &floor).await;
    let _second = Member::join(scope.config("b", 8), &floor).await;
    floor.until("a and b share", |work| work.balanced(8, &["a", "b"])).await;
    let overview = first.overview().await;
    assert_eq!(overview.unreadable.len(), 2, "{:?}", overview.unreadable);
    assert_eq!(overview.members.len(), 2);
    assert!(overview.members[0].leader);
    // An unreadable plan keeps every member in place until the leader has written another plan.
    let mut watch = tool.watch(scope.key("plan"), None).await.unwrap();
    tool.put(scope.key("plan"), r#"{"format":99}"#, None).await.unwrap();
    until_written(&mut watch).await;
    floor.until("a and b share", |work| work.balanced(8, &["a", "b"])).await;
}

async fn until_written(watch: &mut etcd_client::WatchStream) {
    let readable = |event: &etcd_client::Event| {
        let value = event.kv().map(etcd_client::KeyValue::value).unwrap_or_default();
        Plan::from_json(value).is_ok()
    };
    loop {
        let message = tokio::time::timeout(LONG, watch.message()).await.unwrap().unwrap().unwrap();
        if message.events().iter().any(readable) {
            return;
        }
    }
}
