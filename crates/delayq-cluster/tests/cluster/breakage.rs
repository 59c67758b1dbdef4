//! etcd breaks in every way it can; what is owned stays owned by one, and in the end everything is.

use crate::fleet::{Floor, Member, config, s};
use crate::reader::ClaimReader;
use delayq_cluster::{ClusterError, ClusterStats, ShardId, Trust};
use delayq_tests::deadline::LONG;
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

/// A new member is taken in: the fleet does more than survive, it works.
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
    let moved = floor.work().losses.len();
    let leader = etcd.leader().await;
    etcd.member(leader).kill().await;
    let alive = (leader + 1) % 3;
    let reader = ClaimReader::start(&etcd.endpoints()[alive]).await;
    let fourth = takes_in_a_fourth(&etcd, &floor, 48).await;
    let work = floor.work();
    assert_eq!(work.overlaps, []);
    assert_eq!(work.losses.len() - moved, 12, "only what the fourth member needed moved");
    assert!(members.iter().all(|member| member.handle.stats().leases_lost == 0));
    reader.judge(48, 4).await;
    drop(fourth);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_of_etcd_costs_nobody_a_shard() {
    let mut etcd = EtcdCluster::start_three().await;
    let floor = Floor::new();
    let members = three_members(&etcd, &floor, 48).await;
    let moved = floor.work().losses.len();
    for node in 0..3 {
        etcd.member(node).kill().await;
        etcd.member(node).resume().await;
    }
    let reader = ClaimReader::start(&etcd.endpoints()[0]).await;
    let _fourth = takes_in_a_fourth(&etcd, &floor, 48).await;
    let work = floor.work();
    assert_eq!(work.overlaps, []);
    assert_eq!(work.losses.len() - moved, 12);
    assert!(members.iter().all(|member| member.handle.stats().leases_lost == 0));
    reader.judge(48, 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_quorum_members_keep_what_they_own_and_claim_nothing() {
    let mut etcd = EtcdCluster::start_three().await;
    let floor = Floor::new();
    let members = three_members(&etcd, &floor, 24).await;
    let moved = floor.work().losses.len();
    etcd.member(1).kill().await;
    etcd.member(2).kill().await;
    for member in &members {
        member.until_trust("degraded").await;
        assert!(!member.is_trusted());
    }
    assert!(floor.work().balanced(24, &["a", "b", "c"]));
    // Nobody can say whose a shard is, nor take a new member in.
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
    assert_eq!(work.overlaps, []);
    assert_eq!(work.losses.len() - moved, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_etcd_members_degrade_everybody_and_nobody_stops() {
    let etcd = EtcdCluster::start_three().await;
    let floor = Floor::new();
    let reader = ClaimReader::start(&etcd.endpoints()[0]).await;
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
    reader.judge(24, 3).await;
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
    let moved = floor.work().losses.len();
    let sum = |count: fn(&ClusterStats) -> u64| members.iter().map(|m| count(&m.handle.stats())).sum::<u64>();
    for node in 0..3 {
        let leads = etcd.leader().await == node;
        let (reconnects, degraded) = (sum(|stats| stats.reconnects), sum(|stats| stats.degraded));
        let answered: Vec<_> = members.iter().map(Member::trusted_until).collect();
        etcd.members()[node].freeze();
        // Until a later keep-alive of everybody was answered: a member that talked to the frozen one has met its silence.
        for (member, before) in members.iter().zip(answered) {
            member.until_trusted_beyond(before).await;
        }
        etcd.members()[node].thaw();
        let went = sum(|stats| stats.reconnects) - reconnects;
        println!("etcd member {node} (leader: {leads}) frozen: {went} members went elsewhere");
        // Without etcd's leader nobody can answer until there is another, and that may outlast the trust.
        assert!(leads || sum(|stats| stats.degraded) == degraded);
        for member in &members {
            member.until_trust("trusted").await;
        }
    }
    let work = floor.work();
    assert_eq!((work.losses.len() - moved, work.overlaps.len()), (0, 0));
    assert!(sum(|stats| stats.reconnects) > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_emptied_and_rebuilt_is_joined_again() {
    let mut etcd = EtcdCluster::start_one().await;
    let floor = Floor::new();
    let members = three_members(&etcd, &floor, 24).await;
    let owned = |member: &Member| member.handle.view().owned.keys().copied().collect::<Vec<_>>();
    let before: Vec<_> = members.iter().map(owned).collect();
    // Push the revisions well beyond what the rebuilt etcd will have: a member that waits for them waits for ever.
    let mut tool = etcd_client::Client::connect(etcd.endpoints(), None).await.unwrap();
    for n in 0..500 {
        tool.put("elsewhere", n.to_string(), None).await.unwrap();
    }
    etcd.rebuild().await;
    let losses = |work: &crate::fleet::Work| {
        work.losses.iter().filter(|(_, l)| !l.reason.awaits_confirmation()).count()
    };
    floor.until("everybody stopped", |work| losses(work) >= 24).await;
    floor.until("all share", |work| work.balanced(24, &["a", "b", "c"])).await;
    let reader = ClaimReader::start(&etcd.endpoints()[0]).await;
    let _fourth = takes_in_a_fourth(&etcd, &floor, 24).await;
    reader.judge(24, 4).await;
    assert!(members.iter().all(|member| member.handle.stats().leases_granted == 2));
    drop(before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_cut_off_from_etcd_goes_on_until_it_hears_that_it_is_lost() {
    let etcd = EtcdCluster::start_one().await;
    let floor = Floor::new();
    let proxy = Proxy::start(&etcd.members()[0].address());
    let cut = Member::join(config(&[endpoint_of(&proxy)], "cut", 16), &floor).await;
    let well = Member::join(config(&etcd.endpoints(), "well", 16), &floor).await;
    floor.until("both share", |work| work.balanced(16, &["cut", "well"])).await;
    proxy.set_both(Flow::Hold);
    cut.until_trust("degraded").await;
    assert_eq!(floor.work().of("cut"), 8, "it goes on");
    // The lease runs out in etcd: the other takes over, and for a while both work on the same shards.
    floor.until("well takes all", |work| work.of("well") == 16).await;
    assert_eq!(floor.work().of("cut"), 8, "it still does not know");
    proxy.set_both(Flow::Pass);
    floor.until("cut stops and both share", |work| work.balanced(16, &["cut", "well"])).await;
    // Which news reached it first, the new plan or the end of its lease, is chance.
    assert_eq!(cut.handle.stats().leases_lost, 1);
    assert_eq!(well.handle.stats().leases_lost, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_compacted_under_a_watch_is_read_again() {
    let etcd = EtcdCluster::start_one().await;
    let floor = Floor::new();
    let proxy = Proxy::start(&etcd.members()[0].address());
    // A lease so long that no keep-alive falls into the pause, on a busy machine neither.
    let mut slow = config(&[endpoint_of(&proxy)], "slow", 16);
    slow.etcd.lease_ttl = s(600).into();
    let slow = Member::join(slow, &floor).await;
    floor.until("slow owns all", |work| work.balanced(16, &["slow"])).await;
    let before = slow.handle.stats();
    let mut tool = etcd_client::Client::connect(etcd.endpoints(), None).await.unwrap();
    // Whether etcd gives a watcher up that does not read, or still had its events at hand, is etcd's business.
    let mut rounds = 0;
    while slow.handle.stats().compacted == 0 {
        rounds += 1;
        assert!(rounds < 20, "etcd never gave the watch up");
        proxy.set(Direction::Replies, Flow::Unread);
        fill_a_watch_of_claims(&mut tool).await;
        let compacted_at = tool.get("x", None).await.unwrap().header().unwrap().revision();
        tool.compact(compacted_at, None).await.unwrap();
        proxy.set(Direction::Replies, Flow::Pass);
        let compacted = slow.until_stats("a compacted watch", |stats| stats.compacted > 0);
        let _ = tokio::time::timeout(s(5), compacted).await;
    }
    let _other = Member::join(config(&etcd.endpoints(), "other", 16), &floor).await;
    floor.until("both share", |work| work.balanced(16, &["slow", "other"])).await;
    let after = slow.handle.stats();
    assert_eq!((before.reconnects, before.compacted), (0, 0));
    assert_eq!(after.reconnects, 0, "the connection held");
    assert_eq!(floor.work().overlaps, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_while_etcd_is_silent_stops_everything() {
    let etcd = EtcdCluster::start_one().await;
    let floor = Floor::new();
    let member = Member::join(config(&etcd.endpoints(), "a", 8), &floor).await;
    floor.until("a owns all", |work| work.balanced(8, &["a"])).await;
    etcd.freeze();
    member.until_trust("degraded").await;
    let report = member.handle.drain(Duration::from_millis(500)).await;
    assert_eq!(floor.work().of("a"), 0, "the consumer stopped");
    assert_eq!(report.left_over.len(), 8, "the claims are still in etcd");
    assert!(!member.handle.leave(Duration::from_millis(100)).await);
    etcd.thaw();
}

/// Deletes more under the claims' prefix than the connection and etcd hold back for one watcher that does not read:
/// first more than the two megabytes that the client lets come on one stream, then more messages than etcd keeps.
async fn fill_a_watch_of_claims(tool: &mut etcd_client::Client) {
    let claims = "/delayq/dq/timer/claims/";
    let put_all = |keys: Vec<String>| {
        etcd_client::Txn::new()
            .and_then(keys.into_iter().map(|key| etcd_client::TxnOp::put(key, "", None)).collect::<Vec<_>>())
    };
    let range = |end: &str| Some(etcd_client::DeleteOptions::new().with_range(format!("{claims}{end}")));
    let long = "x".repeat(10_000);
    for _ in 0..5 {
        tool.txn(put_all((0..100).map(|n| format!("{claims}x{n}{long}")).collect())).await.unwrap();
        tool.delete(format!("{claims}x"), range("y")).await.unwrap();
    }
    for batch in 0..15 {
        tool.txn(put_all((0..100).map(|n| format!("{claims}y{batch}-{n}")).collect())).await.unwrap();
        for n in 0..100 {
            tool.delete(format!("{claims}y{batch}-{n}"), None).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_revoked_while_draining_ends_the_drain() {
    let etcd = EtcdCluster::start_one().await;
    let floor = Floor::new();
    let (handle, mut ownership) =
        delayq_cluster::Cluster::join(config(&etcd.endpoints(), "a", 8)).await.unwrap();
    while ownership.view().owned.len() < 8 {
        ownership.next().await.unwrap();
    }
    let drain = tokio::spawn({
        let handle = handle.clone();
        async move { handle.drain(LONG).await }
    });
    // Nobody confirms: the drain waits until the lease is gone, and with it every claim.
    while ownership.next().await.unwrap().lost.is_empty() {}
    let id = handle.member().unwrap();
    let lease = i64::from_str_radix(id.as_str().rsplit('-').next().unwrap(), 16).unwrap();
    let mut tool = etcd_client::Client::connect(etcd.endpoints(), None).await.unwrap();
    tool.lease_revoke(lease).await.unwrap();
    assert_eq!(drain.await.unwrap().left_over, []);
    // The claims' end may be seen before the lease's.
    let mut view = handle.subscribe();
    view.wait_for(|view| view.trust == delayq_cluster::Trust::Left).await.unwrap();
    let failed = tokio::time::timeout(Duration::from_millis(200), handle.failed()).await;
    assert!(failed.is_err(), "no task failed: {failed:?}");
    assert!(handle.leave(s(5)).await);
    drop(floor);
}
