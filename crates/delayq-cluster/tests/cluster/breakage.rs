//! etcd breaks in every possible way: shards stay with their single owners, and in the end every shard has an owner.

use crate::fleet::{Floor, Member, config, s};
use delayq_cluster::{ClusterError, ClusterStats, ShardId, Trust};
use delayq_tests::etcd_server::EtcdCluster;
use delayq_tests::proxy::{Direction, Flow, Proxy};
use std::time::Duration;

async fn three_members(etcd: &EtcdCluster, floor: &Floor, shards: u16) -> Vec<Member> {
    let mut members = Vec::new();
    for name in ["a", "b", "c"] {
        members.push(Member::join(config(&etcd.endpoints(), name, shards), floor).await);
    }
    floor.until("all share", |work| work.balanced(shards, &["a", "b", "c"])).await;
    members
}

fn endpoint_of(proxy: &Proxy) -> String {
    format!("http://{}", proxy.address())
}

async fn takes_in_a_fourth(etcd: &EtcdCluster, floor: &Floor, shards: u16) -> Member {
    let fourth = Member::join(config(&etcd.endpoints(), "d", shards), floor).await;
    floor.until("four share", |work| work.balanced(shards, &["a", "b", "c", "d"])).await;
    fourth
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_etcd_leader_costs_nobody_a_shard() {
    let mut etcd = EtcdCluster::start_three().await;
    let floor = Floor::new();
    let members = three_members(&etcd, &floor, 48).await;
    let moved = floor.work().claims;
    let leader = etcd.leader().await;
    etcd.member(leader).kill().await;
    let fourth = takes_in_a_fourth(&etcd, &floor, 48).await;
    let work = floor.work();
    assert_eq!(work.claims - moved, 12, "only what the fourth member needed moved");
    assert!(members.iter().all(|member| member.handle.stats().leases_lost == 0));
    drop(fourth);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_of_etcd_costs_nobody_a_shard() {
    let mut etcd = EtcdCluster::start_three().await;
    let floor = Floor::new();
    let members = three_members(&etcd, &floor, 48).await;
    let moved = floor.work().claims;
    for node in 0..3 {
        etcd.member(node).kill().await;
        etcd.member(node).resume().await;
    }
    let _fourth = takes_in_a_fourth(&etcd, &floor, 48).await;
    let work = floor.work();
    assert_eq!(work.claims - moved, 12);
    assert!(members.iter().all(|member| member.handle.stats().leases_lost == 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_quorum_members_keep_what_they_own() {
    let mut etcd = EtcdCluster::start_three().await;
    let floor = Floor::new();
    let members = three_members(&etcd, &floor, 24).await;
    let moved = floor.work().claims;
    etcd.member(1).kill().await;
    etcd.member(2).kill().await;
    for member in &members {
        member.until_trust("degraded").await;
        assert!(!member.is_trusted());
    }
    assert!(floor.work().balanced(24, &["a", "b", "c"]));
    let unknown = members[0].handle.still_mine(&[ShardId::new(0)]).await.unwrap_err();
    assert!(matches!(unknown, ClusterError::Unreachable { .. }), "{unknown}");
    let newcomer = Member::start(config(&etcd.endpoints(), "new", 24), &floor).await;
    // Well beyond the lease: without a quorum no lease can run out either.
    tokio::time::sleep(2 * members[0].handle.granted_ttl().unwrap()).await;
    assert_eq!((newcomer.handle.trust(), floor.work().of("new")), (Trust::Joining, 0));
    assert!(floor.work().balanced(24, &["a", "b", "c"]));
    newcomer.leave().await;
    etcd.member(1).launch();
    etcd.member(2).resume().await;
    for member in &members {
        member.until_trust("trusted").await;
    }
    let _fourth = takes_in_a_fourth(&etcd, &floor, 24).await;
    let work = floor.work();
    assert_eq!(work.claims - moved, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_etcd_members_degrade_everybody_and_nobody_stops() {
    let etcd = EtcdCluster::start_three().await;
    let floor = Floor::new();
    let members = three_members(&etcd, &floor, 24).await;
    etcd.freeze();
    for member in &members {
        member.until_trust("degraded").await;
    }
    assert!(floor.work().balanced(24, &["a", "b", "c"]), "everybody goes on");
    etcd.thaw();
    for member in &members {
        member.until_trust("trusted").await;
    }
    floor.until("all share", |work| work.balanced(24, &["a", "b", "c"])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_frozen_etcd_member_is_left_for_another_and_nobody_loses_a_shard() {
    let etcd = EtcdCluster::start_three().await;
    let floor = Floor::new();
    let mut members = Vec::new();
    for name in ["a", "b", "c"] {
        let mut config = config(&etcd.endpoints(), name, 24);
        // A keep-alive each two and a half seconds, a second for its answer: one lost answer leaves time for another.
        config.etcd.lease_ttl = s(8).into();
        members.push(Member::join(config, &floor).await);
    }
    floor.until("all share", |work| work.balanced(24, &["a", "b", "c"])).await;
    let moved = floor.work().claims;
    let sum = |count: fn(&ClusterStats) -> u64| members.iter().map(|m| count(&m.handle.stats())).sum::<u64>();
    for node in 0..3 {
        let leads = etcd.leader().await == node;
        let (reconnects, degraded) = (sum(|stats| stats.reconnects), sum(|stats| stats.degraded));
        let answered: Vec<_> = members.iter().map(Member::trusted_until).collect();
        etcd.members()[node].freeze();
        // Wait for a later keep-alive of every member: a member of the frozen server has noticed the silence by then.
        for (member, before) in members.iter().zip(answered) {
            member.until_trusted_beyond(before).await;
        }
        etcd.members()[node].thaw();
        let went = sum(|stats| stats.reconnects) - reconnects;
        println!("etcd member {node} (leader: {leads}) frozen: {went} members went elsewhere");
        // Without etcd's leader no server answers until the next election, which may outlast the trust.
        assert!(leads || sum(|stats| stats.degraded) == degraded);
        for member in &members {
            member.until_trust("trusted").await;
        }
    }
    let work = floor.work();
    assert_eq!((work.claims - moved, work.fenced), (0, 0));
    assert!(sum(|stats| stats.reconnects) > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_emptied_and_rebuilt_is_joined_again() {
    let mut etcd = EtcdCluster::start_one().await;
    let floor = Floor::new();
    let members = three_members(&etcd, &floor, 24).await;
    // Push the revisions well beyond the future revisions of the rebuilt etcd: a member that waited for the
    // old revisions would wait for ever.
    let mut tool = etcd_client::Client::connect(etcd.endpoints(), None).await.unwrap();
    for n in 0..500 {
        tool.put("elsewhere", n.to_string(), None).await.unwrap();
    }
    etcd.rebuild().await;
    for member in &members {
        member.until_stats("joining again", |stats| stats.leases_granted == 2).await;
    }
    assert_eq!(floor.work().longest_gap, Duration::ZERO, "everybody pumped on");
    floor.until("all share", |work| work.balanced(24, &["a", "b", "c"])).await;
    let _fourth = takes_in_a_fourth(&etcd, &floor, 24).await;
    assert!(members.iter().all(|member| member.handle.stats().leases_granted == 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_cut_off_from_etcd_goes_on_until_it_is_fenced() {
    let etcd = EtcdCluster::start_one().await;
    let floor = Floor::new();
    let proxy = Proxy::start(&etcd.members()[0].address());
    let cut = Member::join(config(&[endpoint_of(&proxy)], "cut", 16), &floor).await;
    let well = Member::join(config(&etcd.endpoints(), "well", 16), &floor).await;
    floor.until("both share", |work| work.balanced(16, &["cut", "well"])).await;
    let fenced = floor.work().fenced;
    proxy.set_both(Flow::Hold);
    cut.until_trust("degraded").await;
    assert_eq!(floor.work().of("cut"), 8, "it goes on");
    // The lease runs out in etcd: the other member takes over, and fences this member, which cannot ask for
    // shards and claims none.
    floor.until("well takes all", |work| work.balanced(16, &["well"])).await;
    assert_eq!(floor.work().fenced - fenced, 8);
    proxy.set_both(Flow::Pass);
    floor.until("both share", |work| work.balanced(16, &["cut", "well"])).await;
    assert_eq!(cut.handle.stats().leases_lost, 1);
    assert_eq!(well.handle.stats().leases_lost, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_compacted_under_a_watch_is_read_again() {
    let etcd = EtcdCluster::start_one().await;
    let floor = Floor::new();
    // A change of the drains makes the leader ask etcd, which the pause would cut off.
    let _leader = Member::join(config(&etcd.endpoints(), "leader", 16), &floor).await;
    let proxy = Proxy::start(&etcd.members()[0].address());
    // A long lease, so that no keep-alive falls into the pause, even on a busy machine.
    let mut slow = config(&[endpoint_of(&proxy)], "slow", 16);
    slow.etcd.lease_ttl = s(600).into();
    let slow = Member::join(slow, &floor).await;
    floor.until("both share", |work| work.balanced(16, &["leader", "slow"])).await;
    let before = slow.handle.stats();
    let mut tool = etcd_client::Client::connect(etcd.endpoints(), None).await.unwrap();
    // etcd may drop a watcher that does not read, or still have its events at hand: both happen.
    let mut rounds = 0;
    while slow.handle.stats().compacted == 0 {
        rounds += 1;
        assert!(rounds < 20, "etcd never gave the watch up");
        proxy.set(Direction::Replies, Flow::Unread);
        fill_a_watch_of_drains(&mut tool).await;
        let compacted_at = tool.get("x", None).await.unwrap().header().unwrap().revision();
        tool.compact(compacted_at, None).await.unwrap();
        proxy.set(Direction::Replies, Flow::Pass);
        let compacted = slow.until_stats("a compacted watch", |stats| stats.compacted > 0);
        let _ = tokio::time::timeout(s(5), compacted).await;
    }
    let _other = Member::join(config(&etcd.endpoints(), "other", 16), &floor).await;
    floor.until("all share", |work| work.balanced(16, &["leader", "slow", "other"])).await;
    let after = slow.handle.stats();
    assert_eq!((before.reconnects, before.compacted), (0, 0));
    assert_eq!(after.reconnects, 0, "the connection held");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_leaves_while_etcd_is_silent_stops_all_the_same() {
    let etcd = EtcdCluster::start_one().await;
    let floor = Floor::new();
    let member = Member::join(config(&etcd.endpoints(), "a", 8), &floor).await;
    floor.until("a owns all", |work| work.balanced(8, &["a"])).await;
    etcd.freeze();
    member.until_trust("degraded").await;
    member.handle.drain();
    assert!(!member.handle.leave(Duration::from_millis(100)).await, "its lease cannot be given back");
    floor.until("its consumer stops", |work| work.of("a") == 0).await;
    etcd.thaw();
}

/// Writes more over the drains than the connection and etcd hold back for one unread watch: first more than
/// the two megabytes that the client accepts on one stream, then more messages than etcd keeps.
async fn fill_a_watch_of_drains(tool: &mut etcd_client::Client) {
    let drains = "/delayq/dq/timer/drains";
    let long = format!(r#"{{"format":1,"members":{{"{}":{{"since_ms":0}}}}}}"#, "x".repeat(50_000));
    for _ in 0..60 {
        tool.put(drains, long.as_str(), None).await.unwrap();
    }
    for _ in 0..1_500 {
        tool.put(drains, r#"{"format":1,"members":{}}"#, None).await.unwrap();
    }
    tool.delete(drains, None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_revoked_while_draining_ends_the_membership() {
    let etcd = EtcdCluster::start_one().await;
    let handle = delayq_cluster::Cluster::start(config(&etcd.endpoints(), "a", 8)).await.unwrap();
    let mut view = handle.subscribe();
    view.wait_for(|view| view.planned.len() == 8).await.unwrap();
    handle.drain();
    view.wait_for(|view| view.nobodys.len() == 8).await.unwrap();
    let id = handle.member().unwrap();
    let lease = i64::from_str_radix(id.as_str().rsplit('-').next().unwrap(), 16).unwrap();
    let mut tool = etcd_client::Client::connect(etcd.endpoints(), None).await.unwrap();
    tool.lease_revoke(lease).await.unwrap();
    view.wait_for(|view| view.trust == delayq_cluster::Trust::Left).await.unwrap();
    let failed = tokio::time::timeout(Duration::from_millis(200), handle.failed()).await;
    assert!(failed.is_err(), "no task failed: {failed:?}");
    assert!(handle.leave(s(5)).await);
}
