//! A Redis Cluster, or several Redises, of which a node is away: the writes of its shards rest, in order, and all others go on.

use super::{message, reader, target, topic};
use delayq::spool::SpoolRecord;
use delayq::{Fate, Settings, UnixMillis};
use delayq_compensator::Resubmitter;
use delayq_spool::{SpoolSettings, SpoolWriter};
use delayq_tests::deadline::{LONG, within};
use delayq_tests::deployment::{created, settings};
use delayq_tests::folder::Folder;
use delayq_tests::redis_cluster::RedisCluster;
use delayq_tests::redis_nodes::RedisNodes;
use delayq_tests::redis_server::{RedisOptions, RedisServer};

const SHARDS: u16 = 12;
const IDS: u64 = 240;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_that_is_away_keeps_waiting_rests_and_the_others_go_on() {
    let mut cluster = RedisCluster::start_with(RedisOptions::default().append_only("always")).await;
    rests_while_away(settings(cluster.url(), SHARDS), &mut cluster.nodes[0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_of_several_redises_that_is_away_keeps_waiting_rests_and_the_others_go_on() {
    let mut nodes = RedisNodes::start(SHARDS / 3).await;
    rests_while_away(nodes.settings(), &mut nodes.servers[0]).await;
}

/// Carries out writes of all shards while one of the nodes is killed, and the rest of them afterwards.
async fn rests_while_away(settings: Settings, node: &mut RedisServer) {
    let (client, admin, _) = created(settings).await;
    let folder = Folder::new("spool");
    let spool = SpoolWriter::open(folder.path(), &SpoolSettings::default()).unwrap();
    let mut resubmitter = Resubmitter::new(reader(folder.path()), client, 50);
    node.kill().await;

    let (at, ids) = (UnixMillis::new(1), (0..IDS).map(|n| format!("m{n}")).collect::<Vec<_>>());
    let put = |id: &String| SpoolRecord::put(&message(id), Fate::NotApplied, at);
    let cancel = |id: &String| SpoolRecord::cancel(&topic(), &target(id), at);
    spool.append(ids.iter().map(put).chain(ids.iter().map(cancel)).collect()).await.unwrap();
    let mut done = 0;
    let resting = loop {
        let report = resubmitter.run_once().await.unwrap();
        assert_eq!(report.rejected, 0, "{report:?}");
        done += report.resubmitted;
        if report.at_end {
            break report.resting;
        }
    };
    assert!(done > IDS && resting > 50 && done + resting == 2 * IDS, "{done} done, {resting} rest");

    node.resume().await;
    within("nothing that rests", LONG, async {
        while resubmitter.stats().await.unwrap().waiting > 0 {
            if resubmitter.run_once().await.unwrap().at_end {
                resubmitter.try_again();
            }
        }
    })
    .await;
    let numbers = admin.count(&topic()).await.unwrap();
    assert_eq!((numbers.accepted, numbers.cancelled), (IDS, IDS), "each cancel came behind its put");
    let stats = resubmitter.stats().await.unwrap();
    assert!(stats.rejected == 0 && stats.balances(), "{stats:?}");
}
