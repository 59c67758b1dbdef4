//! etcd loses its content while messages become due: a lease, everything, the history, the tokens.

use crate::bounds::{ETCD_COMPACTED, ETCD_REBUILT, LEASE_REVOKED, TOKEN_LOST};
use crate::drill::Drill;
use crate::fleet::{Fleet, Route};
use delayq_service::config::Secret;
use delayq_tests::deadline::{SHORT, wait_until};
use delayq_tests::etcd_server::EtcdCluster;
use delayq_tests::proxy::{Flow, Proxy};
use delayq_tests::timing::conclusive;
use std::time::Duration;

const SHARDS: u16 = 16;
const ROOT: &str = "--user=root:root-password";

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_revoked_by_hand_is_noticed_and_the_shards_go_on() {
    conclusive(async || {
        let drill = Drill::new(Fleet::with(SHARDS).await).await;
        let (one, other) = drill.pair().await;
        let load = drill.load().await;
        let members = drill.fleet.etcd.keys("/delayq/dq/timer/members/").await;
        let lease = members.first().unwrap().rsplit('-').next().unwrap();
        drill.fleet.etcd.ctl(&["lease", "revoke", lease]).await;
        wait_until("a new registration", SHORT, || async {
            let now = drill.fleet.etcd.keys("/delayq/dq/timer/members/").await;
            now.len() == 2 && now != members
        })
        .await;
        drill.settled(&[&one, &other]).await;
        drill.flows().await;
        load.stop().await;
        drill.judge(&LEASE_REVOKED).await.timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn timers_whose_keys_are_deleted_while_their_leases_live_join_again() {
    conclusive(async || {
        let drill = Drill::new(Fleet::with(SHARDS).await).await;
        let (one, other) = drill.pair().await;
        let load = drill.load().await;
        let members = drill.fleet.etcd.keys("/delayq/dq/timer/members/").await;
        drill.fleet.etcd.ctl(&["del", "--prefix", "/delayq/"]).await;
        wait_until("two new registrations", SHORT, || async {
            let now = drill.fleet.etcd.keys("/delayq/dq/timer/members/").await;
            now.len() == 2 && now.iter().all(|key| !members.contains(key))
        })
        .await;
        drill.settled(&[&one, &other]).await;
        drill.flows().await;
        load.stop().await;
        drill.judge(&LEASE_REVOKED).await.timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_emptied_and_rebuilt_is_joined_again_and_no_epoch_falls() {
    conclusive(async || {
        let mut drill = Drill::new(Fleet::with(SHARDS).await).await;
        let (one, other) = drill.pair().await;
        // Revisions far beyond the future revisions of the rebuilt etcd: a member that waited for the old
        // revisions would wait for ever.
        drill.fleet.etcd.put_all(&(0..500).map(|n| format!("elsewhere/{n}")).collect::<Vec<_>>()).await;
        let load = drill.load().await;
        let before = one.metric("delayq_timer_epoch") + other.metric("delayq_timer_epoch");
        drill.fleet.etcd.rebuild().await;
        wait_until("everybody to have joined again", SHORT, || async {
            let etcd = &drill.fleet.etcd;
            let members = etcd.keys("/delayq/dq/timer/members/").await.len();
            members == 2 && !etcd.keys("/delayq/dq/timer/plan").await.is_empty()
        })
        .await;
        drill.settled(&[&one, &other]).await;
        drill.flows().await;
        // Equal if each timer keeps its shards.
        assert!(one.metric("delayq_timer_epoch") + other.metric("delayq_timer_epoch") >= before);
        load.stop().await;
        drill.judge(&ETCD_REBUILT).await.timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_compacted_under_a_watch_makes_nothing_late() {
    conclusive(async || {
        let mut fleet = Fleet::with(SHARDS).await;
        // So long that no keep-alive falls into the pause: the watch ends, and not the trust.
        fleet.times.lease = Duration::from_secs(30);
        let drill = Drill::new(fleet).await;
        let proxy = Proxy::start(&drill.fleet.etcd.members()[0].address());
        let slow = Route { etcd: vec![format!("http://{}", proxy.address())], ..drill.fleet.direct() };
        let (one, other) = (drill.timer_by("slow", slow).await, drill.timer("other").await);
        drill.settled(&[&one, &other]).await;
        let load = drill.load().await;
        proxy.set_both(Flow::Hold);
        fill_a_watch_of_drains(&drill.fleet.etcd).await;
        drill.fleet.etcd.compact().await;
        proxy.mend().await;
        let third = drill.timer("third").await;
        drill.settled(&[&one, &other, &third]).await;
        drill.flows().await;
        load.stop().await;
        drill.judge(&ETCD_COMPACTED).await.timing
    })
    .await;
}

/// Writes more over the drains than a connection and etcd hold back for one unread watch: first more than the
/// two megabytes that a client accepts on one stream, then more messages than etcd keeps.
async fn fill_a_watch_of_drains(etcd: &EtcdCluster) {
    let drains = "/delayq/dq/timer/drains";
    let long = format!(r#"{{"format":1,"members":{{"{}":{{"since_ms":0}}}}}}"#, "x".repeat(50_000));
    for _ in 0..60 {
        etcd.put(drains, &long).await;
    }
    for _ in 0..1_500 {
        etcd.put(drains, r#"{"format":1,"members":{}}"#).await;
    }
}

pub(crate) async fn secure(etcd: &mut EtcdCluster, operator: &[&str]) {
    for words in [
        &["user", "add", "root:root-password"][..],
        &["user", "grant-role", "root", "root"],
        &["role", "add", "delayq"],
        &["role", "grant-permission", "delayq", "--prefix=true", "readwrite", "/delayq/"],
        &["user", "add", "timer:timer-password"],
        &["user", "grant-role", "timer", "delayq"],
        &["auth", "enable"],
    ] {
        etcd.ctl(words).await;
    }
    etcd.operate_with(operator.iter().copied().chain([ROOT]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_died_with_etcd_is_asked_for_again_and_nothing_is_late() {
    conclusive(async || {
        let mut fleet = Fleet::with(SHARDS).await;
        secure(&mut fleet.etcd, &[]).await;
        fleet.credentials = Some(("timer".to_owned(), Secret::plain("timer-password")));
        let mut drill = Drill::new(fleet).await;
        let (one, other) = drill.pair().await;
        let load = drill.load().await;
        drill.fleet.etcd.member(0).kill().await;
        drill.fleet.etcd.member(0).resume().await;
        // A third timer joins with a new token; shards from the others prove that their tokens work.
        let third = drill.timer("third").await;
        drill.settled(&[&one, &other, &third]).await;
        drill.flows().await;
        load.stop().await;
        drill.judge(&TOKEN_LOST).await.timing
    })
    .await;
}
